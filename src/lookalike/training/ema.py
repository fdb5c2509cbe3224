"""The exponential moving average of weights: ``a = decay a + (1 - decay) w`` after each step."""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """The average of all weights and buffers of a model.

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
        weights = {name: t.detach() for name, t in model.state_dict().items()}
        floats = [name for name, weight in weights.items() if weight.is_floating_point()]
        self._mix([self.weights[name] for name in floats], [weights[name] for name in floats], 1)
        for name in weights.keys() - set(floats):
            self.weights[name].copy_(weights[name])

    def load(self, weights: dict[str, Tensor]) -> None:
        """Continue an average that was stored."""
        for name, average in self.weights.items():
            average.copy_(weights[name])
