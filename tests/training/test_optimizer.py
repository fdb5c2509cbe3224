"""A quick step is torch's own."""

import copy

import pytest
import torch
from torch import nn, optim

from lookalike.training.optimizer import QuickStep


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW])
def test_a_quick_step_is_the_optimizers(kind):
    """Step by step: rates that change, groups that differ, a weight that has no gradient once."""
    torch.manual_seed(0)
    ours = nn.ModuleList([nn.Linear(6, 4), nn.Linear(4, 3)])
    theirs = copy.deepcopy(ours)
    quick, plain = (
        kind(
            [
                {"params": list(layers[0].parameters()), "lr": 1e-2},
                {"params": list(layers[1].parameters()), "lr": 3e-2, "weight_decay": 0.0},
            ],
            weight_decay=0.1,
            fused=True,
        )
        for layers in (ours, theirs)
    )
    move = QuickStep(quick)
    for step in range(8):
        slopes = [torch.randn_like(weight) for weight in ours.parameters()]
        for layers, optimizer in ((ours, quick), (theirs, plain)):
            for weight, slope in zip(layers.parameters(), slopes, strict=True):
                weight.grad = slope.clone()
            if step == 4:
                layers[1].bias.grad = None
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
        move()
        plain.step()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(mine, other), step
    assert str(quick.state_dict()) == str(plain.state_dict())
