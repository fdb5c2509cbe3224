"""Every kernel against the formula that defines its loss, and what only the formula can do."""

import inspect
from contextlib import nullcontext
from itertools import chain

import pytest
import torch

import lookalike.losses as losses
import lookalike.miners as miners
from lookalike.ops.fused import formulas_only
from lookalike.ops.sync import as_on_a_device
from lookalike.registry import LOSSES

DIM, CLASSES = 6, 6
NAMES = [e.name for e in LOSSES.entries() if e.build.__module__.startswith("lookalike.")]
VARIANTS = {name: (name, {}) for name in NAMES} | {
    "contrastive on similarity": ("contrastive", {"on": "similarity", "neg_margin": 0.5}),
    "triplet smooth": ("triplet", {"smooth_loss": True}),
    "triplet swap": ("triplet", {"swap": True}),
    "triplet direction": ("triplet", {"direction": 0.4}),
    "multi-similarity direction": ("multi-similarity", {"direction": 0.3}),
    "multi-similarity, large exponents": ("multi-similarity", {"beta": 500}),
    "proxy-anchor, large exponents": ("proxy-anchor", {"alpha": 300}),
    "proxy-nca others": ("proxy-nca", {"denominator": "others", "direction": 0.3}),
    "margin per class": ("margin", {"num_classes": CLASSES, "learn_beta": True, "nu": 0.1}),
    "margin per class, not learned": ("margin", {"num_classes": CLASSES}),
    "angular on distances": ("angular", {"distance": "l2"}),
}


def build(variant, dtype):
    name, settings = VARIANTS[variant]
    takes = inspect.signature(LOSSES.find(name).build).parameters
    if "embedding_size" in takes:
        settings = settings | {"num_classes": CLASSES, "embedding_size": DIM}
    torch.manual_seed(0)
    return losses.create(name, **settings).to(dtype)


def is_proxy(variant):
    return isinstance(build(variant, torch.float64), losses.ProxyLoss)


def value_and_gradients(loss, embeddings, *rest):
    leaf = embeddings.clone().requires_grad_()
    value = loss(leaf, *rest)
    wanted = [leaf, *loss.parameters()]
    return [value, *torch.autograd.grad(value, wanted, allow_unused=True)]


BATCHES = {
    "unbalanced": torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4, 5, 5]),
    "no positives": torch.arange(6),
    "one class": torch.zeros(6, dtype=torch.long),
    "one image": torch.zeros(1, dtype=torch.long),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS)
def test_kernels_equal_formulas(variant, dtype):
    """Values and gradients: batches, a memory, mined pairs and triplets, both kinds of branches."""
    loss = build(variant, dtype)
    torch.manual_seed(2)
    cases = {name: (torch.randn(len(y), DIM), y) for name, y in BATCHES.items()}
    rows, labels = cases["unbalanced"]
    for name, miner in {
        "pairs": miners.MultiSimilarityMiner(),
        "triplets": miners.TripletMarginMiner(0.3, "semihard"),
        "listed": miners.BatchHardMiner(),
        "angle": miners.AngularMiner(40),
    }.items():
        cases[name] = (rows, labels, miner(rows, labels))
    if is_proxy(variant):
        if variant != "sphereface":
            cases["soft"] = (rows, torch.rand(len(rows), CLASSES).softmax(1))
    elif VARIANTS[variant][0] not in ("n-pairs", "quadruplet"):
        cases["memory"] = (rows, labels, None, torch.randn(9, DIM), torch.arange(9) % CLASSES)
    eps = torch.finfo(dtype).eps
    for name, (batch, *rest) in cases.items():
        given = (
            batch.to(dtype),
            *(
                part.to(dtype)
                if isinstance(part, torch.Tensor) and part.is_floating_point()
                else part
                for part in rest
            ),
        )
        with formulas_only():
            expected = value_and_gradients(loss, *given)
        found = value_and_gradients(loss, *given)
        with as_on_a_device():
            elsewhere = value_and_gradients(loss, *given)
        for other in (found, elsewhere):
            for mine, right in zip(other, expected, strict=True):
                if mine is None or right is None:
                    assert mine is None or not mine.any()
                    continue
                scale = max(1.0, float(right.abs().max()))
                message = f"{name}: {(mine - right).abs().max()} of {scale}"
                assert torch.allclose(mine, right, rtol=0, atol=4e3 * eps * scale), message


@pytest.mark.parametrize("variant", VARIANTS)
def test_kernels_in_small_blocks(variant, monkeypatch):
    """Large matrices are cut into blocks of rows; here small ones are, into blocks of a few."""
    loss = build(variant, torch.float64)
    torch.manual_seed(3)
    labels = BATCHES["unbalanced"]
    rows = torch.randn(len(labels), DIM, dtype=torch.float64)
    chosen = (miners.TripletMarginMiner(0.3), miners.AngularMiner(40))
    cases = [(rows, labels), *((rows, labels, miner(rows, labels)) for miner in chosen)]
    if not is_proxy(variant):
        others = torch.randn(9, DIM, dtype=torch.float64)
        cases.append((rows, labels, None, others, torch.arange(9) % CLASSES))
    with formulas_only():
        expected = [value_and_gradients(loss, *case) for case in cases]
    for place in ("triplets._BLOCK", "blocks.IN_CACHE", "soft.IN_CACHE", "blocks._SWEEP"):
        monkeypatch.setattr(f"lookalike.ops.{place}", 20)
    for context in (nullcontext, as_on_a_device):
        with context():
            found = [value_and_gradients(loss, *case) for case in cases]
        for mine, right in zip(chain(*found), chain(*expected), strict=True):
            torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("variant", ["triplet swap", "triplet direction", "triplet smooth"])
def test_equal_images_elsewhere(variant):
    """A positive, and a negative, at the place of their anchor: no direction, and no NaN."""
    loss = build(variant, torch.float64)
    torch.manual_seed(6)
    rows = torch.randn(12, DIM, dtype=torch.float64)
    rows[1] = rows[0]
    rows[7] = rows[4]
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])  # more positives than negatives
    with formulas_only():
        expected = value_and_gradients(loss, rows, labels)
    with as_on_a_device():
        found = value_and_gradients(loss, rows, labels)
    # swap: of two equal similarities the formula moves both by half, the sweep one
    for mine, right in zip(found[: 1 if variant == "triplet swap" else 2], expected, strict=False):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5)
    assert found[1].isfinite().all()


# circle's weights of pairs are constants by definition, so it is not the gradient of its value
@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "circle"])
def test_every_loss_can_be_differentiated_twice(variant):
    loss = build(variant, torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    torch.manual_seed(4)
    leaf = torch.randn(7, DIM, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x: loss(x, labels), (leaf,), eps=1e-6, atol=2e-4, rtol=1e-3
    )


LEARNED = {
    "ntxent": "temperature",
    "supcon": "temperature",
    "multi-similarity": "base",
    "contrastive": "neg_margin",
    "triplet": "margin",
    "generalized-lifted-structure": "neg_margin",
    "binomial-deviance": "beta",
    "nca": "softmax_scale",
    "tuplet-margin": "margin",
    "smooth-ap": "temperature",
    "recall-at-k": "temperature",
    "pnp": "anneal",
    "hyperbolic": "temperature",
    "hist": "alpha",
    "angular": "alpha",
    "circle": "m",
    "ranked-list": "Tn",
    "proxy-anchor": "alpha",
    "proxy-nca": "softmax_scale",
    "proxy-nca++": "temperature",
    "soft-triple": "gamma",
    "normalized-softmax": "temperature",
    "cosface": "margin",
    "arcface": "margin",
    "proxy-to-proxy-1": "margin",
}


@pytest.mark.parametrize("name", LEARNED)
def test_a_setting_may_be_learned(name):
    """Its gradient is that of the value, whatever kernel the loss has."""
    argument = LEARNED[name]
    labels = BATCHES["unbalanced"]
    torch.manual_seed(5)
    rows = torch.randn(len(labels), DIM, dtype=torch.float64)
    if name == "circle":
        rows = rows / 3
    takes = inspect.signature(LOSSES.find(name).build).parameters
    default = takes[argument].default
    default = 0.31 if default == 0 else float(default)

    def at(setting):
        sizes = {"num_classes": CLASSES, "embedding_size": DIM} if "embedding_size" in takes else {}
        torch.manual_seed(0)
        loss = losses.create(name, **sizes)
        loss.double()
        setattr(loss, argument, setting)
        return loss(rows, labels)

    learned = torch.nn.Parameter(torch.tensor(default, dtype=torch.float64))
    for _ in range(2):  # a graph must not be kept from one step to the next
        value = at(learned)
        (gradient,) = torch.autograd.grad(value, learned)
    step = 1e-6 * max(1.0, abs(default))
    expected = (at(default + step) - at(default - step)) / (2 * step)
    torch.testing.assert_close(value, at(default), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient, expected.detach(), rtol=1e-4, atol=1e-7)


def test_swap_of_a_negative_at_the_bound_elsewhere():
    """``s_an = s_ap - margin``, and ``s_pn`` above: the triplet counts by ``s_pn`` alone."""
    axes = torch.eye(4, dtype=torch.float64)
    rows = torch.cat([axes, -axes[:2], axes[:3] + axes[1:4]])
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 0])  # more positives than negatives
    loss = losses.create("triplet", swap=True, margin=0.0)
    found = loss.relations(rows, labels)
    tied = found._replace(  # equal whatever the last digit of a product
        similarity=found.similarity.round(decimals=6),
        candidate_similarity=found.candidate_similarity.round(decimals=6),
    )
    with formulas_only():
        expected = loss.value(tied)
    with as_on_a_device():
        torch.testing.assert_close(loss.value(tied), expected)


@pytest.mark.parametrize("context", [nullcontext, as_on_a_device])
def test_quadruplets_of_labels_of_any_type(context):
    torch.manual_seed(7)
    rows, labels = torch.randn(40, DIM, dtype=torch.float64), torch.arange(40) % 2
    others, theirs = torch.randn(30, DIM, dtype=torch.float64), torch.arange(30) % 2
    loss = losses.create("quadruplet")
    expected = loss(rows, labels), loss(rows, labels, None, others, theirs)
    with context():
        torch.testing.assert_close(loss(rows, labels.bool()), expected[0])
        found = loss(rows, labels.int(), None, others, theirs)
        torch.testing.assert_close(found, expected[1])
