"""The optimiser with its parameter groups, and the schedule of learning rates."""

from collections.abc import Iterable, Iterator

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
    """One optimiser over backbone, head and every parameter of the loss and its parts.

    The parameters of the loss have a learning rate and a weight decay of their own
    (``optim.loss_lr``, ``optim.loss_weight_decay``); those that a loss declares in
    ``never_decayed`` are not decayed.

    Args:
        config: The section ``optim`` of a run.
        model: The network with its head.
        learned: The loss, and other modules with parameters.
        fused: Whether torch's fused implementation is used.

    Returns:
        The optimiser, with a parameter group for each rate and decay.
    """
    parts = list(learned)
    loss_weights = [weight for part in parts for weight in part.parameters()]
    kept = {id(weight) for part in parts for weight in never_decayed(part)}
    decayed = [weight for weight in loss_weights if id(weight) not in kept]
    undecayed = [weight for weight in loss_weights if id(weight) in kept]
    loss_lr, loss_decay = config.loss_lr or config.lr, config.loss_weight_decay
    groups = [
        {"params": list(model.backbone.parameters()), "lr": config.lr},
        {"params": list(model.head.parameters()), "lr": config.head_lr or config.lr},
        {"params": decayed, "lr": loss_lr, "weight_decay": loss_decay},
        {"params": undecayed, "lr": loss_lr, "weight_decay": 0.0},
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


def never_decayed(part: nn.Module) -> Iterator[nn.Parameter]:
    """The parameters in ``part`` that the modules they belong to declare in ``never_decayed``."""
    for module in part.modules():
        names: tuple[str, ...] = getattr(module, "never_decayed", ())
        yield from (
            weight for name, weight in module.named_parameters(recurse=False) if name in names
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
