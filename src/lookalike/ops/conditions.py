"""Conditions on triplets (a, p, n), none of which is written out: a gap, or an angle.

A condition says how it is counted (``ops/triplets.py``): as a range of sorted candidates, as one
comparison of three matrices, or else block by block.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from lookalike.ops.pairs import PairList, at_places

__all__ = ["Angle", "Comparison", "Condition", "Gap"]


class Comparison(NamedTuple):
    """A condition in one inequality: ``between[p, n] > of_positive[a, p] + of_negative[a, n]``."""

    of_positive: Tensor
    """Anchors x candidates."""
    of_negative: Tensor
    """Anchors x candidates."""
    between: Tensor
    """Candidates x candidates, symmetric."""


class Condition(Protocol):
    """What the triplets of some relations must meet."""

    def inside(self, pairs: PairList) -> Tensor:
        """1 for the triplets inside, [pairs, candidates], of these positives and all candidates."""
        ...

    def restrict(self, counted: Tensor, pairs: PairList, room: Sequence[Tensor], /) -> None:
        """Multiply weights [pairs, candidates] by ``inside``, in place.

        Args:
            counted: The weights.
            pairs: The positives of the rows.
            room: Two arrays like ``counted``, to be overwritten.
        """
        ...

    def as_range(self, by_loss: bool, /) -> "Gap | None":
        """The same as a range of each anchor's sorted candidates; None where it is none.

        Args:
            by_loss: Whether they are sorted by the similarities of a loss.
        """
        ...

    def comparison(self) -> Comparison | None:
        """The same as one inequality; None where it is none."""
        ...

    def with_order(self, same: bool, /) -> "Condition":
        """The same for a loss whose similarities sort an anchor's candidates alike, or not."""
        ...


class Gap(NamedTuple):
    """``above < g_ap - g_an <= upto`` for the similarities ``g``."""

    similarity: Tensor
    above: float
    upto: float
    same_order: bool = True
    """Whether the similarities of the loss sort an anchor's candidates alike."""

    def inside(self, pairs: PairList) -> Tensor:
        """1 for the triplets inside, [pairs, candidates]."""
        near = at_places(self.similarity, pairs.places).unsqueeze(1)
        far = self.similarity.index_select(0, pairs.rows)
        return ((far < near - self.above) & (far >= near - self.upto)).to(far.dtype)

    def restrict(self, counted: Tensor, pairs: PairList, room: Sequence[Tensor], /) -> None:
        """Multiply weights [pairs, candidates] by ``inside``, in place."""
        near = at_places(self.similarity, pairs.places).unsqueeze(1)
        alike = self.similarity.dtype == counted.dtype
        far = torch.index_select(self.similarity, 0, pairs.rows, out=room[0] if alike else None)
        if self.above != -torch.inf:
            counted.mul_(torch.lt(far, near - self.above, out=room[1]))
        if self.upto != torch.inf:
            counted.mul_(far.ge_(near - self.upto))

    def as_range(self, by_loss: bool, /) -> "Gap | None":
        """Itself, unless a loss sorts the candidates in another order."""
        return self if self.same_order or not by_loss else None

    def comparison(self) -> None:
        """Two inequalities: none."""
        return

    def with_order(self, same: bool, /) -> "Gap":
        """The same for a loss whose similarities sort an anchor's candidates alike, or not."""
        return self._replace(same_order=same)


class Angle(NamedTuple):
    """Of unit vectors: a wide angle at the negative.

    ``d_ap^2 > factor |x_n - c|^2`` with the centre ``c = (x_a + x_p) / 2``, where ``|x_n - c|^2 =
    1 + (1 + s_ap) / 2 - s_an - s_pn``.
    """

    cosine: Tensor
    """Anchors x candidates."""
    between: Tensor
    """Candidates x candidates."""
    factor: float

    def bound(self, near: Tensor) -> Tensor:
        """What ``factor (s_an + s_pn)`` must exceed, of the cosines ``s_ap``."""
        return near * (self.factor / 2 + 2) + (1.5 * self.factor - 2)

    def inside(self, pairs: PairList) -> Tensor:
        """1 for the triplets inside, [pairs, candidates]."""
        sums = self.cosine.index_select(0, pairs.rows)
        sums.add_(self.between.index_select(0, pairs.columns(self.cosine)))
        near = at_places(self.cosine, pairs.places).unsqueeze(1)
        return sums.mul_(self.factor).gt_(self.bound(near))

    def restrict(self, counted: Tensor, pairs: PairList, _: Sequence[Tensor], /) -> None:
        """Multiply weights [pairs, candidates] by ``inside``, in place."""
        counted.mul_(self.inside(pairs))

    def as_range(self, _: bool, /) -> None:
        """No order of an anchor's candidates has them side by side."""
        return

    def comparison(self) -> Comparison:
        """``factor s_pn > bound(s_ap) - factor s_an``."""
        return Comparison(
            self.bound(self.cosine), -self.factor * self.cosine, self.factor * self.between
        )

    def with_order(self, _: bool, /) -> "Angle":
        """Itself: no order matters."""
        return self
