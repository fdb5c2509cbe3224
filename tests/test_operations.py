"""What a step launches on a device that is not the CPU, counted on ``meta``: the bars of docs."""

import pytest
import torch

from benchmarks.operations import (
    COMBINED,
    MOST_BYTES,
    MOST_OPERATIONS,
    VARIANTS,
    OperationCounter,
    mining,
    own_losses,
    step,
)
from lookalike import miners


def within_bars(counter):
    assert counter.operations <= MOST_OPERATIONS
    assert counter.largest <= MOST_BYTES


def test_what_is_counted():
    rows = torch.empty(3, 4, device="meta")
    with OperationCounter() as counter:
        (rows.T @ rows).unsqueeze(0).relu_()
    assert counter.operations == 2  # a product and a change in place; two views
    assert counter.largest == 4 * 4 * 4


@pytest.mark.parametrize("name", own_losses())
def test_every_loss(name):
    within_bars(step(name))


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_other_settings(name, settings):
    within_bars(step(name, settings))


@pytest.mark.parametrize(("settings", "miner"), COMBINED)
def test_several_settings_at_a_time(settings, miner):
    """Over all triplets they are bounded in memory only; listed triplets are few."""
    counter = step("triplet", settings, miner)
    assert counter.largest <= MOST_BYTES
    if miner == "semi-hard" or "triplets_per_anchor" in settings:
        within_bars(counter)


@pytest.mark.parametrize("miner", miners.names())
def test_every_miner(miner):
    within_bars(mining(miner))
    for loss in ("triplet", "contrastive"):
        within_bars(step(loss, miner=miner))


@pytest.mark.parametrize("name", ["smooth-ap", "pnp", "recall-at-k", "quadruplet", "fast-ap"])
def test_anchors_weighed_by_a_miner(name):
    """Then there is no kernel: the formula itself must not hold an array over all triplets."""
    assert step(name, miner="multi-similarity").largest <= MOST_BYTES
