"""The margin loss: one boundary between positives and negatives, which may be learned."""

from typing import Literal

import torch
from torch import Tensor, nn

from lookalike.distances import LpDistance
from lookalike.errors import BadInput
from lookalike.labels import check_range
from lookalike.losses.base import PairLoss
from lookalike.losses.triplet import check_number, random_triplets
from lookalike.miners.mined import chosen_triplets
from lookalike.reducers import DivisorReducer
from lookalike.reducers.base import Terms, triplet_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["MarginLoss"]


def margin_hinges(r: Relations, beta: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """``[beta + margin - s_ap]+`` and ``[s_an - beta + margin]+`` of each triplet."""
    return (beta + margin - r.ap).relu(), (r.an - beta + margin).relu()


@LOSSES.register("margin", paper="Wu et al., ICCV 2017", url="https://arxiv.org/abs/1706.07567")
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
    """

    default_distance = LpDistance
    default_reducer = DivisorReducer
    never_decayed = ("beta",)  # a boundary between distances: nothing wants it near zero
    from_miner = chosen_triplets

    margin: float = 0.2
    nu: float = 0
    beta: float | Tensor = 1.2
    triplets_per_anchor: int | Literal["all"] = "all"
    learn_beta: bool = False
    num_classes: int | None = None

    def __post_init__(self) -> None:
        check_number(self.triplets_per_anchor)
        start = torch.full((self.num_classes or 1,), float(self.beta))
        if self.learn_beta:
            self.beta = nn.Parameter(start)
        else:
            del self.beta
            self.register_buffer("beta", start, persistent=False)  # a setting, as in PML

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """Of every triplet the sum of its two hinges, and the penalty on its anchor's beta."""
        r = random_triplets(relations, self.triplets_per_anchor)
        beta = self.beta_of_triplets(r)
        pull, push = margin_hinges(r, beta if self.distance.is_inverted else -beta, self.margin)
        hinges = triplet_terms(r, pull + push)
        assert hinges.counts is not None
        above = (hinges.counts * (pull > 0)).sum() + (hinges.counts * (push > 0)).sum()
        hinges = hinges._replace(name="margin_loss", divisor=above)
        if not (self.learn_beta and self.nu):
            return (hinges,)
        penalty = self.nu * beta
        if beta.ndim == 1:
            return hinges, Terms(penalty.sum(), name="beta_reg_loss")
        values = penalty.expand_as(hinges.values)
        return hinges, hinges._replace(values=values, name="beta_reg_loss")

    def beta_of_triplets(self, r: Relations) -> Tensor:
        """[1] one boundary for all, or [P, 1] that of the class of each anchor."""
        beta = torch.as_tensor(self.beta).to(r.similarity)
        if beta.numel() == 1:
            return beta
        if r.labels is None or r.labels.ndim != 1:
            raise BadInput("a beta for each class needs one class index per embedding")
        check_range(r.labels, beta.numel())
        return beta.index_select(0, r.labels).index_select(0, r.listed_pairs[0]).unsqueeze(1)
