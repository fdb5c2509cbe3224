"""Miners against PML and against loops."""

import inspect
import math

import pytest
import pytorch_metric_learning.miners as theirs
import torch
from torch.nn.functional import normalize

import lookalike.losses as losses
import lookalike.miners as miners
from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.registry import MINERS

CASES = [
    ("MultiSimilarityMiner", {}),
    ("MultiSimilarityMiner", {"epsilon": 0.4}),
    ("PairMarginMiner", {}),
    ("PairMarginMiner", {"pos_margin": 1.2, "neg_margin": 1.3}),
    ("BatchHardMiner", {}),
    ("BatchEasyHardMiner", {}),
    ("BatchEasyHardMiner", {"pos_strategy": "semihard", "neg_strategy": "hard"}),
    ("BatchEasyHardMiner", {"pos_strategy": "hard", "neg_strategy": "easy"}),
    ("BatchEasyHardMiner", {"pos_strategy": "all", "neg_strategy": "hard"}),
    ("BatchEasyHardMiner", {"pos_strategy": "easy", "neg_strategy": "all"}),
    ("BatchEasyHardMiner", {"allowed_pos_range": (0.5, 1.3), "allowed_neg_range": (1.0, 1.6)}),
    ("TripletMarginMiner", {}),
    ("TripletMarginMiner", {"margin": -0.1}),
    ("TripletMarginMiner", {"type_of_triplets": "hard"}),
    ("TripletMarginMiner", {"type_of_triplets": "semihard"}),
    ("TripletMarginMiner", {"type_of_triplets": "easy"}),
    ("AngularMiner", {}),
    ("AngularMiner", {"angle": 40}),
]


@pytest.fixture
def data():
    torch.manual_seed(0)
    return normalize(torch.randn(30, 8, dtype=torch.float64)), torch.randint(0, 8, (30,))


@pytest.fixture
def reference():
    torch.manual_seed(1)
    return normalize(torch.randn(23, 8, dtype=torch.float64)), torch.randint(0, 8, (23,))


def as_sets(found):
    found = [index.tolist() for index in found]
    if len(found) == 3:
        return [sorted(zip(*found, strict=True))]
    return [
        sorted(zip(found[0], found[1], strict=True)),
        sorted(zip(found[2], found[3], strict=True)),
    ]


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("with_reference", [False, True])
def test_same_as_pml(name, settings, with_reference, data, reference):
    rest = reference if with_reference else ()
    ours = getattr(miners, name)(**settings)(*data, *rest)
    expected = getattr(theirs, name)(**settings)(*data, *rest)
    assert as_sets(ours) == as_sets(expected)
    assert len(ours) == len(expected)
    for position, index in enumerate(ours):
        assert ours[position].tolist() == index.tolist()


def test_semi_hard_by_loops(data):
    embeddings, labels = data
    distance = torch.cdist(embeddings, embeddings)
    expected = []
    for a in range(30):
        negatives = [n for n in range(30) if labels[n] != labels[a]]
        for p in range(30):
            if p == a or labels[p] != labels[a]:
                continue
            inside = [
                n for n in negatives if distance[a, p] < distance[a, n] < distance[a, p] + 0.2
            ]
            chosen = min(inside or negatives, key=lambda n, a=a: float(distance[a, n]))
            expected.append((a, p, chosen))
    assert as_sets(miners.create("semi-hard")(*data)) == [sorted(expected)]


@pytest.mark.parametrize("with_reference", [False, True])
def test_semi_hard_of_the_thesis_by_loops(data, reference, with_reference):
    """Psomas, "Mining": ``argmax S_an`` over the negatives with ``S_an < S_ap``, nothing else."""
    embeddings, labels = data
    candidates, classes = reference if with_reference else data
    cosine = embeddings @ candidates.T
    expected, pairs = [], 0
    for a in range(len(labels)):
        for p in range(len(classes)):
            if classes[p] != labels[a] or (p == a and not with_reference):
                continue
            pairs += 1
            below = [
                n
                for n in range(len(classes))
                if classes[n] != labels[a] and cosine[a, n] < cosine[a, p]
            ]
            if below:
                expected.append((a, p, max(below, key=lambda n, a=a: float(cosine[a, n]))))
    assert 0 < len(expected) < pairs  # some positive is less similar than every negative
    rest = reference if with_reference else ()
    assert as_sets(miners.create("semi-hard", fallback="none")(*data, *rest)) == [sorted(expected)]


def test_semi_hard_without_fallback_keeps_to_its_margin(data):
    distance = torch.cdist(data[0], data[0])
    anchor, positive, negative = miners.SemiHardMiner(margin=0.05, fallback="none")(*data)
    gap = distance[anchor, negative] - distance[anchor, positive]
    assert 0 < len(anchor) < len(miners.SemiHardMiner(fallback="none")(*data)[0])
    assert ((gap > 0) & (gap < 0.05)).all()


def test_semi_hard_finds_nothing_where_every_negative_is_nearer():
    embeddings = normalize(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]]))
    labels = torch.tensor([0, 0, 1, 2])
    assert len(miners.SemiHardMiner(fallback="none")(embeddings, labels)[0]) == 0
    assert len(miners.SemiHardMiner()(embeddings, labels)[0]) == 2
    loss = losses.TripletMarginLoss(0.1)
    mined = miners.SemiHardMiner(fallback="none")(embeddings, labels)
    assert loss(embeddings, labels, mined) == 0


def test_random_triplets_are_triplets(data):
    anchor, positive, negative = miners.RandomMiner(5)(*data)
    labels = data[1]
    assert (labels[anchor] == labels[positive]).all()
    assert (labels[anchor] != labels[negative]).all()
    assert (anchor != positive).all()
    assert anchor.bincount().max() == 5


def test_distance_weighted_follows_its_weights(data):
    """Drawn often enough, negatives appear as often as the density says."""
    embeddings, labels = data
    miner = miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4)
    torch.manual_seed(0)
    counts = torch.zeros(30, 30)
    for _ in range(3000):
        anchor, positive, negative = miner(embeddings, labels)
        assert (labels[anchor] == labels[positive]).all()
        counts.index_put_((anchor, negative), torch.ones(len(anchor)), accumulate=True)
    dim = embeddings.shape[1]
    expected = torch.zeros(30, 30)
    for a in range(30):
        for n in range(30):
            d = max(float((embeddings[a] - embeddings[n]).norm()), 0.5)
            if labels[a] != labels[n] and d < 1.4:
                expected[a, n] = math.exp(
                    (2 - dim) * math.log(d) - (dim - 3) / 2 * math.log(1 - d * d / 4)
                )
    rows = counts.sum(1) > 0
    found = counts[rows] / counts[rows].sum(1, keepdim=True)
    wanted = expected[rows] / expected[rows].sum(1, keepdim=True)
    assert (found - wanted).abs().max() < 0.05
    assert (found[wanted == 0] == 0).all()


@pytest.mark.parametrize(
    "inner", ["semi-hard", "hard", "random", "distance-weighted", "triplet-margin"]
)
@pytest.mark.parametrize("with_reference", [False, True])
def test_rho_replaces_triplets(inner, with_reference, data, reference):
    rest = reference if with_reference else ()
    labels = data[1]
    classes = reference[1] if with_reference else labels
    torch.manual_seed(0)
    always = miners.RhoMiner(inner, probability=1)(*data, *rest)
    anchor, positive, negative = always
    # a class with one reference only has no other to be pushed from
    others = (labels[anchor].unsqueeze(1) == classes).sum(1) > 1
    anchor, positive, negative = anchor[others], positive[others], negative[others]
    assert len(anchor) > 0
    assert (labels[anchor] == classes[positive]).all()
    assert (labels[anchor] == classes[negative]).all()
    assert (positive != negative).all()
    if not with_reference:
        assert (anchor == positive).all()
    if inner in ("semi-hard", "hard", "triplet-margin"):
        never = miners.create("rho", miner=inner, probability=0)(*data, *rest)
        assert as_sets(never) == as_sets(miners.create(inner)(*data, *rest))
    assert torch.isfinite(losses.TripletMarginLoss()(*data, always, *rest))


def test_rho_share_and_refusals(data):
    torch.manual_seed(0)
    miner = miners.RhoMiner(miners.RandomMiner(200), probability=0.2)
    anchor, positive, _ = miner(*data)
    assert abs((anchor == positive).double().mean() - 0.2) < 0.02
    with pytest.raises(BadInput, match="from 0 to 1"):
        miners.RhoMiner(probability=2)


@pytest.mark.parametrize("with_reference", [False, True])
def test_rho_of_pairs_turns_positives_into_negatives(with_reference, data, reference):
    """A positive pair becomes the negative pair of such a triplet: anchor and a classmate."""
    rest = reference if with_reference else ()
    labels = data[1]
    classes = reference[1] if with_reference else labels
    before = as_sets(miners.AllMiner()(*data, *rest))
    assert as_sets(miners.RhoMiner("all", probability=0)(*data, *rest)) == before
    anchor, positive, other, negative = miners.RhoMiner("all", probability=1)(*data, *rest)
    kept = list(zip(anchor.tolist(), positive.tolist(), strict=True))
    # only an image whose class has no other candidate keeps its positive
    assert all((labels[a] == classes).sum() == 1 for a, _ in kept)
    assert with_reference or not kept
    pushed = labels[other] == classes[negative]
    assert pushed.sum() == len(before[0]) - len(kept)
    assert with_reference or (other != negative).all()
    assert (~pushed).sum() == len(before[1])


def test_a_miner_reads_the_similarities_of_a_loss_with_its_distance(data):
    computed = []

    class Counting(LpDistance):
        def similarity(self, query, reference=None):
            computed.append(self)
            return super().similarity(query, reference)

    loss, labels = losses.TripletMarginLoss(distance=Counting()), data[1]
    relations = loss.relations(*data)
    same, other = miners.SemiHardMiner(distance=Counting()), miners.SemiHardMiner()
    found = same.choose(loss.image_relations(relations, same.distance))
    assert len(computed) == 1
    expected = other.choose(loss.image_relations(relations, other.distance))
    assert len(computed) == 1  # by its own
    value = loss.total_loss(relations, found)
    torch.testing.assert_close(value, loss.total_loss(relations, expected))
    assert value == loss(data[0], labels, same(*data))


@pytest.mark.parametrize("name", miners.names())
def test_every_miner(name, data):
    """Strings, half precision, degenerate batches, a summary, and no gradient."""
    entry = MINERS.find(name)
    assert entry.summary.endswith(".")
    assert "kwargs" not in inspect.signature(entry.build).parameters
    miner = miners.create(name)
    embeddings, labels = data
    torch.manual_seed(0)
    named = miner(embeddings.half().requires_grad_(), [f"class {label}" for label in labels])
    assert all(index.dtype == torch.long for index in named)
    for labels in (torch.arange(6), torch.zeros(6, dtype=torch.long)):
        for embeddings in (torch.randn(6, 3), torch.ones(6, 3), torch.zeros(6, 3)):
            found = miner(embeddings, labels)
            assert len(found) in (3, 4)
    one = miner(torch.randn(1, 3), torch.zeros(1))
    assert all(len(index) == 0 for index in one)


def test_refusals():
    with pytest.raises(BadInput, match="did you mean 'semihard'"):
        miners.TripletMarginMiner(type_of_triplets="semi-hard")
    with pytest.raises(BadInput, match="semihard"):
        miners.BatchEasyHardMiner("semihard", "all")
    with pytest.raises(BadInput, match="did you mean 'margin'"):
        miners.create("semi-hard", margn=1)
    with pytest.raises(BadInput, match="no fallback 'hard'; did you mean 'hardest'"):
        miners.SemiHardMiner(fallback="hard")
    with pytest.raises(BadInput, match="fallback = 'hard'"):
        miners.create("semi-hard", fallback="hard")
    with pytest.raises(BadInput, match="unit vectors"):
        miners.DistanceWeightedMiner(distance="snr")


@pytest.mark.parametrize("name", miners.names())
def test_every_argument_shown_can_be_given(name):
    shown = inspect.signature(MINERS.find(name).build).parameters.values()
    miners.create(name, **{p.name: p.default for p in shown})


def test_distance_weighted_without_a_lower_cutoff_keeps_every_anchor():
    """The weight of an image and itself, 1 / 0, must not reach the others of its row."""
    torch.manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(64, 16))
    labels = torch.arange(64) // 4
    pairs = 64 * 3
    with_cutoff = miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=2.1)
    without = miners.DistanceWeightedMiner(cutoff=0, nonzero_loss_cutoff=2.1)
    for miner in (with_cutoff, without):
        anchors, positives, negatives = miner(embeddings, labels)
        assert len(anchors) == pairs
        assert (labels[anchors] == labels[positives]).all()
        assert (labels[anchors] != labels[negatives]).all()


def test_nan_embeddings_are_named():
    embeddings = torch.randn(8, 4)
    embeddings[2] = torch.nan
    with pytest.raises(BadInput, match="embeddings hold NaN"):
        tuple(miners.MultiSimilarityMiner()(embeddings, torch.arange(8) // 2))


def test_no_distance_is_below_a_negative_cutoff():
    """Of an image and a copy of it under another label, too."""
    rows = torch.randn(4, 3)
    miner = miners.DistanceWeightedMiner(0, -0.01)
    found = miner(rows, torch.tensor([0, 0, 1, 1]), rows.clone(), torch.tensor([1, 0, 0, 1]))
    assert all(len(part) == 0 for part in found)
