"""What a step of each loss and miner allocates at N = 512, and that none goes image by image.

Positives are a list of P pairs, each against a row of N candidates: an array of P x N is allowed,
and about ten of them at a time, forwards and backwards; one over all triplets (N x P x N) is not.
torch's profiler records every allocation and release on the CPU.
"""

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from lookalike import losses, miners
from lookalike.registry import LOSSES

N, PER_CLASS, DIM = 512, 4, 32
LARGEST, ALIVE = 1.5, 10
"""In arrays of P x N float32: that of a single tensor (a few columns more than N are fine), and
that of all tensors at a time."""
NAMES = sorted(e.name for e in LOSSES.entries() if e.build.__module__.startswith("lookalike."))
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("contrastive", {"on": "similarity"}),
    ("triplet", {"swap": True}),
    ("triplet", {"smooth_loss": True}),
    ("triplet", {"direction": 0.3}),
    ("triplet", {"swap": True, "smooth_loss": True, "direction": 0.3}),
    ("triplet", {"triplets_per_anchor": 3}),
    ("margin", {"learn_beta": True, "nu": 0.1}),
    ("multi-similarity", {"direction": 0.3}),
    ("angular", {"distance": "l2"}),
    ("proxy-nca", {"direction": 0.3}),
    ("recall-at-k", {"mixup": 1}),
]
MORE_ALIVE = {
    ("triplet", "direction"): 16,  # a cosine per triplet: distances, products, roots, quotients
    ("quadruplet", None): 13,  # sums over the candidates of other classes, and the own class
}
"""Where more than ``ALIVE`` is kept for the backward pass."""


def step(name, settings=None, miner=None, size=N):
    """A forward and backward pass on the CPU."""
    torch.manual_seed(0)
    rows, labels = torch.randn(size, DIM, requires_grad=True), torch.arange(size) // PER_CLASS
    settings = dict(settings or {})
    if "embedding_size" in LOSSES.arguments(name):
        settings = {"num_classes": size // PER_CLASS, "embedding_size": DIM} | settings
    loss = losses.create(name, **settings)
    chooser = None if miner is None else miners.create(miner)

    def run():
        rows.grad = None
        found = None if chooser is None else chooser(rows, labels)
        loss(rows, labels, found).backward()

    return run


def allocated(run):
    """Bytes of the largest tensor of a step, and of all that are alive at a time."""
    run()  # what is kept from the first step on is not this one's
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as told:
        run()
    events = told.profiler.kineto_results.events()
    live = peak = largest = 0
    for size in (event.nbytes() for event in events if event.name() == "[memory]"):
        live += size
        peak, largest = max(peak, live), max(largest, size)
    return largest, peak


def within_bounds(run, alive=ALIVE, images=N, positives=PER_CLASS - 1):
    unit = 4 * images * positives * images
    largest, peak = allocated(run)
    assert largest <= LARGEST * unit, f"{largest / unit:.2f} of P x N"
    assert peak <= alive * unit, f"{peak / unit:.2f} of P x N"


def test_an_array_over_all_triplets_is_seen():
    rows = torch.randn(N, DIM)
    with pytest.raises(AssertionError, match="of P x N"):
        within_bounds(lambda: rows.unsqueeze(1).sub(rows).sum(2).unsqueeze(2).repeat(1, 1, 8))


@pytest.mark.parametrize("name", NAMES)
def test_every_loss(name):
    within_bounds(step(name), MORE_ALIVE.get((name, None), ALIVE))


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_other_settings(name, settings):
    alive = max([MORE_ALIVE.get((name, key), ALIVE) for key in settings])
    if settings.get("mixup"):  # a virtual image beside each image: 7 positives of 1,024
        within_bounds(step(name, settings), alive, 2 * N, 2 * PER_CLASS - 1)
    else:
        within_bounds(step(name, settings), alive)


@pytest.mark.parametrize("miner", miners.names())
@pytest.mark.parametrize("name", ["triplet", "contrastive", "fast-ap", "proxy-anchor"])
def test_every_miner(name, miner):
    within_bounds(step(name, miner=miner))


@pytest.mark.parametrize("name", ["smooth-ap", "pnp", "recall-at-k", "quadruplet", "fast-ap"])
def test_anchors_weighed_by_a_miner(name):
    """The miner's own matrices come on top."""
    alive = MORE_ALIVE.get((name, None), ALIVE + 1)
    within_bounds(step(name, miner="multi-similarity"), alive)


def test_few_classes_in_a_large_batch():
    """Of 2 classes, P x N is half of N x N x N: in blocks, computed again in the backward pass."""
    size = 256
    torch.manual_seed(0)
    rows, labels = torch.randn(size, DIM, requires_grad=True), torch.arange(size) % 2
    for name in ("smooth-ap", "pnp", "recall-at-k"):
        loss = losses.create(name)
        largest, _ = allocated(lambda loss=loss: loss(rows, labels).backward())
        assert largest <= 1.1 * 4 * 2**23, name


class Counter(TorchDispatchMode):
    """How many operations torch runs."""

    number = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        self.number += 1
        return function(*arguments, **(settings or {}))


def operations(run):
    with Counter() as counter:
        run()
    return counter.number


@pytest.mark.parametrize("name", NAMES)
def test_no_loss_goes_image_by_image(name):
    """Twice the images are as many operations."""
    assert operations(step(name, size=64)) <= operations(step(name, size=32)) + 2


@pytest.mark.parametrize("miner", miners.names())
def test_no_miner_goes_image_by_image(miner):
    few, many = (operations(step("triplet", miner=miner, size=size)) for size in (32, 64))
    assert many <= few + 2
