"""The triplet loss, over all triplets of a batch or those a miner found."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.distances import LpDistance
from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.direction import direction_cosine
from lookalike.losses.every_triplet import every_triplet
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.triplet import all_triplets_kernel, blocks_kernel
from lookalike.losses.kernels.triplet_sweep import direction_sweep, smooth_sweep, swap_sweep
from lookalike.miners.everything import RandomMiner
from lookalike.miners.mined import take_triplets
from lookalike.ops.sync import can_sync
from lookalike.reducers import AvgNonZeroReducer, MeanReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["TripletMarginLoss"]


@LOSSES.register("triplet", paper="Weinberger and Saul, JMLR 2009")
class TripletMarginLoss(PairLoss):
    """Wants each positive nearer than each negative by a margin.

    ``[d_ap - d_an + margin]+``, mean over the triplets above zero; all triplets, without an array
    over them. ``smooth_loss``: ``log(1 + e^(.))``. ``swap``: the nearer of ``d_an`` and ``d_pn``.
    ``triplets_per_anchor``: so many random triplets instead of all. ``direction``: direction
    regularisation, ``[d_ap - d_an + margin - direction * cos(x_p - x_a, x_n - x_a)]+``, then the
    mean over all triplets (Mohan et al., CVPR 2020).

    Args:
        margin: By how much a positive must be nearer than a negative.
        swap: Whether the nearer of ``d_an`` and ``d_pn`` counts.
        smooth_loss: Whether ``log(1 + e^x)`` replaces the hinge.
        triplets_per_anchor: Random triplets per anchor, or ``all``.
        direction: The weight of direction regularisation.
    """

    default_distance = LpDistance
    reads_triplets = True

    margin: float = 0.05
    swap: bool = False
    smooth_loss: bool = False
    triplets_per_anchor: int | Literal["all"] = "all"
    direction: float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.between_candidates = bool(self.swap or self.direction)
        number = self.triplets_per_anchor
        self.random = None if number == "all" else RandomMiner(number)

    def default_reducer(self) -> Reducer:
        """The mean over the triplets above zero; over all with direction regularisation."""
        return MeanReducer() if self.direction else AvgNonZeroReducer()

    def per_triplet(self, ap: Tensor, an: Tensor, pn: Tensor | None) -> Tensor:
        """``[s_an - s_ap + margin]+``, from the similarities of the three pairs."""
        if self.swap and pn is not None:
            violation = torch.maximum(an, pn) - ap + self.margin
        else:
            violation = an - ap + self.margin
        if self.direction and pn is not None:
            squared = self.distance.squared_euclidean
            cosine = direction_cosine(squared(ap), squared(an), squared(pn))
            violation = violation - self.direction * cosine
        return softplus(violation) if self.smooth_loss else violation.relu()

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per triplet: those listed, or all that the pairs make."""
        found, pn = every_triplet(relations), None
        if self.between_candidates:
            pn = found.between(relations.between_candidates(), relations.similarity)
        values = self.per_triplet(found.ap, found.an, pn)
        return Terms(values, found.weights, found.counts, places=found.places)

    def kernel(self, relations: Relations) -> Kernel | None:
        """Without an array over all triplets; those that a miner listed are few."""
        if relations.triplets is not None:
            return None
        sweeps: list[Kernel] = []
        for setting, sweep in (
            (self.smooth_loss, smooth_sweep),
            (self.swap, swap_sweep),
            (self.direction, direction_sweep),
        ):
            if setting:
                sweeps.append(sweep)
        if not sweeps:
            return all_triplets_kernel
        r = relations
        counted_once = r.binary and r.condition is None and (r.once or not r.mined)
        if len(sweeps) == 1 and counted_once and not can_sync(r.similarity):
            return sweeps[0]
        return blocks_kernel

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations, or of random triplets of them."""
        if self.random is not None and relations.triplets is None and relations.condition is None:
            with torch.no_grad():
                relations = take_triplets(relations, self.random.mine(relations))
        return super().compute(relations)
