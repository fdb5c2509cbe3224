"""The intra-pair variance loss."""

from lookalike.losses.base import PairLoss, Terms
from lookalike.reducers import mean
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["IntraPairVarianceLoss"]


@LOSSES.register("intra-pair-variance", paper="Yu et al., BMVC 2020")
class IntraPairVarianceLoss(PairLoss):
    """Positives alike among themselves, and negatives too; used beside another loss.

    ``mean_P [(1 - pos_eps) mean s - s]+^2 + mean_N [s - (1 + neg_eps) mean s]+^2``, the means over
    all positive, or negative, pairs. With a distance the roles of ``1 - eps`` and ``1 + eps`` turn.

    Args:
        pos_eps: Relative slack below the mean of the positives.
        neg_eps: Relative slack above the mean of the negatives.
    """

    sub_losses = ("pos_loss", "neg_loss")

    pos_eps: float = 0.01
    neg_eps: float = 0.01

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """The formula, one value per positive and one per negative pair."""
        r, sign = relations, 1 if self.distance.is_inverted else -1
        usual = mean(Terms(r.similarity, r.positives)) * (1 - sign * self.pos_eps)
        rare = mean(Terms(r.similarity, r.negatives)) * (1 + sign * self.neg_eps)
        pull = (usual - r.similarity).relu().square()
        push = (r.similarity - rare).relu().square()
        return (
            Terms(pull, r.positives, r.positive_counts, "pos_loss"),
            Terms(push, r.negatives, r.negative_counts, "neg_loss"),
        )
