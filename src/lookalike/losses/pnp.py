"""PNP: penalise the negatives before each positive."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from lookalike.losses.base import AnchorLoss, Terms
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.soft_ranks import soft_ranks
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["PNPLoss"]


@LOSSES.register("pnp", paper="Li et al., AAAI 2022")
class PNPLoss(AnchorLoss):
    """How many negatives stand before each positive in the ranking of an anchor.

    ``R = sum_N sigmoid((s_n - s_p) / anneal)``, the mean of f(R) over the anchor's positives and
    the anchor itself, then over the anchors that have a positive. f is R (``O``), ``log(1 + R)``
    (``Ds``), ``1 - (1 + R)^-alpha`` (``Dq``), ``(1 + R) log(1 + R)`` (``Iu``) or
    ``(b R - log(1 + b R)) / b^2`` (``Ib``).

    Args:
        b: Of the variant ``Ib``.
        alpha: Of the variant ``Dq``.
        anneal: The temperature of the sigmoids.
        variant: Which function of R.
    """

    VARIANTS: ClassVar[list[str]] = ["Ds", "Dq", "Iu", "Ib", "O"]
    self_pairs = True
    needs = "the cosine"

    b: float = 2
    alpha: float = 1
    anneal: float = 0.01
    variant: Literal["Ds", "Dq", "Iu", "Ib", "O"] = "O"

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor."""
        r, pairs = relations, listed_pairs(relations.positives)
        (before,) = soft_ranks(r.similarity, [r.negatives], pairs, self.anneal)
        number = r.positive_counts.sum(1)
        share = pairs.weights / number.index_select(0, pairs.rows).clamp_min(1e-30)
        values = torch.zeros_like(number).index_add(0, pairs.rows, share * self.penalty(before))
        others = number > (1 if r.self_comparison else 0)
        return Terms(values, others.to(values.dtype))

    def penalty(self, before: Tensor) -> Tensor:
        """f(R)."""
        match self.variant:
            case "Ds":
                return before.log1p()
            case "Dq":
                return 1 - (1 + before) ** -self.alpha
            case "Iu":
                return (1 + before) * before.log1p()
            case "Ib":
                return (self.b * before - (self.b * before).log1p()) / self.b**2
        return before
