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

    Each part is the mean over its non-zero terms; a label weighs its term, not their number.
    """
    with torch.no_grad():
        blocks = row_blocks(relations)
        if len(blocks) == 1:
            (pull, pulled, pulls), (push, pushed, pushes) = _hinges(relations, pull_to, push_to)
            pulls, pushes = _at_least_tiny(pulls), _at_least_tiny(pushes)
            slope = pushed.div_(pushes).sub_(pulled.div_(pulls))
        else:
            # every block is worked out twice: cheaper than keeping what does not fit in the cache
            sums = relations.similarity.new_zeros(2, 2)
            for rows in blocks:
                hinges = _hinges(relations.part(rows), pull_to, push_to)
                sums += torch.stack([torch.stack((total, count)) for total, _, count in hinges])
            pull, push = sums[:, 0]
            pulls, pushes = _at_least_tiny(sums[:, 1])
            slope = torch.empty_like(relations.similarity)
            for rows in blocks:
                (_, pulled, _), (_, pushed, _) = _hinges(relations.part(rows), pull_to, push_to)
                torch.sub(pushed.div_(pushes), pulled.div_(pulls), out=slope[rows])
    return attach(relations.similarity, pull / pulls + push / pushes, slope)


def _hinges(
    relations: Relations, pull_to: float, push_to: float
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Of positives and of negatives: the sum of the terms above zero, their weights and number."""
    similarity = relations.similarity.detach()
    counts: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
    if not relations.binary:
        counts = (relations.positive_counts, relations.negative_counts)
    return (
        violations(pull_to - similarity, relations.positives, counts[0]),
        violations(similarity - push_to, relations.negatives, counts[1]),
    )


def _at_least_tiny(counts: Tensor) -> Tensor:
    return counts.clamp_min_(torch.finfo(counts.dtype).tiny)


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
