"""What must hold for every loss of the catalogue, whatever it computes."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike.losses as losses
import lookalike.miners as miners
from lookalike.errors import BadInput
from lookalike.registry import LOSSES

DIM, CLASSES = 6, 6
NAMES = [
    entry.name for entry in LOSSES.entries() if entry.build.__module__.startswith("lookalike.")
]


MINERS = [name for name in miners.names() if name != "hdc"]
"""Each loss takes one of them, some losses take all; test_meta_device.py pairs more."""


def build(name, **arguments):
    takes = inspect.signature(LOSSES.find(name).build).parameters
    if "embedding_size" in takes:
        arguments |= {"num_classes": CLASSES, "embedding_size": DIM}
    torch.manual_seed(0)
    return losses.create(name, **arguments)


def is_proxy(loss):
    return isinstance(loss, losses.ProxyLoss)


@pytest.fixture
def data(batch):
    embeddings, labels = batch("unbalanced", 16, dim=DIM)
    return embeddings, labels % CLASSES


def test_the_catalogue_is_complete():
    wanted = (
        "contrastive triplet lifted-structure generalized-lifted-structure n-pairs ntxent supcon "
        "nca multi-similarity margin angular histogram fast-ap smooth-ap snr-contrastive circle "
        "ranked-list tuplet-margin intra-pair-variance quadruplet binomial-deviance proxy-nca "
        "proxy-nca++ proxy-anchor soft-triple normalized-softmax cosface arcface "
        "subcenter-arcface sphereface proxy-to-proxy-1 proxy-to-proxy-2"
    )
    assert set(wanted.split(" ")) <= set(losses.names())
    assert all(LOSSES.find(name).paper for name in wanted.split(" "))  # others may have none


@pytest.mark.parametrize("name", NAMES)
def test_summary(name):
    assert LOSSES.find(name).summary.endswith(".")


# circle's weights of pairs are constants by definition, so its slope is not that of its value
@pytest.mark.parametrize("name", [name for name in NAMES if name != "circle"])
def test_gradcheck(name, data):
    embeddings, labels = data
    loss = build(name).double()
    leaf = embeddings.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), (leaf,), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck_of_weights(name, data):
    embeddings, labels = data
    loss = build(name).double()
    for weight in loss.parameters():

        def value(rows, weight=weight):
            with torch.no_grad():
                weight.copy_(rows)
            return loss(embeddings, labels)

        start = weight.detach().clone()
        analytic = torch.autograd.grad(loss(embeddings, labels), weight)[0]
        step = torch.randn_like(start)
        step /= step.norm()
        with torch.no_grad():
            slope = (value(start + 1e-6 * step) - value(start - 1e-6 * step)) / 2e-6
            weight.copy_(start)
        torch.testing.assert_close((analytic * step).sum(), slope, rtol=1e-4, atol=1e-6)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000))
@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_batch_does_not_matter(name, seed):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(14, DIM, dtype=torch.float64, generator=generator)
    labels = torch.randint(0, CLASSES, (14,), generator=generator)
    if name == "n-pairs":  # it takes each class's first pair; with two a class they are alike
        labels, embeddings = torch.arange(12) % CLASSES, embeddings[:12]
        embeddings[6:] = embeddings[:6]
    order = torch.randperm(len(labels), generator=generator)
    loss = build(name).double()
    torch.testing.assert_close(
        loss(embeddings[order], labels[order]), loss(embeddings, labels), rtol=1e-9, atol=1e-12
    )


@settings(max_examples=4, deadline=None)
@given(numbers=st.permutations(range(CLASSES)), far=st.sampled_from([0, 2**24, 2**53, -(2**62)]))
@pytest.mark.parametrize("name", [name for name in NAMES if not is_proxy(build(name))])
def test_numbers_of_classes_do_not_matter(name, numbers, far):
    generator = torch.Generator().manual_seed(3)
    embeddings = torch.randn(14, DIM, dtype=torch.float64, generator=generator)
    labels = torch.randint(0, CLASSES, (14,), generator=generator)
    renamed = torch.tensor(numbers)[labels] + far
    loss = build(name)
    torch.testing.assert_close(
        loss(embeddings, renamed), loss(embeddings, labels), rtol=1e-12, atol=1e-13
    )


DEGENERATE = {
    "no positives": (torch.randn(6, DIM), torch.arange(6)),
    "one class": (torch.randn(6, DIM), torch.zeros(6, dtype=torch.long)),
    "one image": (torch.randn(1, DIM), torch.zeros(1, dtype=torch.long)),
    "no image": (torch.randn(0, DIM), torch.zeros(0, dtype=torch.long)),
    "identical": (torch.ones(6, DIM), torch.arange(6) // 2),
    "zero vectors": (torch.zeros(6, DIM), torch.arange(6) // 2),
    "one zero vector": (torch.eye(6, DIM) - torch.eye(6, DIM)[:1], torch.arange(6) // 2),
    "very long": (torch.randn(6, DIM) * 1e6, torch.arange(6) // 2),
    "very short": (torch.randn(6, DIM) * 1e-6, torch.arange(6) // 2),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", NAMES)
def test_degenerate_batches_are_finite(name, case):
    embeddings, labels = DEGENERATE[case]
    loss = build(name)
    of_images = (miners.MultiSimilarityMiner(), miners.SemiHardMiner()) if len(labels) else ()
    for miner in (None, *of_images):
        leaf = embeddings.clone().requires_grad_()
        value = loss(leaf, labels, miner(leaf, labels) if miner else None)
        value.sum().backward()
        assert torch.isfinite(value)
        assert torch.isfinite(leaf.grad).all()
        if case != "very short":
            assert leaf.grad.abs().max() < 1e6 if len(labels) else True


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision(name, dtype, data):
    """Half precision is raised to float32 at the door: the loss of the rounded embeddings."""
    embeddings, labels = data
    rounded = embeddings.to(dtype)
    loss = build(name)
    leaf = rounded.clone().requires_grad_()
    value = loss(leaf, labels)
    value.backward()
    assert value.dtype == torch.float32
    assert leaf.grad.dtype == dtype
    torch.testing.assert_close(value, loss(rounded.float(), labels))


@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_nothing(name, data):
    embeddings, labels = data
    loss, plain = build(name), embeddings.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss(plain, labels)
        mined = miners.MultiSimilarityMiner()(plain, labels)
    torch.testing.assert_close(inside, loss(plain, labels))
    assert next(iter(mined)).dtype == torch.long


@pytest.mark.parametrize("name", NAMES)
def test_non_contiguous(name, data):
    embeddings, labels = data
    loss = build(name).double()
    wide = torch.stack([embeddings, embeddings], 2)[..., 0].T.contiguous().T
    assert not wide.is_contiguous()
    torch.testing.assert_close(loss(wide, labels), loss(embeddings, labels))


@pytest.mark.parametrize(
    ("name", "miner"),
    [(name, MINERS[number % len(MINERS)]) for number, name in enumerate(NAMES)]
    + [(name, miner) for name in ("contrastive", "triplet", "fast-ap") for miner in MINERS],
)
def test_losses_take_miners(name, miner, data):
    embeddings, labels = data
    loss = build(name).double()
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, labels, miners.create(miner)(leaf, labels))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("name", [name for name in NAMES if not is_proxy(build(name))])
def test_every_pair_loss_takes_memory_and_multi_hot_labels(name, data, batch):
    embeddings, labels = data
    memory, classes = batch("unbalanced", 20, dim=DIM, seed=5)
    loss = build(name).double()
    assert torch.isfinite(loss(embeddings, labels, None, memory, classes % CLASSES))
    if name == "quadruplet":  # of classes: other labels are refused
        return
    rows = torch.nn.functional.one_hot(labels, CLASSES)
    if name != "margin":
        torch.testing.assert_close(loss(embeddings, rows), loss(embeddings, labels))
    rows[:, 0] = 1  # now everything overlaps with everything
    jaccard = build(name, label_comparison="jaccard").double()
    leaf = embeddings.clone().requires_grad_()
    value = jaccard(leaf, rows)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("name", [name for name in NAMES if is_proxy(build(name))])
def test_soft_rows_equal_class_numbers(name, data):
    embeddings, labels = data
    loss = build(name).double()
    rows = torch.nn.functional.one_hot(labels, CLASSES)
    torch.testing.assert_close(loss(embeddings, rows), loss(embeddings, labels))
    relations = loss.relations(embeddings, labels)
    torch.testing.assert_close(loss.total_loss(relations), loss(embeddings, labels))
    with pytest.raises(BadInput, match="learned vectors"):
        loss(embeddings, labels, None, embeddings.clone(), labels)


def test_tiny_temperature_does_not_overflow(data):
    embeddings, labels = data
    for dtype in (torch.float32, torch.float64):
        leaf = embeddings.to(dtype).requires_grad_()
        value = losses.NTXentLoss(temperature=0.0002)(leaf, labels)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(leaf.grad).all()


COMPILED = [
    "contrastive",
    "multi-similarity",
    "ntxent",
    "supcon",
    "generalized-lifted-structure",
    "proxy-anchor",
    "proxy-nca",
    "normalized-softmax",
    "arcface",
    "fast-ap",
    "triplet",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_as_one_graph(name, data):
    embeddings, labels = data
    loss = build(name).double()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    left, right = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    expected = loss(left, labels)
    found = compiled(right, labels)
    torch.testing.assert_close(found, expected)
    expected.backward()
    found.backward()
    torch.testing.assert_close(left.grad, right.grad)


def test_refusals(data):
    embeddings, labels = data
    with pytest.raises(BadInput, match="did you mean 'margin'"):
        losses.create("triplet", margn=0.1)
    with pytest.raises(BadInput, match="did you mean 'cosine'"):
        losses.create("triplet", distance="cosin")
    with pytest.raises(BadInput, match="needs labels"):
        losses.ContrastiveLoss()(embeddings)
    with pytest.raises(BadInput, match="labels"):
        losses.ContrastiveLoss()(embeddings, labels[:-1])
    with pytest.raises(BadInput, match="3 tensors"):
        losses.ContrastiveLoss()(embeddings, labels, (labels, labels))


def test_indices_alone_are_enough(data):
    embeddings, labels = data
    mined = tuple(miners.AllMiner()(embeddings, labels))
    for loss in (losses.ContrastiveLoss(), losses.TripletMarginLoss(), losses.NTXentLoss()):
        torch.testing.assert_close(loss(embeddings, None, mined), loss(embeddings, labels))


def test_random_triplets_per_anchor(data):
    embeddings, labels = data
    torch.manual_seed(0)
    for loss in (
        losses.TripletMarginLoss(triplets_per_anchor=5),
        losses.MarginLoss(triplets_per_anchor=5),
    ):
        assert torch.isfinite(loss(embeddings, labels))
    many = losses.TripletMarginLoss(0.5, triplets_per_anchor=20000)(embeddings, labels)
    hardly = losses.TripletMarginLoss(0.5)(embeddings, labels)
    assert abs(many - hardly) < 0.1


def test_tuned_settings_build(data):
    for name in losses.names():
        for entry in losses.tuned(name):
            assert build(name, **entry.values) is not None
    assert {entry.dataset for entry in losses.tuned("triplet")} >= {"CUB", "Cars", "SOP", "CUB-256"}


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_shown_can_be_given(name):
    """What the signature shows, the loss takes: its own default, given by name."""
    shown = inspect.signature(LOSSES.find(name).build).parameters.values()
    given = {p.name: p.default for p in shown if p.default is not p.empty}
    assert "distance" in given
    assert not any(p.kind is p.VAR_KEYWORD for p in shown)
    build(name, **given)
