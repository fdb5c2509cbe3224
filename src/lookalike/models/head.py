"""The head: from the feature map to the embedding, by pooling and a linear layer."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput, did_you_mean
from lookalike.ops.rows import in_full_precision, normalize_rows


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
    Values below ``eps`` count as ``eps``: it needs a map without negative values, such as one that
    ends in a ReLU. :func:`lookalike.models.build` refuses other networks.
    """

    def __init__(self, p: float = 3.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor(float(p)))
        self.eps = eps

    def forward(self, features: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        places = features.shape[2] * features.shape[3]
        powers = self.p * in_full_precision(features).clamp(min=self.eps).log()
        return ((powers.flatten(2).logsumexp(2) - math.log(places)) / self.p).exp()


OWN_POOLINGS = ("cls", "map")
"""Poolings by the network itself: the class token, and its attention pooling."""

POOLINGS: dict[str, Callable[[], nn.Module]] = {
    "avg": AvgPool,
    "max": MaxPool,
    "avg+max": AvgMaxPool,
    "gem": GeMPool,
    # the backbone gives a map of one place, which is its own mean
    **dict.fromkeys(OWN_POOLINGS, AvgPool),
}


def create_pooling(name: str) -> nn.Module:
    """The pooling called ``name``; those of ``OWN_POOLINGS`` are done by the backbone."""
    if name not in POOLINGS:
        raise BadInput(f"there is no pooling '{name}'; {did_you_mean(name, POOLINGS)}")
    return POOLINGS[name]()


def l2_normalise(vectors: Tensor, eps: float = 1e-12) -> Tensor:
    """``x / max(|x|, eps)`` per row, in float32 at least; a zero row has finite gradients.

    Args:
        vectors: Rows [N, dim].
        eps: The least length that a row is divided by.

    Returns:
        Rows of length 1.

    >>> l2_normalise(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    exact = in_full_precision(vectors)
    return exact * exact.square().sum(1, keepdim=True).clamp(min=eps**2).rsqrt()


class Head(nn.Module):
    """Pooling, optional layer norm, linear layer, L2 normalisation, in this order.

    The layer norm has no learned scale and shift, which would duplicate the linear layer.

    Args:
        width: The channels of the feature map.
        dim: The size of the embedding; 0 omits the linear layer, as for untrained networks.
        pooling: One of ``POOLINGS``.
        layer_norm: Whether a layer norm follows the pooling.
        normalize: Whether embeddings have length 1.
    """

    def __init__(
        self,
        width: int,
        *,
        dim: int = 128,
        pooling: str = "avg",
        layer_norm: bool = False,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if dim < 0:
            raise BadInput(f"the embedding size must be 0 (no linear layer) or more, not {dim}")
        self.dim = dim or width
        self.normalize = normalize
        self.pool = create_pooling(pooling)
        self.norm: nn.Module = (
            nn.LayerNorm(width, elementwise_affine=False) if layer_norm else nn.Identity()
        )
        self.linear: nn.Module = nn.Identity()
        if dim:
            linear = nn.Linear(width, dim)
            nn.init.zeros_(linear.bias)
            self.linear = linear

    def start_from(self, weight: Tensor, bias: Tensor) -> None:
        """Set the weight and bias of the linear layer."""
        if not isinstance(self.linear, nn.Linear):
            raise BadInput("a head without linear layer (model.dim=0) has nothing to start from")
        with torch.no_grad():
            self.linear.weight.copy_(weight)
            self.linear.bias.copy_(bias)

    def project(self, features: Tensor) -> Tensor:
        """[B, width, H, W], or [B, width] if pooled already, -> [B, dim], before normalisation."""
        pooled = features if features.ndim == 2 else self.pool(features)
        embedding: Tensor = self.linear(self.norm(pooled))
        return embedding

    def forward(self, features: Tensor) -> Tensor:
        """[B, width, H, W] -> [B, dim], float32 even under autocast."""
        embedding = self.project(features)
        if self.normalize and not self.training:
            return l2_normalise(embedding)
        exact = in_full_precision(embedding)
        return normalize_rows(exact) if self.normalize else exact
