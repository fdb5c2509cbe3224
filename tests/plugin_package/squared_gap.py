"""A loss in a package of its own: one method on relations, nothing about mixing or memory."""

from lookalike.losses import PairLoss, Terms


class SquaredGapLoss(PairLoss):
    """Squares how far positives are from 1, and how far negatives are above a margin."""

    additive = True

    def __init__(self, margin: float = 0.3) -> None:
        super().__init__()
        self.margin = margin

    def terms(self, relations):
        """``mean_P (1 - s)^2 + mean_N [s - margin]+^2``."""
        pull = (1 - relations.similarity).square()
        push = (relations.similarity - self.margin).relu().square()
        return (
            Terms(pull, relations.positives, relations.positive_counts),
            Terms(push, relations.negatives, relations.negative_counts),
        )
