"""The contrastive loss: positives within one margin, negatives beyond another."""

from collections.abc import Callable
from typing import ClassVar, Literal

from torch import Tensor

from lookalike.distances import Distance, LpDistance, SNRDistance
from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.contrastive import contrastive_kernel
from lookalike.reducers import AvgNonZeroReducer, MeanReducer, Reducer
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ContrastiveLoss", "SignalToNoiseRatioContrastiveLoss"]


def contrastive(r: Relations, pull_to: float, push_to: float) -> tuple[Terms, Terms]:
    """``[pull_to - s]+`` of positives and ``[s - push_to]+`` of negatives, one value per pair."""
    pull = (pull_to - r.similarity).relu()
    push = (r.similarity - push_to).relu()
    return (
        Terms(pull, r.positives, r.positive_counts, "pos_loss"),
        Terms(push, r.negatives, r.negative_counts, "neg_loss"),
    )


def linear_contrastive(r: Relations, push_to: float) -> Tensor:
    """``sum_N [s - push_to]+ - sum_P s``, one value per anchor."""
    pull = (r.similarity * r.positives).sum(1)
    push = ((r.similarity - push_to).relu() * r.negatives).sum(1)
    return push - pull


@LOSSES.register("contrastive", paper="Hadsell et al., CVPR 2006")
class ContrastiveLoss(PairLoss):
    """Pulls positives within one margin and pushes negatives beyond another.

    ``on="distance"`` (default): ``mean [d - pos_margin]+ over P + mean [neg_margin - d]+ over N``,
    each mean over the non-zero terms; with a similarity as ``distance`` the signs turn. A label
    between 0 and 1 weighs its term, not the number of terms.
    ``on="similarity"``: per anchor ``sum_N [s - neg_margin]+ - sum_P s`` of cosines, mean over
    anchors (``pos_margin`` is not used).

    Args:
        pos_margin: Positives within it have no loss.
        neg_margin: Negatives beyond it have no loss.
        on: Whether margins are distances or similarities.
    """

    additive = True
    sub_losses = ("pos_loss", "neg_loss")
    default_distance: ClassVar[Callable[[], Distance]] = LpDistance

    pos_margin: float = 0
    neg_margin: float = 1
    on: Literal["distance", "similarity"] = "distance"

    def __post_init__(self) -> None:
        if self.on == "similarity" and self.distance is None:
            self.distance = "cosine"
        super().__post_init__()

    def default_reducer(self) -> Reducer:
        """On distances the mean over the hinges above zero, on similarities over all anchors."""
        return AvgNonZeroReducer() if self.on == "distance" else MeanReducer()

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """The formula."""
        level = self.distance.level
        if self.on == "similarity":
            return Terms(linear_contrastive(relations, level(self.neg_margin)))
        return contrastive(relations, level(self.pos_margin), level(self.neg_margin))

    def kernel(self, relations: Relations) -> Kernel | None:  # noqa: ARG002
        """Both hinges and their gradients in one pass."""
        return contrastive_kernel if self.on == "distance" else None


@LOSSES.register("snr-contrastive", paper="Yuan et al., CVPR 2019")
class SignalToNoiseRatioContrastiveLoss(ContrastiveLoss):
    """The contrastive loss on the signal-to-noise distance ``var(x - y) / var(x)``.

    The paper adds a penalty on the sums of the embeddings: ``embedding_regularizer="zero-mean"``.
    """

    default_distance = SNRDistance
