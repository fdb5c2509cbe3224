"""The triplet loss, over all triplets of a batch or those a miner found."""

from typing import Literal, Unpack

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lookalike.distances import LpDistance
from lookalike.geometry import (
    Relations,
    at_places,
    attach,
    listed_pairs,
    mean_of_positive,
    picked,
    weighted_mean,
)
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.losses.direction import among_candidates, direction_cosine
from lookalike.miners.everything import RandomMiner
from lookalike.miners.mined import Gaps, Listed, Mined, narrow
from lookalike.registry import LOSSES
from lookalike.triplets import block_rows, count_triplets

__all__ = ["TripletMarginLoss", "hinge"]


def hinge(
    similarity: Tensor,
    margin: float,
    counts: tuple[Tensor, Tensor],
    number: Tensor | None = None,
) -> Tensor:
    """``[s_an - s_ap + margin]+``, mean over the triplets above zero.

    ``counts`` says in how many of those each pair takes part, by weight (``count_triplets``);
    ``number`` how many they are, where that is not their weight. The hinge is piecewise linear, so
    value and gradient follow exactly.
    """
    as_positive, as_negative = counts
    known = similarity.detach()
    total = as_positive.sum()
    number = total if number is None else number
    scale = number.clamp_min(torch.finfo(number.dtype).tiny).reciprocal_()
    gradient = as_negative.sub_(as_positive)
    value = torch.dot(gradient.view(-1), known.reshape(-1)) + margin * total
    return attach(similarity, value * scale, gradient.mul_(scale))


@LOSSES.register("triplet", paper="Weinberger and Saul, JMLR 2009")
class TripletMarginLoss(PairLoss):
    """Wants each positive nearer than each negative by a margin.

    ``[d_ap - d_an + margin]+``, mean over the triplets above zero; all triplets, without an array
    over them. ``smooth_loss``: ``log(1 + e^(.))``. ``swap``: the nearer of ``d_an`` and ``d_pn``.
    ``triplets_per_anchor``: so many random triplets instead of all. ``direction``: direction
    regularisation, ``[d_ap - d_an + margin - direction * cos(x_p - x_a, x_n - x_a)]+``, then the
    mean over all triplets (Mohan et al., CVPR 2020). The last three compare positives with
    candidates in blocks.
    """

    default_distance = LpDistance

    def __init__(
        self,
        margin: float = 0.05,
        swap: bool = False,
        smooth_loss: bool = False,
        triplets_per_anchor: int | Literal["all"] = "all",
        direction: float = 0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.margin = margin
        self.swap = swap
        self.smooth_loss = smooth_loss
        self.triplets_per_anchor = triplets_per_anchor
        self.direction = direction
        self.among = bool(swap or direction)
        self.random = None if triplets_per_anchor == "all" else RandomMiner(triplets_per_anchor)

    def compute(self, relations: Relations) -> Tensor:
        """The loss of all triplets of these relations (or of random ones)."""
        if self.random is not None:
            with torch.no_grad():
                found = self.random.mine(relations)
            return self._listed(relations, found)
        return self._all(relations)

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The loss of the triplets found; pairs found are combined to triplets."""
        if isinstance(found, Gaps):
            if not self._plain:
                return self._listed(relations, found.listed())
            with torch.no_grad():
                counts = count_triplets(
                    found.positive,
                    found.negative,
                    hinge=(relations.similarity.detach(), self.margin),
                    gap=found.gap,
                    same_order=self.distance.same_order(found.distance),
                )
            return hinge(relations.similarity, self.margin, counts)
        if isinstance(found, Listed):
            return self._listed(relations, found)
        return self._all(narrow(relations, found, count=True))

    @property
    def _plain(self) -> bool:
        return not (self.swap or self.smooth_loss or self.direction)

    def _all(self, relations: Relations) -> Tensor:
        if not self._plain:
            return self._in_blocks(relations)
        limit = (relations.similarity.detach(), self.margin)
        number = None
        with torch.no_grad():
            counts = count_triplets(relations.positives, relations.negatives, hinge=limit)
            if not relations.binary:
                whole = relations.positive_counts, relations.negative_counts
                number = count_triplets(*whole, hinge=limit)[0].sum()
        return hinge(relations.similarity, self.margin, counts, number)

    def _listed(self, relations: Relations, found: Listed) -> Tensor:
        similarity = relations.similarity
        anchor, positive, negative = found.anchor, found.positive, found.negative
        pn = None
        if self.swap or self.direction:
            pn = picked(among_candidates(relations), positive, negative)
        terms = self._terms(
            picked(similarity, anchor, positive), picked(similarity, anchor, negative), pn
        )
        keep = torch.ones_like(terms) if found.keep is None else found.keep.to(terms.dtype)
        if self.direction:
            return weighted_mean(terms.relu(), keep)
        return mean_of_positive(terms, keep)

    def _terms(self, ap: Tensor, an: Tensor, pn: Tensor | None) -> Tensor:
        """The loss of each triplet, below zero where a hinge will cut it off."""
        violation = (an if pn is None or not self.swap else torch.maximum(an, pn)) - ap
        if pn is not None and self.direction:
            squared = self.distance.squared_euclidean
            cosine = direction_cosine(squared(ap), squared(an), squared(pn))
            violation = violation - self.direction * cosine
        violation = violation + self.margin
        return softplus(violation) if self.smooth_loss else violation

    def _in_blocks(self, relations: Relations) -> Tensor:
        """All triplets, a block of positive pairs at a time; the gradients are added up."""
        among = among_candidates(relations) if self.swap or self.direction else None
        pairs = listed_pairs(relations.positives)
        rows, places, weight = pairs
        negatives, candidates = relations.negatives, relations.negative_counts
        times = at_places(relations.positive_counts, places)
        columns = pairs.columns(negatives)

        def block(similarity: Tensor, among: Tensor | None, part: slice) -> tuple[Tensor, Tensor]:
            row, column = rows[part], columns[part]
            terms = self._terms(
                at_places(similarity, places[part]).unsqueeze(1),
                similarity.index_select(0, row),
                None if among is None else among.index_select(0, column),
            )
            weights = negatives.index_select(0, row) * weight[part].unsqueeze(1)
            counts = candidates.index_select(0, row) * times[part].unsqueeze(1)
            counted = counts if self.direction else (terms > 0) * counts
            return (terms.relu() * weights).sum(), counted.sum()

        tiny = torch.finfo(weight.dtype).tiny
        if torch.compiler.is_compiling():
            total, count = block(relations.similarity, among, slice(None))
            return total / count.clamp_min(tiny)

        similarity = relations.similarity.detach().requires_grad_()
        others = None
        if among is not None:
            others = similarity if relations.within else among.detach().requires_grad_()
        leaves = [similarity] if others is None or others is similarity else [similarity, others]
        gradients = [torch.zeros_like(leaf) for leaf in leaves]
        total, count = similarity.new_zeros(()), similarity.new_zeros(())
        size = block_rows(similarity.shape[1])
        for at in range(0, rows.numel(), size):
            with torch.enable_grad():
                part, number = block(similarity, others, slice(at, at + size))
                for kept, new in zip(gradients, torch.autograd.grad(part, leaves), strict=True):
                    kept.add_(new)
            total, count = total + part.detach(), count + number.detach()
        scale = count.clamp_min(tiny).reciprocal()
        loss = attach(relations.similarity, total * scale, gradients[0] * scale)
        if among is not None and len(leaves) == 2:
            loss = loss + attach(among, torch.zeros_like(total), gradients[1] * scale)
        return loss
