"""The binomial deviance loss."""

from torch.nn.functional import softplus

from lookalike.losses.base import PairLoss, Terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["BinomialDevianceLoss"]


@LOSSES.register("binomial-deviance", paper="Yi et al., ICPR 2014")
class BinomialDevianceLoss(PairLoss):
    """A soft contrastive loss on cosines, negatives weighted by a cost.

    ``mean_P log(1 + e^(-alpha (s - beta))) + mean_N log(1 + e^(alpha cost (s - beta)))``.

    Args:
        alpha: Steepness for positives.
        beta: The similarity where the loss turns.
        cost: Steepness for negatives, relative to positives.
    """

    additive = True
    sub_losses = ("pos_loss", "neg_loss")

    alpha: float = 2
    beta: float = 0.5
    cost: float = 25

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """The formula, one value per positive and one per negative pair."""
        r = relations
        beyond = (r.similarity - self.distance.level(self.beta)) * self.alpha
        return (
            Terms(softplus(-beyond), r.positives, r.positive_counts, "pos_loss"),
            Terms(softplus(self.cost * beyond), r.negatives, r.negative_counts, "neg_loss"),
        )
