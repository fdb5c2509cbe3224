"""The optimiser with its parameter groups, and the schedule of learning rates."""

import math
from functools import partial
from typing import Any

import torch
from timm.optim import param_groups_layer_decay  # type: ignore[attr-defined]
from torch import nn, optim
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, StepLR

from lookalike.config import OptimConfig
from lookalike.models import EmbeddingModel


def build_optimizer(
    config: OptimConfig,
    model: EmbeddingModel,
    objective: nn.Module,
    *,
    fused: bool = False,
) -> optim.Optimizer:
    """One optimiser over backbone, head and every parameter of the loss and its parts.

    The parameters of the loss have a learning rate and a weight decay of their own
    (``optim.loss_lr``, ``optim.loss_weight_decay``); those that a loss declares in
    ``never_decayed`` are not decayed.
    """
    kept = {
        f"{path}.{name}".lstrip(".")
        for path, part in objective.named_modules()
        for name in getattr(part, "never_decayed", ())
    }
    decayed = [weight for name, weight in objective.named_parameters() if name not in kept]
    undecayed = [weight for name, weight in objective.named_parameters() if name in kept]
    loss_lr, loss_decay = config.loss_lr or config.lr, config.loss_weight_decay
    groups = [
        *_network_groups(config, model),
        {"params": decayed, "lr": loss_lr, "weight_decay": loss_decay},
        {"params": undecayed, "lr": loss_lr, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:  # an untrained network without a head: optimisers refuse an empty list
        groups = [{"params": [torch.zeros(0, requires_grad=True)]}]
    options: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.name == "adamw":
        return optim.AdamW(groups, fused=fused, **options)
    if config.name == "adam":
        return optim.Adam(groups, fused=fused, **options)
    if config.name == "rmsprop":
        return optim.RMSprop(groups, momentum=config.momentum, **options)
    return optim.SGD(groups, momentum=config.momentum, fused=fused, **options)


def _network_groups(config: OptimConfig, model: EmbeddingModel) -> list[dict[str, Any]]:
    """The weights of backbone and head, each group with its rate and weight decay."""
    backbone, head = list(model.backbone.parameters()), list(model.head.parameters())
    groups: list[dict[str, Any]] = [{"params": backbone, "lr": config.lr}]
    if backbone and config.layer_decay is not None:
        found = param_groups_layer_decay(
            model.backbone.network,
            weight_decay=config.weight_decay,
            weight_decay_exclude_1d=False,
            layer_decay=config.layer_decay,
        )
        groups = [{"params": g["params"], "lr": config.lr * g["lr_scale"]} for g in found]
    groups.append({"params": head, "lr": config.head_lr or config.lr})
    if config.decay_vectors:
        return groups
    split = []
    for group in groups:
        vectors = [weight for weight in group["params"] if weight.ndim <= 1]
        others = [weight for weight in group["params"] if weight.ndim > 1]
        split.append(group | {"params": others})
        split.append(group | {"params": vectors, "weight_decay": 0.0})
    return split


class FunctionalStep:
    """``optimizer.step()`` of a fused Adam or AdamW, by torch's functional form.

    The class checks and prepares its state at every step, which a short step (a head on frozen
    features: ``benchmarks/frozen.py``) feels. Its own step still makes the state, and does every
    step in which a parameter has no gradient.

    Args:
        optimizer: What is stepped, in full precision and by one process.
    """

    def __init__(self, optimizer: optim.Adam) -> None:
        self.optimizer = optimizer
        self.update = adamw if isinstance(optimizer, optim.AdamW) else adam

    @torch.no_grad()
    def __call__(self) -> None:
        """Step once."""
        state = self.optimizer.state
        weights = [one for group in self.optimizer.param_groups for one in group["params"]]
        if any(one.grad is None or one not in state for one in weights):
            self.optimizer.step()
            return
        for group in self.optimizer.param_groups:
            states = [state[one] for one in group["params"]]
            self.update(
                group["params"],
                [one.grad for one in group["params"]],
                [each["exp_avg"] for each in states],
                [each["exp_avg_sq"] for each in states],
                [],
                [each["step"] for each in states],
                fused=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )


def build_schedule(
    config: OptimConfig, optimizer: optim.Optimizer, batches: int, epochs: int
) -> LRScheduler:
    """The factor on every learning rate, stepped once a batch.

    With ``optim.warmup_steps`` the rate grows linearly for so many steps, and the schedule takes
    the rest.
    """
    total = max(1, batches * epochs)
    if config.warmup_steps:
        return LambdaLR(optimizer, partial(_warmed_up, config, batches, total))
    if config.schedule == "step":
        return StepLR(optimizer, config.step_size * batches, config.gamma)
    if config.schedule == "cosine":
        return CosineAnnealingLR(optimizer, total)
    if config.schedule == "one-cycle":
        rates = [group["lr"] for group in optimizer.param_groups]
        return OneCycleLR(optimizer, rates, total_steps=total + 1, cycle_momentum=False)
    return LambdaLR(optimizer, lambda _: 1.0)


def _warmed_up(config: OptimConfig, batches: int, total: int, step: int) -> float:
    """The factor of one step; torch's SequentialLR would warn whenever a run is resumed."""
    after = step - config.warmup_steps
    if after < 0:
        return (step + 1) / (config.warmup_steps + 1)
    if config.schedule == "step":
        return config.gamma ** (after // (config.step_size * batches))
    if config.schedule == "cosine":
        return (1 + math.cos(math.pi * after / max(1, total - config.warmup_steps))) / 2
    return 1.0
