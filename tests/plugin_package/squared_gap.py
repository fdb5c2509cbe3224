"""A loss in a package of its own: one method on relations, nothing about mixing or memory."""

from lookalike.losses import PairLoss


class SquaredGapLoss(PairLoss):
    """Squares how far positives are from 1, and how far negatives are above a margin."""

    def __init__(self, margin: float = 0.3) -> None:
        super().__init__()
        self.margin = margin

    def compute(self, relations):
        """``mean_P (1 - s)^2 + mean_N [s - margin]+^2``."""
        similarity = relations.similarity
        pull = (1 - similarity).square() * relations.positives
        push = (similarity - self.margin).relu().square() * relations.negatives
        pulled = pull.sum() / relations.positives.sum().clamp_min(1e-12)
        return pulled + push.sum() / relations.negatives.sum().clamp_min(1e-12)
