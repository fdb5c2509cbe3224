"""Reducers: naive loops, gradients, degenerate batches, and the parts they work with."""

import pytest
import torch

import lookalike as la
from lookalike import losses, miners, reducers
from lookalike.errors import BadInput
from lookalike.mixing import Mixing
from lookalike.reducers import Terms
from lookalike.registry import LOSSES, REDUCERS
from lookalike.relations import relate

WEIGHTS = [0.5, 2.0, 1.0, 3.0, 0.0, 1.5, 1.0, 0.25]
SETTINGS = {
    "mean": "mean",
    "sum": "sum",
    "avg-non-zero": "avg-non-zero",
    "divisor": "divisor",
    "threshold": {"name": "threshold", "low": 0.1, "high": 2.0},
    "class-weighted": {"name": "class-weighted", "weights": WEIGHTS},
    "per-anchor": {"name": "per-anchor", "reducer": "avg-non-zero"},
    "multiple": {"name": "multiple", "reducers": {"pos_loss": "sum"}, "default_reducer": "mean"},
}
NAMES = [
    entry.name for entry in LOSSES.entries() if entry.build.__module__.startswith("lookalike.")
]


def build(name, **arguments):
    if "embedding_size" in (LOSSES.arguments(name) or {}):
        arguments |= {"num_classes": 8, "embedding_size": 6}
    torch.manual_seed(0)
    return losses.create(name, **arguments).double()


def test_every_reducer_is_here():
    assert set(SETTINGS) == set(reducers.names())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reducer", SETTINGS)
def test_every_loss_takes_every_reducer(name, reducer, batch):
    rows, labels = batch()
    loss = build(name, reducer=SETTINGS[reducer])
    for miner in (None, "multi-similarity", "semi-hard", "triplet-margin"):
        leaf = rows.clone().requires_grad_()
        mined = miners.create(miner)(leaf, labels) if miner else None
        value = loss(leaf, labels, mined)
        value.backward()
        assert value.shape == ()
        assert torch.isfinite(value)
        assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_default_by_name_is_the_default(name, batch):
    rows, labels = batch()
    plain = build(name)
    named = build(name, reducer=type(plain).default_reducer())
    assert torch.equal(named(rows, labels), plain(rows, labels))


@pytest.mark.parametrize("name", ["contrastive", "triplet", "margin", "ntxent", "proxy-anchor"])
@pytest.mark.parametrize("reducer", SETTINGS)
def test_gradcheck(name, reducer, batch):
    rows, labels = batch(12)
    loss = build(name, reducer=SETTINGS[reducer])
    leaf = rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), (leaf,), eps=1e-7, atol=1e-5)


DEGENERATE = {
    "no positives": (torch.randn(6, 6), torch.arange(6)),
    "one class": (torch.randn(6, 6), torch.zeros(6, dtype=torch.long)),
    "one image": (torch.randn(1, 6), torch.zeros(1, dtype=torch.long)),
    "no image": (torch.randn(0, 6), torch.zeros(0, dtype=torch.long)),
    "identical": (torch.ones(6, 6), torch.arange(6) // 2),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("reducer", SETTINGS)
@pytest.mark.parametrize("name", NAMES)
def test_degenerate_batches_are_finite(name, reducer, case):
    rows, labels = DEGENERATE[case]
    loss = build(name, reducer=SETTINGS[reducer]).float()
    leaf = rows.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(leaf.grad).all()


def triplets(rows, labels, margin):
    """Every triplet's anchor and hinge, one by one."""
    unit = torch.nn.functional.normalize(rows)
    apart = torch.cdist(unit, unit)
    for a in range(len(rows)):
        for p in range(len(rows)):
            for n in range(len(rows)):
                if a != p and labels[a] == labels[p] != labels[n]:
                    yield a, (apart[a, p] - apart[a, n] + margin).relu()


def naive(reducer, found, labels):
    """What each reducer makes of (anchor, value) pairs."""
    values = torch.stack([value for _, value in found])
    if reducer == "sum":
        return values.sum()
    if reducer == "threshold":
        return values[(values > 0.1) & (values < 2.0)].mean()
    if reducer == "class-weighted":
        return sum(WEIGHTS[labels[a]] * value for a, value in found) / len(found)
    if reducer == "per-anchor":
        means = [[v for b, v in found if b == a] for a in range(len(labels))]
        means = [sum(each) / len(each) if each else 0.0 for each in means]
        above = [each for each in means if each > 0]
        return sum(above) / len(above)
    if reducer == "avg-non-zero":
        return values[values > 0].mean()
    return values.mean()


@pytest.mark.parametrize("reducer", SETTINGS)
def test_triplets_by_a_loop(reducer, batch):
    rows, labels = batch(12)
    found = list(triplets(rows, labels, 0.5))
    loss = losses.TripletMarginLoss(0.5, reducer=SETTINGS[reducer])
    expected = naive(reducer, found, labels.tolist())
    torch.testing.assert_close(loss(rows, labels), expected)
    listed = tuple(miners.TripletMarginMiner(margin=torch.inf)(rows, labels))
    torch.testing.assert_close(loss(rows, labels, listed), expected)


def test_weights_and_counts():
    """A weight is part of the sum, a count of the number of values."""
    terms = Terms(torch.tensor([1.0, 2.0, 4.0]), *torch.tensor([[0.5, 1, 2], [1.0, 1, 2]]))
    relations = relate(torch.eye(3), torch.tensor([0, 1, 1]))
    made = {
        "mean": (0.5 + 2 + 8) / 4,
        "sum": 0.5 + 2 + 8,
        "divisor": (0.5 + 2 + 8) / 4,
        "class-weighted": (0.5 * 0.5 + 2 * 2 + 2 * 8) / 4,
        "threshold": 0.5 + 2,
    }
    for name, expected in made.items():
        given = {"name": name, "high": 3} if name == "threshold" else SETTINGS[name]
        found = REDUCERS.build(given, reducers.Reducer).reduce(terms, relations)
        assert found.item() == pytest.approx(expected if name != "threshold" else expected / 2)


def test_a_mixed_image_has_the_mean_of_its_classes_weights():
    rows = torch.tensor([[1.0, 0.0], [0.25, 0.75], [1.0, 1.0]])
    reducer = reducers.ClassWeightedReducer([1.0, 5.0])
    assert reducer.of_images(rows, rows).tolist() == [1.0, 4.0, 3.0]


def test_class_weights_of_proxies_are_those_of_their_classes(batch):
    rows, labels = batch()
    plain = build("proxy-anchor")
    value = build("proxy-anchor", reducer=SETTINGS["class-weighted"])(rows, labels)
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    parts = [(weights * part.values).mean() for part in plain.terms(plain.relations(rows, labels))]
    torch.testing.assert_close(value, sum(parts))


@pytest.mark.parametrize("name", ["contrastive", "multi-similarity", "ntxent", "proxy-anchor"])
@pytest.mark.parametrize("reducer", SETTINGS)
def test_mixing(name, reducer, batch):
    rows, labels = batch()
    loss = build(name, reducer=SETTINGS[reducer])
    for mixing in (Mixing("embed"), Mixing("embed", negatives=2)):
        torch.manual_seed(0)
        leaf = rows.clone().requires_grad_()
        value = mixing(loss, leaf, labels)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(leaf.grad).all()


def test_mixed_sum_is_the_mixed_mean_times_the_anchors(batch):
    rows, labels = batch()
    found = []
    for reducer in ("mean", "sum"):
        torch.manual_seed(3)
        found.append(Mixing("embed")(build("multi-similarity", reducer=reducer), rows, labels))
    torch.testing.assert_close(found[1], found[0] * len(rows))


def test_own_aggregation(batch):
    rows, labels = batch()

    def largest(values, number):
        return values.amax(1) * (number > 0)

    for name in ("contrastive", "ntxent"):
        loss = build(name, reducer=reducers.PerAnchorReducer(aggregation_func=largest))
        relations = build(name).relations(rows, labels)
        found = build(name).terms(relations)
        expected = 0
        for part in [found] if isinstance(found, Terms) else found:
            matrix = part.values * part.weights
            if part.images:
                matrix = torch.zeros_like(relations.similarity).index_put(part.images, matrix)
            expected = expected + matrix.amax(1).mean()
        torch.testing.assert_close(loss(rows, labels), expected)
    with pytest.raises(BadInput, match="for pairs"):
        build("triplet", reducer=reducers.PerAnchorReducer(aggregation_func=largest))(rows, labels)


def test_no_reducer_changes_the_penalties(batch):
    rows, labels = batch()
    given = {"embedding_regularizer": "l2", "weight_regularizer": "l2"}
    for name in ("arcface", "proxy-anchor"):
        plain = build(name, reducer="sum")
        both = rows.norm(dim=1).mean() + plain.class_vectors().norm(dim=1).mean()
        summed = build(name, reducer="sum", **given)(rows, labels)
        torch.testing.assert_close(summed, plain(rows, labels) + both)


def test_a_reducer_set_later_counts(batch):
    rows, labels = batch()
    loss = losses.TripletMarginLoss(0.5)
    loss.reducer = reducers.SumReducer()
    torch.testing.assert_close(
        loss(rows, labels), losses.TripletMarginLoss(0.5, reducer="sum")(rows, labels)
    )


def test_in_a_configuration():
    loss = la.losses.create("contrastive", reducer={"name": "threshold", "low": 0.1})
    given = reducers.ThresholdReducer(low=0.1)
    assert loss.reducer == given


def test_refusals(batch):
    rows, labels = batch()
    with pytest.raises(BadInput, match="did you mean 'mean'"):
        losses.ContrastiveLoss(reducer="meen")
    with pytest.raises(BadInput, match="low or high"):
        reducers.ThresholdReducer()
    with pytest.raises(BadInput, match="none of the reducers"):
        losses.ContrastiveLoss(reducer=3)
    with pytest.raises(BadInput, match="one number per class"):
        reducers.ClassWeightedReducer([[1.0]])
    few = losses.ContrastiveLoss(reducer=reducers.ClassWeightedReducer([1.0, 2.0]))
    with pytest.raises(BadInput, match="2 class weights"):
        few(rows, labels)
