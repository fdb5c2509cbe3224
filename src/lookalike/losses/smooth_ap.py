"""SmoothAP: average precision with a sigmoid for each comparison."""

import torch

from lookalike.losses.base import AnchorLoss, Terms
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.smooth_ap import smooth_ap_kernel
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.soft_ranks import soft_ranks
from lookalike.ops.sync import can_sync
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["SmoothAPLoss"]


@LOSSES.register("smooth-ap", paper="Brown et al., ECCV 2020")
class SmoothAPLoss(AnchorLoss):
    """One minus average precision, ranks counted by sigmoids.

    ``rank(j) = 1 + sum_(k != j) sigmoid((s_k - s_j) / temperature)``; the precision at a positive
    is its rank among the positives over its rank among all. An image is a positive of its own, as
    in the paper's code. Classes of any size and order (PML asks for equal classes, and is right
    only when images a class equal the number of classes). Mean over anchors.

    Args:
        temperature: Divides the differences of similarities.
    """

    self_pairs = True

    temperature: float = 0.01

    def kernel(self, relations: Relations) -> Kernel | None:
        """On the CPU, where positives are few, each compared once with all candidates."""
        return smooth_ap_kernel if can_sync(relations.similarity) else None

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor."""
        r, pairs = relations, listed_pairs(relations.positives)
        before = soft_ranks(r.similarity, [r.valid, r.positives], pairs, self.temperature)
        rank, rank_in_class = 1 + before
        number = r.positives.sum(1)
        share = pairs.weights / number.clamp_min(1e-30).index_select(0, pairs.rows)
        precision = torch.zeros_like(number).index_add(0, pairs.rows, share * rank_in_class / rank)
        return Terms(number.sign() - precision)
