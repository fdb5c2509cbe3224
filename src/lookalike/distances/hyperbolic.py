"""The distance of the Poincare ball."""

import math

import torch
from torch import Tensor

from lookalike.distances.base import Distance
from lookalike.errors import BadInput
from lookalike.ops.rows import euclidean
from lookalike.registry import DISTANCES

__all__ = ["HyperbolicDistance"]

_INSIDE = math.atanh(1 - 1e-3)
"""Points stay within 0.999 of the ball's radius, beyond which single precision ends."""


@DISTANCES.register("hyperbolic", paper="Ermolov et al., CVPR 2022")
class HyperbolicDistance(Distance):
    """The distance in the Poincare ball of curvature -c, of rows that are mapped into it.

    A row v, made no longer than ``clip_r``, becomes the point
    ``x = tanh(sqrt(c) |v|) v / (sqrt(c) |v|)`` (the exponential map at 0), and
    ``d = 2 / sqrt(c) arsinh(sqrt(c) |x - y| / sqrt((1 - c |x|^2) (1 - c |y|^2)))``, which is
    ``2 / sqrt(c) artanh(sqrt(c) |-x + y|)`` with Moebius addition (Ermolov et al., CVPR 2022).
    Rows of one length are ordered as by the cosine.

    Args:
        c: Minus the curvature.
        clip_r: The longest that a row may be; None: as long as numbers allow.

    >>> HyperbolicDistance()(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    tensor([[0., 2.],
            [2., 0.]])
    """

    normalize_embeddings = False

    def __init__(self, c: float = 0.1, clip_r: float | None = 2.3) -> None:
        if c <= 0 or (clip_r is not None and clip_r <= 0):
            raise BadInput(f"c and clip_r must be above 0, not {c} and {clip_r}")
        self.c = c
        self.clip_r = clip_r

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """From Euclidean distances of the points; nothing of size N x N x D."""
        points, stretch = self._mapped(query)
        others, other_stretch = (None, stretch) if reference is None else self._mapped(reference)
        root, apart = math.sqrt(self.c), euclidean(points, others)
        return torch.asinh(root * apart * stretch * other_stretch.T) * (2 / root)

    def _mapped(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The points of the ball, and ``1 / sqrt(1 - c |x|^2)`` of each, which is a cosh."""
        root = math.sqrt(self.c)
        squared = rows.square().sum(1, keepdim=True)
        some = squared > torch.finfo(squared.dtype).tiny  # the root has no gradient at 0
        length = squared.where(some, 1).sqrt()
        longest = _INSIDE / root if self.clip_r is None else min(self.clip_r, _INSIDE / root)
        angle = root * length.clamp_max(longest)
        factor = torch.where(some, angle.tanh() / (root * length), 1)
        return rows * factor, torch.where(some, angle.cosh(), 1)
