"""The quadruplet loss."""

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.kernels.quadruplet import quadruplet_kernel
from lookalike.losses.nca import squared_l2
from lookalike.miners.mined import keep_pairs
from lookalike.ops.pairs import at_places, listed_pairs
from lookalike.reducers import AvgNonZeroReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["QuadrupletLoss"]


@LOSSES.register("quadruplet", paper="Chen et al., CVPR 2017")
class QuadrupletLoss(PairLoss):
    """A triplet loss, plus: positives nearer than any negative pair of two other classes.

    ``[d_ap^2 - d_an^2 + margin_alpha_1]+`` over triplets and ``[d_ap^2 - d_kl^2 +
    margin_alpha_2]+`` over positive pairs (a, p) and pairs (k, l) of three different classes, each
    the mean over its terms above zero. Where the candidates are not the anchors, only l is kept
    from the class of a.

    Args:
        margin_alpha_1: The margin of triplets.
        margin_alpha_2: The margin of quadruplets.
    """

    needs_labels = True
    default_distance = squared_l2
    fused_kernel = quadruplet_kernel

    margin_alpha_1: float = 0.2
    margin_alpha_2: float = 0.2

    def default_reducer(self) -> Reducer:
        """The mean over the values above zero."""
        return AvgNonZeroReducer()

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """Only the pairs that the miner chose, as the labels say."""
        return keep_pairs(relations, mined)

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """The formula, one value per triplet and one per quadruplet."""
        r, pairs = relations, listed_pairs(relations.positives)
        ap = at_places(r.similarity, pairs.places).unsqueeze(1)
        triplets = (r.similarity.index_select(0, pairs.rows) - ap + self.margin_alpha_1).relu()
        weights = pairs.weights.unsqueeze(1) * r.negatives.index_select(0, pairs.rows)
        # pairs (k, l), both of another class than the anchor
        other = 1 - r.same.index_select(0, pairs.rows)
        apart = other.unsqueeze(1) * r.negatives
        if r.self_comparison:
            apart = apart * other.unsqueeze(2)
        weights_of_four = apart * pairs.weights.view(-1, 1, 1)
        quadruplets = (r.similarity - ap.unsqueeze(2) + self.margin_alpha_2).relu()
        return (
            Terms(triplets, weights, places=pairs),
            Terms(quadruplets, weights_of_four, name="quadruplet_loss", places=pairs),
        )
