"""Pairwise cross-entropy in hyperbolic space."""

from lookalike.distances import HyperbolicDistance
from lookalike.losses.ntxent import NTXentLoss
from lookalike.registry import LOSSES

__all__ = ["HyperbolicLoss"]


@LOSSES.register("hyperbolic", paper="Ermolov et al., CVPR 2022")
class HyperbolicLoss(NTXentLoss):
    """Each positive against the anchor's negatives by softmax, by distances of the Poincare ball.

    ``-log(e^(-d_ap/t) / (e^(-d_ap/t) + sum_N e^(-d_an/t)))``, mean over positive pairs: NT-Xent
    with ``lookalike.distances.HyperbolicDistance``. With two images a class it is the paper's; of
    larger classes the paper's code takes two images at a time, here all negatives count. The
    distance reads lengths: train with ``model.normalize=false``.

    Args:
        temperature: Divides the distances.
        c: Minus the curvature of the space.
        clip_r: The longest that an embedding may be; None: as long as numbers allow.
    """

    temperature: float = 0.2
    c: float = 0.1
    clip_r: float | None = 2.3

    def __post_init__(self) -> None:
        """Build the distance of this curvature, unless another distance is given."""
        if self.distance is None:
            self.distance = HyperbolicDistance(self.c, self.clip_r)
        super().__post_init__()
