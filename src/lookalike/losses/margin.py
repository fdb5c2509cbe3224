"""The margin loss: one boundary between positives and negatives, which may be learned."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.labels import check_range
from lookalike.losses.base import PairLoss, Terms
from lookalike.losses.every_triplet import every_triplet
from lookalike.losses.kernels.margin import margin_kernel
from lookalike.miners.everything import RandomMiner
from lookalike.miners.mined import take_triplets
from lookalike.ops.pairs import picked
from lookalike.ops.triplets import count_triplets
from lookalike.reducers import DivisorReducer, Reducer, mean_above_zero
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["MarginLoss"]


@LOSSES.register("margin", paper="Wu et al., ICCV 2017")
class MarginLoss(PairLoss):
    """Positives within ``beta - margin``, negatives beyond ``beta + margin``.

    ``[d_ap - beta + margin]+ + [beta - d_an + margin]+`` over triplets, divided by the number of
    terms above zero. ``learn_beta`` makes beta a weight; ``num_classes`` gives each class its own.
    ``nu`` penalises beta.

    Args:
        margin: Half the width of the gap round ``beta``.
        nu: The weight of the penalty on a learned ``beta``.
        beta: The boundary, or where its learning starts.
        triplets_per_anchor: Random triplets per anchor, or ``all``.
        learn_beta: Whether the boundary is learned.
        num_classes: One boundary per class; None: one for all.
        **options: Those of every loss over pairs.
    """

    default_distance = LpDistance
    never_decayed = ("beta",)  # a boundary between distances: nothing wants it near zero
    reads_triplets = True
    sub_losses = ("margin_loss", "beta_reg_loss")
    fused_kernel = margin_kernel
    beta: Tensor

    def __init__(
        self,
        margin: float = 0.2,
        nu: float = 0,
        beta: float = 1.2,
        triplets_per_anchor: int | Literal["all"] = "all",
        learn_beta: bool = False,
        num_classes: int | None = None,
        **options: Any,
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
            self.register_buffer("beta", start, persistent=False)  # a setting, as in PML

    def default_reducer(self) -> Reducer:
        """The sum over the number of hinges above zero."""
        return DivisorReducer()

    def boundary(self, relations: Relations) -> Tensor:
        """Beta as a similarity: one number, or [anchors, 1]."""
        beta = self.beta.to(relations.similarity.dtype)
        if beta.numel() > 1:
            classes = relations.class_indices
            if classes is None:
                raise BadInput("a beta for each class needs one class index per embedding")
            check_range(classes, self.beta.numel())
            beta = beta[classes].unsqueeze(1)
        return beta if self.distance.is_inverted else -beta

    def terms(self, relations: Relations) -> Terms:
        """The formula: of every triplet its positive pair's value and its negative pair's."""
        r, edge = relations, self.boundary(relations)
        if r.triplets is not None:
            anchor, positive, negative, weight = r.triplets
            edge = edge if edge.numel() == 1 else edge.view(-1).index_select(0, anchor)
            ap, an = picked(r.similarity, anchor, positive), picked(r.similarity, anchor, negative)
            weights = counts = (weight.to(ap.dtype), weight.to(ap.dtype))
        else:
            ap = an = r.similarity
            weights = self.in_triplets(r, r.positives, r.negatives)
            counts = self.in_triplets(r, r.positive_counts, r.negative_counts)
        pull = (edge + self.margin - ap).relu()
        push = (an - edge + self.margin).relu()
        values = torch.stack((pull, push))
        return Terms(values, torch.stack(weights), torch.stack(counts))

    def in_triplets(
        self, relations: Relations, positives: Tensor, negatives: Tensor
    ) -> tuple[Tensor, Tensor]:
        """In how many triplets each pair is the positive one, and the negative one."""
        if relations.condition is not None:
            return count_triplets(positives, negatives, condition=relations.condition)
        # every positive of an anchor meets every negative of it
        return (
            positives * negatives.sum(1, keepdim=True),
            negatives * positives.sum(1, keepdim=True),
        )

    def per_triplet(self, relations: Relations) -> tuple[Terms, ...]:
        """The same with one value per triplet, of its two pairs: what other reducers read."""
        found, edge = every_triplet(relations), self.boundary(relations)
        anchors = found.places[0]
        if edge.numel() > 1:
            edge = edge.index_select(0, anchors).view(-1, *found.ap.shape[1:])
        pull = (edge + self.margin - found.ap).relu()
        push = (found.an - edge + self.margin).relu()
        counts = found.weights if found.counts is None else found.counts
        number = (counts * (pull > 0)).sum() + (counts * (push > 0)).sum()
        common = Terms(pull + push, found.weights, counts, "margin_loss", found.places, number)
        if not self.learn_beta:
            return (common,)
        penalty = self.nu * self.beta.to(edge.dtype)
        if penalty.numel() == 1:
            return common, Terms(penalty.sum(), name="beta_reg_loss")
        of_anchors = penalty[relations.class_indices].index_select(0, anchors)
        values = common.along_values(of_anchors).expand_as(common.values)
        return common, common._replace(values=values, name="beta_reg_loss")

    def formula(self, relations: Relations) -> Tensor:
        """The mean of the terms, and the penalty on beta."""
        if self.reducer is not self.usual_reducer:
            return self.reducer.combine(self.per_triplet(relations), self.batch(relations))
        terms = self.terms(relations)
        loss = mean_above_zero(terms)
        if not (self.learn_beta and self.nu):
            return loss
        if self.beta.numel() == 1:
            return loss + self.nu * self.beta.to(loss.dtype).sum()
        # a beta for each class: those of the triplets' anchors, over the terms above zero
        assert terms.counts is not None
        assert relations.class_indices is not None
        times = self._triplets_of_anchors(relations)
        number = (terms.counts * (terms.values > 0)).sum().clamp_min(1e-30)
        beta = self.beta.to(loss.dtype)[relations.class_indices]
        return loss + self.nu * (beta * times).sum() / number

    def _triplets_of_anchors(self, relations: Relations) -> Tensor:
        """How many triplets each anchor is in."""
        similarity = relations.similarity
        if relations.triplets is None:
            weights, _ = self.in_triplets(relations, relations.positives, relations.negatives)
            return weights.sum(1)
        anchor, weights = relations.triplets.anchor, relations.triplets.weights
        zeros = similarity.new_zeros(similarity.shape[0])
        return zeros.index_add(0, anchor, weights.to(similarity.dtype))

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations, or of random triplets of them."""
        if self.random is not None and relations.triplets is None and relations.condition is None:
            relations = take_triplets(relations, self.random.mine(relations))
        return super().compute(relations)
