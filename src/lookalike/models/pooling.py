"""From a feature map [B, C, H, W] to one vector [B, C] per image."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput, did_you_mean

__all__ = ["POOLINGS", "AvgMaxPool", "AvgPool", "GeMPool", "MaxPool", "create_pooling"]


class AvgPool(nn.Module):
    """The mean over all positions of the map."""

    linear = True  # the pooled mix of two maps is the mix of the pooled maps

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        if features.shape[2:] == (1, 1):  # pooled already
            return features.flatten(1)
        return features.mean((2, 3))


class MaxPool(nn.Module):
    """The maximum over all positions of the map."""

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        return features.amax((2, 3))


class AvgMaxPool(nn.Module):
    """Mean plus maximum, as in the public code of Proxy-Anchor (Kim et al., CVPR 2020)."""

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        return features.mean((2, 3)) + features.amax((2, 3))


class GeMPool(nn.Module):
    """Generalised mean with a learned power (Radenovic et al., TPAMI 2019).

    ``(mean_i max(x_i, eps)^p)^(1/p)``: p = 1 is the mean, p -> infinity the maximum. Computed as a
    logsumexp in float32, so that large powers and half precision neither overflow nor vanish.
    Values below ``eps`` count as ``eps``: it suits maps that end in a ReLU.
    """

    def __init__(self, p: float = 3.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(float(p)))
        self.eps = eps

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        places = features.shape[2] * features.shape[3]
        exact = features if features.dtype == torch.float64 else features.float()
        powers = self.p * exact.clamp(min=self.eps).log()
        return ((powers.flatten(2).logsumexp(2) - math.log(places)) / self.p).exp()


POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "avg": AvgPool,
    "max": MaxPool,
    "avg+max": AvgMaxPool,
    "gem": GeMPool,
}


def create_pooling(name: str) -> nn.Module:
    """The pooling called ``name``: avg, max, avg+max or gem."""
    if name not in POOLINGS:
        raise BadInput(f"there is no pooling '{name}'; {did_you_mean(name, POOLINGS)}")
    return POOLINGS[name]()
