"""Metrix: mixed examples as candidates (Venkataramanan et al., ICLR 2022)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.geometry import Relations, in_full_precision, products, unit
from lookalike.labels import class_rows
from lookalike.losses.base import Loss, PairLoss, ProxyLoss
from lookalike.mixing.pairs import Kind, MixedPairs, choose_pairs
from lookalike.mixing.relations import (
    follows_from_cosine,
    relations_from_cosines,
    relations_to_mixes,
)
from lookalike.registry import LOSSES

__all__ = ["Mixing", "additive_names", "refuse_unless_additive"]

DEFAULT_NEGATIVES = {"input": 1, "feature": 3, "embed": 3}


@dataclass(frozen=True)
class Mixing:
    """What mixing adds to the loss of a batch: ``weight`` times the loss on mixed examples.

    A mixed example ``v = l x_i + (1 - l) x_j`` of two classes is, for an anchor of the first
    class, a positive of weight l and a negative of weight 1 - l:
    ``t(S+(sum_V y r+(s)) + S-(sum_V (1 - y) r-(s)))`` for a loss that sums r over positives and
    over negatives. For a loss with learned class vectors its label is l of one class, 1 - l of the
    other.

    ``where``: ``input`` mixes images, ``feature`` the maps before pooling, ``embed`` the
    embeddings. ``l ~ Beta(alpha, alpha)``, one a pair, or one a batch. ``pairs``:
    ``positive-negative`` (i a positive of the anchor), ``anchor-negative`` (i the anchor), or
    ``both``: a fair coin for each batch. ``negatives``: how many j for each i, the most similar
    ones; None is 1 for ``input`` and 3 otherwise, but all of the batch for ``embed`` with a loss
    over pairs.

    >>> from lookalike.losses import MultiSimilarityLoss
    >>> embeddings, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> bool(Mixing("embed")(MultiSimilarityLoss(), embeddings, labels) > 0)
    True
    """

    where: Literal["input", "feature", "embed"]
    alpha: float = 2
    weight: float = 0.4
    pairs: Literal["both", "positive-negative", "anchor-negative"] = "both"
    negatives: int | Literal["all"] | None = None
    per_pair: bool = True

    def __call__(
        self,
        loss: nn.Module,
        embeddings: Tensor,
        labels: Tensor,
        source: Tensor | None = None,
        embed: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """``weight`` times the mixed loss.

        ``source`` is what is mixed, ``embed`` makes embeddings of it: the images and the model, or
        the maps and ``model.embed``; both are left out for ``embed``. ``labels`` are class
        numbers; while they are on the CPU, nothing here waits for the device.
        """
        if self.weight == 0:
            return embeddings.new_zeros(())
        return self.weight * self.term(loss, embeddings, labels, source, embed)

    def term(
        self,
        loss: nn.Module,
        embeddings: Tensor,
        labels: Tensor,
        source: Tensor | None = None,
        embed: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The loss on mixed examples; 0 for a batch that has no two images to mix."""
        self.check(loss)
        assert isinstance(loss, Loss)
        mixes = None
        if source is not None and embed is not None:
            mixes = (source, _as_called(embed, embeddings.device.type))
        if (mixes is None) != (self.where == "embed"):
            raise BadInput(
                f"mixing with where='{self.where}' "
                + ("mixes the embeddings themselves" if mixes else "needs source and embed")
            )
        with torch.autocast(embeddings.device.type, enabled=False):
            relations = self._relations(loss, embeddings, labels, mixes, self.kind())
            return embeddings.new_zeros(()) if relations is None else loss.compute(relations)

    def check(self, loss: nn.Module) -> None:
        """Refuse a loss that cannot be mixed so."""
        refuse_unless_additive(type(loss))
        among = isinstance(loss, PairLoss) and loss.among
        if among and self.where == "embed" and self._negatives(loss) is None:
            raise BadInput(
                "direction regularisation compares mixes with one another, which are too many "
                "when all are mixed; set mix.negatives, for example to 3"
            )

    def kind(self) -> Kind:
        """Which pairs this batch mixes; the coin is tossed on the CPU."""
        if self.pairs != "both":
            return self.pairs
        return "positive-negative" if torch.rand(()) < 0.5 else "anchor-negative"

    def shares(self, like: Tensor, *shape: int) -> Tensor:
        """Numbers from Beta(alpha, alpha) for so many pairs, by torch's own random state."""
        half = torch.full(shape if self.per_pair else (), float(self.alpha), device=like.device)
        drawn: Tensor = torch.distributions.Beta(half, half, validate_args=False).sample()
        return drawn.to(like.dtype).expand(shape)

    def _relations(
        self,
        loss: Loss,
        embeddings: Tensor,
        labels: Tensor,
        mixes: tuple[Tensor, Callable[[Tensor], Tensor]] | None,
        kind: Kind,
    ) -> Relations | None:
        known = in_full_precision(embeddings)
        size = known.shape[0]
        if self._all_from_cosines(loss):
            cosine = products(known, unit_rows=True)
            share = self.shares(known, size, size)
            return relations_from_cosines(cosine, labels, share, kind, loss.distance)
        with torch.no_grad():
            cosine = products(known.detach(), unit_rows=True)
            first, second = choose_pairs(labels, cosine, self._negatives(loss))
        if first.numel() == 0:
            return None
        pairs = MixedPairs(first, second, self.shares(known, first.numel()))
        if mixes is None:
            mixed = self._mixed_embeddings(loss, known, pairs)
        else:
            source, embed = mixes
            mixed = in_full_precision(embed(pairs.of(source)))
        there = labels.to(known.device)
        if isinstance(loss, ProxyLoss):
            return loss.relations(mixed, pairs.of(class_rows(there, size, loss.num_classes, known)))
        among = isinstance(loss, PairLoss) and loss.among
        return relations_to_mixes(known, there, mixed, pairs, kind, loss.distance, among=among)

    def _mixed_embeddings(self, loss: Loss, embeddings: Tensor, pairs: MixedPairs) -> Tensor:
        """Mixed and back at unit length; as they are for a loss that reads raw embeddings."""
        if not loss.distance.normalize_embeddings:
            return pairs.of(embeddings)
        return unit(pairs.of(unit(embeddings)))

    def _negatives(self, loss: nn.Module) -> int | None:
        if isinstance(self.negatives, int):
            return self.negatives
        if self.negatives is None and (self.where != "embed" or isinstance(loss, ProxyLoss)):
            return DEFAULT_NEGATIVES[self.where]
        return None

    def _all_from_cosines(self, loss: Loss) -> bool:
        if self.where != "embed" or self._negatives(loss) is not None:
            return False
        return isinstance(loss, PairLoss) and loss.by_row and follows_from_cosine(loss.distance)


def _as_called(embed: Callable[[Tensor], Tensor], device: str) -> Callable[[Tensor], Tensor]:
    """``embed`` with the autocast that is on now; the rest of the work is done without."""
    enabled = torch.is_autocast_enabled(device)

    def run(source: Tensor) -> Tensor:
        with torch.autocast(device, enabled=enabled):
            return embed(source)

    return run


def additive_names() -> list[str]:
    """The losses by name that mixing works with."""
    return [entry.name for entry in LOSSES.entries() if _is_additive(entry.build)]


def refuse_unless_additive(build: Callable[..., Any]) -> None:
    """Refuse a loss that does not sum over candidates by weight."""
    if not _is_additive(build):
        raise BadInput(
            f"mixing needs a loss that sums over its candidates by weight; {build.__name__} does "
            "not. Choose one of: " + ", ".join(additive_names())
        )


def _is_additive(build: Callable[..., Any]) -> bool:
    return isinstance(build, type) and issubclass(build, Loss) and build.additive
