"""The instance loss."""

from lookalike.losses.base import AnchorLoss, Terms
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["InstanceLoss"]


@LOSSES.register("instance", paper="Zheng et al., TOMM 2020")
class InstanceLoss(AnchorLoss):
    """Every image of a batch is a class of its own, or of the images that share its label.

    ``-1/|C| sum_C log(e^(gamma s) / sum e^(gamma s))``, C the images of the anchor's class and the
    anchor itself, the sum over all images and the anchor; mean over anchors. (PML takes the number
    of the class for the place of an image; the two agree where every image is its own class.)

    Args:
        gamma: The scale of the cosines.
    """

    self_pairs = True
    needs = "the cosine"

    gamma: float = 64

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor."""
        logits = relations.similarity * self.gamma
        total = log_sum_exp(logits, relations.valid).unsqueeze(1)
        number = relations.positive_counts.sum(1).clamp_min(1e-30)
        return Terms(((total - logits) * relations.positives).sum(1) / number)
