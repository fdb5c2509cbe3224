"""The exponential moving average of weights: ``a = decay a + (1 - decay) w`` after each step."""

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from lookalike.training.distributed.sharding import is_sharded


class WeightAverage:
    """The average of all weights and buffers of a model, each in the form the model has it.

    Args:
        model: The average starts with its weights.
        decay: The share of the average that a step keeps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.weights = {name: t.detach().clone() for name, t in model.state_dict().items()}
        self._mix = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the weights of a step; what is not a float is copied."""
        pairs = [(self.weights[name], t.detach()) for name, t in model.state_dict().items()]
        for sharded in (False, True):
            mixed = [
                pair for pair in pairs
                if pair[0].is_floating_point() and is_sharded(pair[0]) == sharded
            ]  # fmt: skip
            if mixed:
                averages, weights = zip(*mixed, strict=True)
                self._mix(averages, weights, 1)
        for average, weight in pairs:
            if not average.is_floating_point():
                average.copy_(weight)
