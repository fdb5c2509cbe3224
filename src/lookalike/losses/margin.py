"""The margin loss: one boundary between positives and negatives, which may be learned."""

from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.geometry import Relations, at_places, attach, violations
from lookalike.labels import Labels, as_tensor, check_range
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.miners.everything import RandomMiner
from lookalike.miners.mined import Indices, Listed, Mined, Pairs, mined
from lookalike.registry import LOSSES

__all__ = ["MarginLoss"]


@LOSSES.register("margin", paper="Wu et al., ICCV 2017")
class MarginLoss(PairLoss):
    """Positives within ``beta - margin``, negatives beyond ``beta + margin``.

    ``[d_ap - beta + margin]+ + [beta - d_an + margin]+`` over triplets, divided by the number of
    terms above zero. ``learn_beta`` makes beta a weight; ``num_classes`` gives each class its own.
    ``nu`` penalises beta.
    """

    default_distance = LpDistance
    beta: Tensor

    def __init__(
        self,
        margin: float = 0.2,
        nu: float = 0,
        beta: float = 1.2,
        triplets_per_anchor: int | Literal["all"] = "all",
        learn_beta: bool = False,
        num_classes: int | None = None,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.margin = margin
        self.nu = nu
        self.learn_beta = learn_beta
        self.random = None if triplets_per_anchor == "all" else RandomMiner(triplets_per_anchor)
        start = torch.full((num_classes or 1,), float(beta))
        if learn_beta:
            self.beta = nn.Parameter(start)
        else:
            self.register_buffer("beta", start)

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        *,
        valid: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; a beta for each class needs class indices as labels."""
        if self.beta.numel() == 1 or embeddings.shape[0] == 0:
            return super().forward(
                embeddings, labels, indices_tuple, ref_emb, ref_labels, valid=valid
            )
        if labels is None:
            raise BadInput("a beta for each class needs labels")
        relations = self.relations(embeddings, labels, ref_emb, ref_labels)
        if valid is not None:
            relations = relations._replace(valid=valid.to(relations.similarity.dtype))
        counts = None
        if indices_tuple is None:
            found, counts = self._all(relations), self._counts(relations)
        else:
            rows, columns = relations.similarity.shape
            found = mined(indices_tuple, (rows, columns), embeddings.device)
        numbers = as_tensor(labels, embeddings.shape[0])
        check_range(numbers, self.beta.numel())
        numbers = numbers.to(self.beta.device)
        loss = self._loss(relations, found, self.beta[numbers].unsqueeze(1), counts)
        return self._regularized(loss, embeddings)

    def compute(self, relations: Relations) -> Tensor:
        """The loss of all triplets of these relations (or of random ones)."""
        return self._loss(relations, self._all(relations), self.beta, self._counts(relations))

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The loss of the triplets found."""
        return self._loss(relations, found, self.beta)

    def _all(self, relations: Relations) -> Mined:
        if self.random is not None:
            return self.random.mine(relations)
        return Pairs(relations.positives, relations.negatives, once=False)

    def _counts(self, relations: Relations) -> Pairs | None:
        """How often pairs count where labels are degrees, and weigh the terms only."""
        if relations.binary:
            return None
        return Pairs(relations.positive_counts, relations.negative_counts, once=False)

    def _loss(
        self, relations: Relations, found: Mined, beta: Tensor, counts: Pairs | None = None
    ) -> Tensor:
        similarity = relations.similarity
        boundary = beta.to(similarity.dtype)
        if not self.distance.is_inverted:
            boundary = -boundary
        with torch.no_grad():
            known, edge = similarity.detach(), boundary.detach()
            total, slope, count, named = (
                self._listed(known, edge, found)
                if isinstance(found, Listed)
                else self._dense(known, edge, found, counts)
            )
            count.clamp_min_(torch.finfo(known.dtype).tiny)
            value = total / count
            slope.div_(count)
        loss = attach(similarity, value, slope)
        if boundary.requires_grad:
            against = slope.sum(1, keepdim=True) if boundary.numel() > 1 else slope.sum().view(1)
            loss = loss + attach(boundary, torch.zeros_like(value), -against)
        if self.learn_beta and self.nu:
            if beta.numel() == 1:
                loss = loss + self.nu * beta.to(loss.dtype).sum()
            else:
                loss = loss + self.nu * (beta.to(loss.dtype) * named).sum() / count
        return loss

    def _dense(
        self, known: Tensor, edge: Tensor, found: Mined, counts: Pairs | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The sum of the terms above zero, its slopes, their number, and how often anchors pull."""
        positive, negative = _triplets_of_pairs(found, known.dtype)
        times = (None, None) if counts is None else _triplets_of_pairs(counts, known.dtype)
        far, pulled, pulls = violations(edge + self.margin - known, positive, times[0])
        near, pushed, pushes = violations(known - (edge - self.margin), negative, times[1])
        return far + near, pushed.sub_(pulled), pulls + pushes, positive.sum(1, keepdim=True)

    def _listed(
        self, known: Tensor, edge: Tensor, found: Listed
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same of triplets one by one: far fewer than pairs."""
        if edge.numel() > 1:
            edge = edge.view(-1).index_select(0, found.anchor)
        weights = found.weights(known.dtype)
        to_positive, to_negative = found.places()
        far, pulled, pulls = violations(edge + self.margin - at_places(known, to_positive), weights)
        near, pushed, pushes = violations(
            at_places(known, to_negative) - (edge - self.margin), weights
        )
        slope = torch.zeros_like(known)
        slope.view(-1).index_add_(0, to_positive, pulled, alpha=-1)
        slope.view(-1).index_add_(0, to_negative, pushed)
        named = known.new_zeros(len(known)).index_add_(0, found.anchor, weights)
        return far + near, slope, pulls + pushes, named.unsqueeze(1)


def _triplets_of_pairs(found: Mined, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """In how many triplets each pair is the positive one, and the negative one."""
    positive, negative = (part.to(dtype) for part in found.pairs())
    if not isinstance(found, Pairs):
        return positive, negative
    # every positive of an anchor meets every negative of it
    return positive * negative.sum(1, keepdim=True), negative * positive.sum(1, keepdim=True)
