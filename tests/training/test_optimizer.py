"""Which weights decay, at which rate; and a quick step is torch's own."""

import math

import pytest
import torch
from torch import nn

from lookalike import losses, models
from lookalike.config import load
from lookalike.config.keys import refuse_conflicts
from lookalike.errors import BadInput
from lookalike.models import EmbeddingModel
from lookalike.training.objective import build_objective
from lookalike.training.optimizer import build_optimizer, build_schedule

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


def rates(*settings, steps=12):
    """The learning rate of each step, of 4 batches in 3 epochs at rate 1."""
    config = load(None, ["optim.name=sgd", "optim.lr=1", *settings])
    optimizer = build_optimizer(
        config.optim, EmbeddingModel.of_features(6, dim=4), build_objective(config, 5, 4)
    )
    schedule = build_schedule(config.optim, optimizer, 4, 3)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_the_rate_grows_linearly_and_then_follows_its_schedule():
    grown = [0.25, 0.5, 0.75]
    assert rates("optim.warmup_steps=3") == pytest.approx([*grown, *[1.0] * 9])
    cosine = [0.5 * (1 + math.cos(math.pi * step / 9)) for step in range(9)]
    found = rates("optim.warmup_steps=3", "optim.schedule=cosine")
    assert found == pytest.approx([*grown, *cosine])
    step = ["optim.schedule=step", "optim.step_size=1", "optim.gamma=0.1"]
    found = rates("optim.warmup_steps=3", *step)
    assert found == pytest.approx([*grown, *[1.0] * 4, *[0.1] * 4, 0.01])
    both = load(None, ["optim.warmup_steps=3", "optim.schedule=one-cycle"])
    with pytest.raises(BadInput, match="one-cycle exclude each other: that has a warm-up of its"):
        refuse_conflicts(both)


def test_a_warm_up_longer_than_the_training_is_all_of_it():
    assert rates("optim.warmup_steps=19", steps=3) == pytest.approx([0.05, 0.1, 0.15])


def test_vectors_do_not_decay_if_asked():
    config = load(None, ["optim.decay_vectors=false", "optim.weight_decay=0.1"])
    model = models.build("resnet18", weights="none", dim=8)
    optimizer = build_optimizer(config.optim, model, build_objective(config, 5, 8))
    decays = {id(w): g["weight_decay"] for g in optimizer.param_groups for w in g["params"]}
    assert len(decays) == len(list(model.parameters()))
    for weight in model.parameters():
        assert decays[id(weight)] == (0.1 if weight.ndim > 1 else 0.0)


@pytest.mark.parametrize("network", ["resnet18", "vit_tiny_patch16_224"])
def test_earlier_layers_have_smaller_rates(network):
    config = load(None, ["optim.layer_decay=0.5", "optim.lr=1", "optim.head_lr=3"])
    model = models.build(network, weights="none", dim=8)
    optimizer = build_optimizer(config.optim, model, build_objective(config, 5, 8))
    rate = {id(w): g["lr"] for g in optimizer.param_groups for w in g["params"]}
    named = [(name, rate[id(w)]) for name, w in model.backbone.named_parameters()]
    found = [lr for name, lr in named if "layer" in name or "blocks" in name]
    assert found == sorted(found)  # as the layers follow one another
    assert len(set(found)) > 4
    assert min(rate.values()) == named[0][1] < found[0]
    assert all(math.log2(lr) == round(math.log2(lr)) for lr in found)
    assert rate[id(model.head.linear.weight)] == 3
