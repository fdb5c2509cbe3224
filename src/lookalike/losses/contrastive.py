"""The contrastive loss: positives within one margin, negatives beyond another."""

from collections.abc import Callable
from typing import ClassVar, Literal, Unpack

from torch import Tensor

from lookalike.distances import Distance, LpDistance, SNRDistance
from lookalike.errors import BadInput, did_you_mean
from lookalike.losses.base import LossOptions, PairLoss, Terms, mean, mean_above_zero
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.contrastive import contrastive_kernel
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ContrastiveLoss", "SignalToNoiseRatioContrastiveLoss"]


def contrastive(r: Relations, pull_to: float, push_to: float) -> tuple[Terms, Terms]:
    """``[pull_to - s]+`` of positives and ``[s - push_to]+`` of negatives, one value per pair."""
    pull = (pull_to - r.similarity).relu()
    push = (r.similarity - push_to).relu()
    return (
        Terms(pull, r.positives, r.positive_counts),
        Terms(push, r.negatives, r.negative_counts),
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
        options: Those of every loss, see ``LossOptions``.
    """

    additive = True
    default_distance: ClassVar[Callable[[], Distance]] = LpDistance

    def __init__(
        self,
        pos_margin: float = 0,
        neg_margin: float = 1,
        on: Literal["distance", "similarity"] = "distance",
        **options: Unpack[LossOptions],
    ) -> None:
        if on not in ("distance", "similarity"):
            raise BadInput(
                f"on='{on}' is not known; " + did_you_mean(on, ("distance", "similarity"))
            )
        if on == "similarity" and options.get("distance") is None:
            options["distance"] = "cosine"
        super().__init__(**options)
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin
        self.on = on

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """The formula."""
        level = self.distance.level
        if self.on == "similarity":
            return Terms(linear_contrastive(relations, level(self.neg_margin)))
        return contrastive(relations, level(self.pos_margin), level(self.neg_margin))

    def reduce(self, terms: Terms) -> Tensor:
        """The mean over anchors, or over the pairs above zero."""
        return mean(terms) if self.on == "similarity" else mean_above_zero(terms)

    def kernel(self, relations: Relations) -> Kernel | None:  # noqa: ARG002
        """Both hinges and their gradients in one pass."""
        return contrastive_kernel if self.on == "distance" else None


@LOSSES.register("snr-contrastive", paper="Yuan et al., CVPR 2019")
class SignalToNoiseRatioContrastiveLoss(ContrastiveLoss):
    """The contrastive loss on the signal-to-noise distance ``var(x - y) / var(x)``.

    The paper adds a penalty on the sums of the embeddings: ``embedding_regularizer="zero-mean"``.

    Args:
        pos_margin: Positives within it have no loss.
        neg_margin: Negatives beyond it have no loss.
        on: Whether margins are distances or similarities.
        options: Those of every loss, see ``LossOptions``.
    """

    default_distance = SNRDistance
