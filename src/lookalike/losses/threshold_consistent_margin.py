"""The threshold-consistent margin loss."""

from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.contrastive import contrastive
from lookalike.reducers import AvgNonZeroReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ThresholdConsistentMarginLoss"]


@LOSSES.register("threshold-consistent-margin", paper="Zhang et al., ICLR 2024")
class ThresholdConsistentMarginLoss(PairLoss):
    """One threshold for all classes: only the hard pairs are pulled and pushed to two cosines.

    ``lambda_plus mean_(P, s <= margin_plus) (margin_plus - s)
    + lambda_minus mean_(N, s >= margin_minus) (s - margin_minus)``; used beside another loss.

    Args:
        lambda_plus: The weight of the positives' part.
        lambda_minus: The weight of the negatives' part.
        margin_plus: Positives below it count.
        margin_minus: Negatives above it count.
    """

    needs = "the cosine"

    lambda_plus: float = 1.0
    lambda_minus: float = 1.0
    margin_plus: float = 0.9
    margin_minus: float = 0.5

    def default_reducer(self) -> Reducer:
        """The mean over the pairs on the wrong side."""
        return AvgNonZeroReducer()

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """The formula, one value per positive and one per negative pair."""
        pull, push = contrastive(relations, self.margin_plus, self.margin_minus)
        return (
            pull._replace(values=self.lambda_plus * pull.values),
            push._replace(values=self.lambda_minus * push.values),
        )
