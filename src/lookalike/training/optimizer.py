"""The optimiser with its parameter groups, the schedule of learning rates, averaged weights."""

import math
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from timm.optim import param_groups_layer_decay  # type: ignore[attr-defined]
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, StepLR
from torch.optim.swa_utils import get_ema_multi_avg_fn

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


def clip_gradients(
    config: OptimConfig, fabric: Fabric, module: nn.Module, optimizer: optim.Optimizer
) -> None:
    """Clip the gradients of a module as configured.

    Gradients that are not finite are no error here: in half precision the scaler skips the step and
    lowers its scale; otherwise the next loss is not finite either, and the run stops there with the
    step and the files of the batch.
    """
    if config.clip_value is not None:
        fabric.clip_gradients(module, optimizer, clip_val=config.clip_value)
    if config.clip_norm is not None:
        norm = config.clip_norm
        fabric.clip_gradients(module, optimizer, max_norm=norm, error_if_nonfinite=False)


class WeightAverage:
    """The exponential moving average of weights: ``a = decay a + (1 - decay) w`` after each step.

    Args:
        model: Its weights and buffers are averaged; the average starts with them.
        decay: The share of the average that a step keeps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights = {name: t.detach().clone() for name, t in model.state_dict().items()}
        self._mix = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the weights of a step; what is not a float is copied."""
        weights = {name: t.detach() for name, t in model.state_dict().items()}
        floats = [name for name, weight in weights.items() if weight.is_floating_point()]
        self._mix([self.weights[name] for name in floats], [weights[name] for name in floats], 1)
        for name in weights.keys() - set(floats):
            self.weights[name].copy_(weights[name])

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by name."""
        return self.weights

    def load_state_dict(self, weights: dict[str, Tensor]) -> None:
        """Continue from other averages."""
        for name, average in self.weights.items():
            average.copy_(weights[name])
