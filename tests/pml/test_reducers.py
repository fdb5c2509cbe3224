"""Value and gradient with every reducer equal PML's, loss by loss."""

import pytest
import pytorch_metric_learning.losses as their_losses
import pytorch_metric_learning.reducers as their_reducers
import torch

import lookalike.pml.losses as losses
import lookalike.pml.miners as miners
import lookalike.pml.reducers as reducers
from lookalike.pml.losses import CrossBatchMemory

WEIGHTS = [0.5, 2.0, 1.0, 3.0, 0.0, 1.5, 1.0, 0.25]

CASES = {
    "mean": ("MeanReducer", {}),
    "sum": ("SumReducer", {}),
    "avg-non-zero": ("AvgNonZeroReducer", {}),
    "low": ("ThresholdReducer", {"low": 0.3}),
    "high": ("ThresholdReducer", {"high": 0.9}),
    "low and high": ("ThresholdReducer", {"low": 0.1, "high": 1.1}),
    "class weights": ("ClassWeightedReducer", {"weights": torch.tensor(WEIGHTS)}),
    "per anchor": ("PerAnchorReducer", {}),
}


@pytest.fixture(params=CASES)
def both(request):
    """A reducer of ours and the same of PML."""
    name, settings = CASES[request.param]
    return getattr(reducers, name)(**settings), getattr(their_reducers, name)(**settings)


@pytest.fixture
def batch():
    """Embeddings in float64 and labels of eight unequal classes."""

    def make(size=24, dim=6, seed=0):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(size, dim, dtype=torch.float64, generator=generator)
        return rows, torch.randint(0, 8, (size,), generator=generator)

    return make


LEARNED = {"learn_beta": True, "nu": 0.1}
PAIRS = [
    ("ContrastiveLoss", {}),
    ("TripletMarginLoss", {"margin": 0.5}),
    ("TripletMarginLoss", {"swap": True}),
    ("LiftedStructureLoss", {}),
    ("GeneralizedLiftedStructureLoss", {}),
    ("NPairsLoss", {}),
    ("NTXentLoss", {"temperature": 0.5}),
    ("SupConLoss", {}),
    ("NCALoss", {"softmax_scale": 3}),
    ("MultiSimilarityLoss", {}),
    *(("MarginLoss", each) for each in ({}, LEARNED, LEARNED | {"num_classes": 8})),
    ("FastAPLoss", {}),
    ("CircleLoss", {}),
    ("TupletMarginLoss", {}),
    ("IntraPairVarianceLoss", {}),
]
PROXIES = [
    ("ProxyNCALoss", {"softmax_scale": 4}),
    ("ProxyAnchorLoss", {"alpha": 4}),
    ("SoftTripleLoss", {}),
    ("NormalizedSoftmaxLoss", {}),
    ("ArcFaceLoss", {"scale": 2}),
]


COLUMNS = {"LiftedStructureLoss", "GeneralizedLiftedStructureLoss", "MultiSimilarityLoss"}
COLUMNS |= {"CircleLoss", "TupletMarginLoss"}


def wrong_in_pml(name, reducer):
    """Triplets per anchor are ours alone; PML gives proxies the weights of images.

    Where the values are a column [n, 1], PML multiplies each by all weights.
    """
    if isinstance(reducer, reducers.PerAnchorReducer):
        return name in (
            "TripletMarginLoss",
            "MarginLoss",
            "LiftedStructureLoss",
            "TupletMarginLoss",
        )
    return isinstance(reducer, reducers.ClassWeightedReducer) and (
        name in COLUMNS or name == "ProxyAnchorLoss"
    )


@pytest.mark.parametrize("miner", [None, "MultiSimilarityMiner", "TripletMarginMiner"])
@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_pair_losses(name, settings, miner, both, batch, value_and_gradient, assert_same):
    mine, other = both
    if wrong_in_pml(name, mine):
        pytest.skip("PML does not have it, or has it wrong")
    if miner == "TripletMarginMiner" and isinstance(mine, reducers.PerAnchorReducer):
        pytest.skip("PML counts a pair that is in many triplets once; ours as often as it is named")
    rows, labels = batch()
    mined = tuple(getattr(miners, miner)()(rows, labels)) if miner else None
    ours = getattr(losses, name)(**settings, reducer=mine).double()
    theirs = getattr(their_losses, name)(**settings, reducer=other).double()
    expected = value_and_gradient(theirs, rows, labels, mined)
    assert_same(value_and_gradient(ours, rows, labels, mined), expected)
    # PML's own reducer in our loss
    borrowed = getattr(losses, name)(**settings, reducer=other).double()
    assert_same(value_and_gradient(borrowed, rows, labels, mined), expected)


@pytest.mark.parametrize("miner", [None, "MultiSimilarityMiner"])
@pytest.mark.parametrize(("name", "settings"), PROXIES)
def test_proxy_losses(name, settings, miner, both, batch, value_and_gradient, assert_same):
    mine, other = both
    if wrong_in_pml(name, mine):
        pytest.skip("PML does not have it, or has it wrong")
    rows, labels = batch()
    mined = tuple(getattr(miners, miner)()(rows, labels)) if miner else None
    built = []
    for library, reducer in ((losses, mine), (their_losses, other)):
        torch.manual_seed(0)
        built.append(getattr(library, name)(8, 6, **settings, reducer=reducer).double())
    found, expected = (value_and_gradient(loss, rows, labels, mined) for loss in built)
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["ContrastiveLoss", "TripletMarginLoss", "NTXentLoss"])
def test_in_a_memory(name, both, batch, value_and_gradient, assert_same):
    mine, other = both
    if isinstance(mine, reducers.PerAnchorReducer):
        pytest.skip("PML's does not know candidates other than the batch")
    ours = CrossBatchMemory(getattr(losses, name)(reducer=mine), 6, 40)
    theirs = their_losses.CrossBatchMemory(getattr(their_losses, name)(reducer=other), 6, 40)
    for seed in range(4):
        rows, labels = batch(16, seed=seed)
        expected = value_and_gradient(theirs, rows, labels)
        assert_same(value_and_gradient(ours, rows, labels), expected)


@pytest.mark.parametrize("kinds", [reducers, their_reducers])
def test_a_reducer_for_each_kind_of_pair(kinds, batch, value_and_gradient, assert_same):
    """Ours, and those of PML inside ours."""
    found = []
    for library, outer, inner in (
        (losses, reducers, kinds),
        (their_losses, their_reducers, their_reducers),
    ):
        parts = {"pos_loss": inner.SumReducer(), "neg_loss": inner.ThresholdReducer(low=0.2)}
        loss = library.ContrastiveLoss(reducer=outer.MultipleReducers(parts))
        found.append(value_and_gradient(loss, *batch()))
    assert_same(*found)


@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_no_reduction(name, settings, batch):
    """The same dictionary, up to the order of its elements."""
    rows, labels = batch()
    built = [
        getattr(library, name)(**settings, reducer=kinds.DoNothingReducer()).double()
        for library, kinds in ((losses, reducers), (their_losses, their_reducers))
    ]
    ours, theirs = (loss(rows, labels) for loss in built)
    for part, entry in ours.items():
        other = theirs[part]
        assert entry["reduction_type"] == other["reduction_type"] or part == "beta_reg_loss"
        expected = torch.as_tensor(other["losses"]).flatten().sort().values
        torch.testing.assert_close(entry["losses"].flatten().sort().values, expected)
        if entry["indices"] is None:
            continue
        mine, there = (_by_place(each) for each in (entry, other))
        if part != "beta_reg_loss":
            assert mine.keys() == there.keys()
            for place, value in mine.items():
                assert value == pytest.approx(there[place], rel=1e-7, abs=1e-9)
    assert set(ours) | {"beta_reg_loss"} >= set(theirs)


def _by_place(entry):
    indices = entry["indices"]
    places = zip(*([indices] if isinstance(indices, torch.Tensor) else indices), strict=True)
    values = entry["losses"].flatten().tolist()
    return {
        tuple(int(i) for i in place): value for place, value in zip(places, values, strict=True)
    }


def test_called_as_pml(both, batch):
    """The dictionaries that PML's losses give their reducers."""
    mine, other = both
    rows, labels = batch()
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(24, dtype=torch.float64, generator=generator)
    pairs = torch.arange(24), torch.randint(0, 24, (24,), generator=generator)
    entries = {
        "element": torch.arange(24),
        "pos_pair": pairs,
        "neg_pair": pairs,
        "already_reduced": None,
    }
    for kind, indices in entries.items():
        losses_ = values[0] if indices is None else values
        entry = {"loss": {"losses": losses_, "indices": indices, "reduction_type": kind}}
        torch.testing.assert_close(mine(entry, rows, labels), other(entry, rows, labels))
    nothing = {"loss": {"losses": 0, "indices": None, "reduction_type": "already_reduced"}}
    assert mine(nothing, rows, labels) == 0
