"""The moving average of a model's weights, which is often better than the last weights."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

__all__ = ["Average", "lent"]


@contextmanager
def lent(model: nn.Module, weights: dict[str, Tensor]) -> Iterator[None]:
    """Let ``model`` have other weights for a while."""
    own = {name: t.detach().clone() for name, t in model.state_dict().items()}
    model.load_state_dict(weights)
    try:
        yield
    finally:
        model.load_state_dict(own)


class Average:
    """``a <- decay a + (1 - decay) w`` after every step, of weights and running statistics.

    Averaging of iterates: Polyak and Juditsky, SIAM J. Control Optim. 1992; with exponential
    weights as in most of today's training code. Counters are copied.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: t.detach().clone() for name, t in model.state_dict().items()}

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Take in the weights of one more step."""
        for name, now in model.state_dict().items():
            average = self.weights[name]
            if average.is_floating_point():
                average.lerp_(now, 1 - self.decay)
            else:
                average.copy_(now)

    def restart(self, weights: dict[str, Tensor]) -> None:
        """Go on from these averages."""
        for name, value in weights.items():
            self.weights[name].copy_(value)

    def inside(self, model: nn.Module) -> AbstractContextManager[None]:
        """Let ``model`` have the averaged weights for a while."""
        return lent(model, self.weights)
