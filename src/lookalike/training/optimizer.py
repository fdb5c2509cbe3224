"""Which weights move, how fast, and how that changes over time."""

from collections.abc import Iterable

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, StepLR

from lookalike.config import OptimConfig
from lookalike.models import EmbeddingModel

__all__ = ["build_optimizer", "build_schedule"]


def build_optimizer(
    config: OptimConfig,
    model: EmbeddingModel,
    learned: Iterable[nn.Module],
    *,
    fused: bool = False,
) -> optim.Optimizer:
    """One optimiser over backbone, head and every weight that the loss or its parts learn.

    The learned weights of the loss are found here, so that no user can forget them; they are not
    decayed, since proxies and margins have no reason to be near zero. ``fused`` moves each weight
    in one pass, which pays where a step is short.
    """
    loss_weights = [weight for part in learned for weight in part.parameters()]
    groups = [
        {"params": list(model.backbone.parameters()), "lr": config.lr},
        {"params": list(model.head.parameters()), "lr": config.head_lr or config.lr},
        {"params": loss_weights, "lr": config.loss_lr or config.lr, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if not groups:  # an untrained network without a head: optimisers refuse an empty list
        groups = [{"params": [torch.zeros(0, requires_grad=True)]}]
    decay = config.weight_decay
    if config.name == "adamw":
        return optim.AdamW(groups, lr=config.lr, weight_decay=decay, fused=fused)
    if config.name == "adam":
        return optim.Adam(groups, lr=config.lr, weight_decay=decay, fused=fused)
    if config.name == "rmsprop":
        return optim.RMSprop(
            groups, lr=config.lr, alpha=0.99, weight_decay=decay, momentum=config.momentum
        )
    return optim.SGD(
        groups, lr=config.lr, weight_decay=decay, momentum=config.momentum, fused=fused
    )


def build_schedule(
    config: OptimConfig, optimizer: optim.Optimizer, batches: int, epochs: int
) -> LRScheduler:
    """The factor on every learning rate, stepped once a batch."""
    total = max(1, batches * epochs)
    if config.schedule == "step":
        return StepLR(optimizer, config.step_size * batches, config.gamma)
    if config.schedule == "cosine":
        return CosineAnnealingLR(optimizer, total)
    if config.schedule == "one-cycle":
        rates = [group["lr"] for group in optimizer.param_groups]
        return OneCycleLR(optimizer, rates, total_steps=total + 1, cycle_momentum=False)
    return LambdaLR(optimizer, lambda _: 1.0)
