"""The contrastive loss: positives within one margin, negatives beyond another."""

from collections.abc import Callable
from typing import ClassVar, Literal, Unpack

import torch
from torch import Tensor

from lookalike.distances import Distance, LpDistance, SNRDistance
from lookalike.errors import BadInput, nearest
from lookalike.geometry import Relations, attach, row_blocks, violations
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.registry import LOSSES

__all__ = ["ContrastiveLoss", "SignalToNoiseRatioContrastiveLoss", "contrastive"]


def contrastive(relations: Relations, pull_to: float, push_to: float) -> Tensor:
    """``[pull_to - s]+`` over positives plus ``[s - push_to]+`` over negatives.

    Each part is the mean over its non-zero terms.
    """
    with torch.no_grad():
        blocks = row_blocks(relations)
        parts = [_hinges(relations.part(rows), pull_to, push_to) for rows in blocks[:1]]
        sums = parts[0][2]
        for rows in blocks[1:]:
            sums = sums + _hinges(relations.part(rows), pull_to, push_to)[2]
        (pull, pulls), (push, pushes) = sums.view(2, 2).unbind()
        tiny = torch.finfo(sums.dtype).tiny
        pulls, pushes = pulls.clamp_min(tiny), pushes.clamp_min(tiny)
        slope = torch.empty_like(relations.similarity)
        for number, rows in enumerate(blocks):
            # a block is worked out twice: cheaper than keeping what does not fit in the cache
            part = parts[0] if number == 0 else _hinges(relations.part(rows), pull_to, push_to)
            torch.sub(part[1].div_(pushes), part[0].div_(pulls), out=slope[rows])
    return attach(relations.similarity, pull / pulls + push / pushes, slope)


def _hinges(relations: Relations, pull_to: float, push_to: float) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of the terms above zero of both kinds; their sums and counts, side by side."""
    similarity = relations.similarity.detach()
    pull, pulled = violations(pull_to - similarity, relations.positives)
    push, pushed = violations(similarity - push_to, relations.negatives)
    return pulled, pushed, torch.stack((pull, pulled.sum(), push, pushed.sum()))


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
