"""Which weights move, how fast, and how that changes over time."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, StepLR

from lookalike.config import OptimConfig
from lookalike.models import EmbeddingModel

__all__ = ["QuickStep", "build_optimizer", "build_schedule"]


def build_optimizer(
    config: OptimConfig,
    model: EmbeddingModel,
    learned: Iterable[nn.Module],
    *,
    fused: bool = False,
) -> optim.Optimizer:
    """One optimiser over backbone, head and every weight that the loss or its parts learn.

    The learned weights of the loss are found here, so that no user can forget them. They have a
    rate and a decay of their own (``optim.loss_lr``, ``optim.loss_weight_decay``); those that a
    loss declares in ``never_decayed`` are not decayed.

    Args:
        config: The section ``optim`` of a run.
        model: The network with its head.
        learned: Modules whose parameters the loss learns.
        fused: Whether each weight is moved in one pass.

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


class QuickStep:
    """``optimizer.step()`` of a fused Adam or AdamW, without what torch does around it.

    That takes a tenth of a step of a frozen network's head. The first step is torch's own, which
    makes the moments; so is every step in which a weight has no gradient.
    """

    def __init__(self, optimizer: optim.Adam) -> None:
        self.optimizer = optimizer
        fused = torch._fused_adamw_ if isinstance(optimizer, optim.AdamW) else torch._fused_adam_
        self.fused: Callable[..., None] = fused
        self.counts: list[Tensor] = []
        self.moments: list[tuple[list[Tensor], list[Tensor], list[Tensor]]] = []

    @torch.no_grad()
    def __call__(self) -> None:
        """Move every weight by its gradient."""
        groups = self.optimizer.param_groups
        gradients = [[weight.grad for weight in group["params"]] for group in groups]
        if not self.counts or any(one is None for group in gradients for one in group):
            self.optimizer.step()
            self._remember()
            return
        torch._foreach_add_(self.counts, 1)
        for group, slopes, moments in zip(groups, gradients, self.moments, strict=True):
            first, second, counts = moments
            self.fused(
                group["params"],
                slopes,
                first,
                second,
                [],
                counts,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _remember(self) -> None:
        """Where the moments lie, once every weight has some."""
        weights = [group["params"] for group in self.optimizer.param_groups]
        if any(weight not in self.optimizer.state for group in weights for weight in group):
            return
        states = [[self.optimizer.state[weight] for weight in group] for group in weights]
        self.moments = [
            (
                [state["exp_avg"] for state in group],
                [state["exp_avg_sq"] for state in group],
                [state["step"] for state in group],
            )
            for group in states
        ]
        self.counts = [count for *_, counts in self.moments for count in counts]
