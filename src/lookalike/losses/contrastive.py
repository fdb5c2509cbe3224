"""The contrastive loss: positives within one margin, negatives beyond another."""

from collections.abc import Callable
from typing import ClassVar, Literal, Unpack

import torch
from torch import Tensor

from lookalike.distances import Distance, LpDistance, SNRDistance
from lookalike.errors import BadInput, nearest
from lookalike.geometry import Relations, attach
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["ContrastiveLoss", "SignalToNoiseRatioContrastiveLoss", "contrastive"]


def contrastive(relations: Relations, pull_to: float, push_to: float) -> Tensor:
    """``[pull_to - s]+`` over positives plus ``[s - push_to]+`` over negatives.

    Each part is the mean over its non-zero terms.
    """
    with torch.no_grad():
        similarity = relations.similarity.detach()
        pull, pulled = _mean_above_zero((pull_to - similarity).relu_(), relations.positives)
        push, pushed = _mean_above_zero((similarity - push_to).relu_(), relations.negatives)
    return attach(relations.similarity, pull + push, pushed.sub_(pulled))


def _mean_above_zero(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted mean of the values above zero (0 if none; none is below), and its gradient."""
    counted = values.sign().mul_(weights)
    count = counted.sum().clamp_min_(torch.finfo(values.dtype).tiny)
    total = torch.dot(values.view(-1), counted.view(-1))
    return total / count, counted.div_(count)


def linear_contrastive(relations: Relations, push_to: float) -> Tensor:
    """``sum_N [s - push_to]+ - sum_P s`` per anchor, mean over anchors."""
    pull = -(relations.similarity * relations.positives).sum()
    push = ((relations.similarity - push_to).relu() * relations.negatives).sum()
    return (pull + push) / relations.similarity.shape[0]


@LOSSES.register("contrastive", paper="Hadsell et al., CVPR 2006")
class ContrastiveLoss(PairLoss):
    """Pulls positives within one margin and pushes negatives beyond another.

    ``on="distance"`` (default): ``mean [d - pos_margin]+ over P + mean [neg_margin - d]+ over N``,
    each mean over the non-zero terms; with a similarity as ``distance`` the signs turn.
    ``on="similarity"``: per anchor ``sum_N [s - neg_margin]+ - sum_P s`` of cosines, mean over
    anchors (``pos_margin`` is not used).
    """

    default_distance: ClassVar[Callable[[], Distance]] = LpDistance

    def __init__(
        self,
        pos_margin: float = 0,
        neg_margin: float = 1,
        on: Literal["distance", "similarity"] = "distance",
        **options: Unpack[LossOptions],
    ) -> None:
        if on not in ("distance", "similarity"):
            raise BadInput(f"on='{on}' is not known; " + nearest(on, ("distance", "similarity")))
        if on == "similarity" and options.get("distance") is None:
            options["distance"] = "cosine"
        super().__init__(**options)
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin
        self.on = on

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        level = self.distance.level
        if self.on == "similarity":
            return linear_contrastive(relations, level(self.neg_margin))
        return contrastive(relations, level(self.pos_margin), level(self.neg_margin))


@LOSSES.register("snr-contrastive", paper="Yuan et al., CVPR 2019")
class SignalToNoiseRatioContrastiveLoss(ContrastiveLoss):
    """The contrastive loss on the signal-to-noise distance ``var(x - y) / var(x)``.

    The paper adds a penalty on the sums of the embeddings: ``embedding_regularizer="zero-mean"``.
    """

    default_distance = SNRDistance
