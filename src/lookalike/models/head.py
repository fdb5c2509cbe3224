"""The head: from the feature map to the embedding."""

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.models.pooling import create_pooling
from lookalike.ops.rows import unit

__all__ = ["Head", "l2_normalise"]


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
    exact = vectors if vectors.dtype == torch.float64 else vectors.float()
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
        exact = embedding if embedding.dtype == torch.float64 else embedding.float()
        return unit(exact) if self.normalize else exact
