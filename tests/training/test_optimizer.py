"""Which weights decay, at which rate; and a quick step is torch's own."""

import copy

import pytest
import torch
from torch import nn

from lookalike import losses
from lookalike.config import load
from lookalike.models import EmbeddingModel
from lookalike.training.objective import build_objective
from lookalike.training.optimizer import FunctionalStep, build_optimizer

PROXIES = ("loss.name=proxy-anchor",)
MARGIN = ("loss.name=margin", "loss.learn_beta=true", "loss.num_classes=auto")
MEMORY = (*MARGIN[:2], "memory.size=64")


def step_without_gradient(*settings):
    """What one SGD step at rate 0.5 and weight decay 0.1 makes of weights without a gradient."""
    config = load(None, ["optim.name=sgd", "optim.lr=0.5", "optim.weight_decay=0.1", *settings])
    model = EmbeddingModel.of_features(6, dim=4)
    objective = build_objective(config, 5, 4)
    optimizer = build_optimizer(config.optim, model, objective)
    weights = {"head": model.head.linear.weight} | dict(objective.named_parameters())
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for weight in weights.values():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    return {name: (weight / before[name]).detach() for name, weight in weights.items()}


@pytest.mark.parametrize(
    ("settings", "decay", "kept"),
    [
        (PROXIES, 0.0, 1.0),
        (PROXIES, 0.3, 1 - 0.5 * 0.3),
        ((*PROXIES, "optim.loss_lr=0.25"), 0.3, 1 - 0.25 * 0.3),
        (MARGIN, 0.0, 1.0),
        (MARGIN, 0.3, 1.0),
        (MEMORY, 0.3, 1.0),
    ],
)
def test_the_loss_decays_what_it_does_not_keep(settings, decay, kept):
    """``w <- w - lr * decay * w``; the boundary of the margin loss is never decayed."""
    shares = step_without_gradient(*settings, f"optim.loss_weight_decay={decay}")
    head = shares.pop("head")
    torch.testing.assert_close(head, torch.full_like(head, 1 - 0.5 * 0.1))
    (share,) = shares.values()
    torch.testing.assert_close(share, torch.full_like(share, kept))


def test_by_default_the_loss_decays_nothing():
    for settings in (PROXIES, MARGIN):
        shares = step_without_gradient(*settings)
        assert all((share == 1).all() for name, share in shares.items() if name != "head")


def test_a_loss_of_ones_own_says_what_it_never_decays():
    class Scaled(losses.ProxyAnchorLoss):
        never_decayed = ("scale",)

        def __init__(self) -> None:
            super().__init__(5, 4)
            self.scale = nn.Parameter(torch.ones(()))

    config = load(None, ["optim.loss_weight_decay=0.3"]).optim
    loss = Scaled()
    groups = build_optimizer(config, EmbeddingModel.of_features(6, dim=4), loss).param_groups
    decay = {id(weight): group["weight_decay"] for group in groups for weight in group["params"]}
    assert decay[id(loss.scale)] == 0
    assert decay[id(loss.proxies)] == 0.3


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_the_functional_step_is_the_step_of_the_class(kind):
    """Also where a parameter has no gradient for a while, and after the state was loaded."""
    sides = []
    for functional in (False, True):
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.1, "weight_decay": 0.0}]
        optimizer = kind(groups, lr=0.01, weight_decay=0.2, fused=True)
        step = FunctionalStep(optimizer) if functional else optimizer.step
        for number in range(6):
            for weight in weights:
                weight.grad = torch.randn_like(weight)
            if number < 2:
                weights[1].grad = None
            if number == 4:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer.param_groups[0]["lr"] *= 0.5
            step()
        sides.append([*weights, *(s["exp_avg_sq"] for s in optimizer.state.values())])
    for mine, right in zip(*sides, strict=True):
        assert torch.equal(mine, right)
