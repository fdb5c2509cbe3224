"""Metrix: mixed examples as candidates (Venkataramanan et al., ICLR 2022)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import check_range, class_rows
from lookalike.losses.base import Compared, Loss, ProxyLoss
from lookalike.mixing.making import (
    Embed,
    Make,
    embedded_mixes,
    mixed_embeddings,
    refuse_too_many,
)
from lookalike.mixing.pairs import (
    Candidates,
    Kind,
    MixedPairs,
    all_pairs,
    candidates_of_classes,
    candidates_of_images,
    hard_pairs,
)
from lookalike.mixing.relations import (
    follows_from_cosine,
    relations_from_cosines,
    relations_of_anchor_negative,
    relations_of_rows,
    spread,
)
from lookalike.ops.autocast import autocast
from lookalike.ops.rows import in_full_precision, products
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["Mixing", "additive_names"]

INPUT_NEGATIVES = 1


@dataclass(frozen=True)
class Mixing:
    """What mixing adds to the loss of a batch: ``weight`` times the loss on mixed examples.

    For an anchor, ``v = l x_i + (1 - l) x_j`` with i a positive or the anchor itself and j a
    negative is a positive of weight l and a negative of weight 1 - l:
    ``t(S+(sum_V l r+(s)) + S-(sum_V (1 - l) r-(s)))`` for a loss that sums r over positives and
    over negatives. In a loss whose anchors are proxies, an anchor is a proxy. In a softmax over
    classes the mix itself is the anchor, with the label l of one class and 1 - l of the other.

    Args:
        where: ``input`` mixes images, ``feature`` the maps before pooling, ``embed`` embeddings.
        alpha: ``l ~ Beta(alpha, alpha)``.
        weight: Of the mixed loss; 0 adds nothing and draws nothing.
        pairs: ``positive-negative`` (i a positive of the anchor), ``anchor-negative`` (i the
            anchor itself), or ``both``: a fair coin for each batch.
        negatives: How many j per anchor, the most similar to it, or ``all`` of the batch. None is
            1 for ``input`` and ``all`` otherwise.
        per_pair: One l per pair; False: one per batch.

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
        loss: Loss,
        embeddings: Tensor,
        labels: Tensor,
        source: Tensor | None = None,
        embed: Embed | None = None,
        *,
        pool: nn.Module | None = None,
        distribute: Callable[[Embed], Embed] | None = None,
    ) -> Tensor:
        """``weight`` times the mixed loss.

        Args:
            loss: An additive loss.
            embeddings: [N, D], of the clean batch.
            labels: [N] class indices; while they are on the CPU, nothing waits for the device.
            source: What is mixed: the images, or the maps before pooling. None for ``embed``.
            embed: From mixes to embeddings: the model, or its head. None for ``embed``.
            pool: The pooling, where it is not part of ``embed``: mixes of maps are then pooled in
                bounded memory, and ``embed`` gets the pooled vectors.
            distribute: Turns a function of rows into one whose rows several processes share.

        Returns:
            A scalar.

        Raises:
            BadInput: The loss cannot be mixed so, or the mixes would not fit in memory.
        """
        if self.weight == 0:
            return embeddings.new_zeros(())
        return self.weight * self.term(
            loss, embeddings, labels, source, embed, pool=pool, distribute=distribute
        )

    def term(
        self,
        loss: Loss,
        embeddings: Tensor,
        labels: Tensor,
        source: Tensor | None = None,
        embed: Embed | None = None,
        *,
        pool: nn.Module | None = None,
        distribute: Callable[[Embed], Embed] | None = None,
    ) -> Tensor:
        """The loss on mixed examples, before ``weight``; arguments as of a call.

        Returns:
            A scalar; 0 for a batch that has no two images to mix.
        """
        self.check(loss)
        if (source is None or embed is None) != (self.where == "embed"):
            given = source is not None and embed is not None
            raise BadInput(
                f"mixing with where='{self.where}' "
                + ("mixes the embeddings themselves" if given else "needs source and embed")
            )
        rows = in_full_precision(embeddings)
        if source is None or embed is None:
            make = mixed_embeddings(rows, normalize=loss.distance.normalize_embeddings)
        else:
            make = embedded_mixes(source, embed, pool, distribute)
        with autocast(embeddings.device, enabled=False):
            build: dict[Compared, Callable[..., Relations | None]] = {
                "images": self._to_images,
                "proxies with images": self._to_proxies,
                "images with proxies": self._to_classes,
            }
            relations = build[loss.compares](loss, rows, labels, make)
            if relations is None:
                return embeddings.new_zeros(())
            if loss.compares == "images":  # of the anchors, which are clean
                relations = relations._replace(labels=labels)
            return loss.compute(relations)

    def check(self, loss: Any) -> None:
        """Refuse a loss that cannot be mixed.

        The mixed loss is that of weighted sums over candidates, so the loss must be ``additive``.
        """
        if not getattr(loss, "additive", False):
            raise BadInput(
                "mixing needs a loss that sums over its candidates by weight; "
                f"{type(loss).__name__} does not. Choose one of: " + ", ".join(additive_names())
            )
        if getattr(loss, "label_comparison", None) is not None:
            raise BadInput("mixing reads classes from the labels; take no label_comparison")
        if loss.compares == "images" and loss.between_candidates and self._number is None:
            raise BadInput(
                "direction regularisation compares mixes with one another, which are too many "
                "when all are mixed; set mix.negatives, for example to 3"
            )
        if self.pairs == "anchor-negative" and not self._mixes_anchors(loss):
            raise BadInput(
                "mix.pairs=anchor-negative mixes a proxy with images: that needs mix.where=embed "
                "and the cosine or the Euclidean distance of unit vectors"
            )

    def kind(self) -> Kind:
        """Which pairs this batch mixes; the coin is tossed on the CPU."""
        if self.pairs != "both":
            return self.pairs
        return "positive-negative" if torch.rand(()) < 0.5 else "anchor-negative"

    def shares(self, like: Tensor, *shape: int) -> Tensor:
        """Numbers from Beta(alpha, alpha) for so many pairs, drawn on the CPU for any device."""
        half = torch.full(shape if self.per_pair else (), float(self.alpha))
        drawn: Tensor = torch.distributions.Beta(half, half, validate_args=False).sample()
        return drawn.to(like, non_blocking=True).expand(shape)

    def _to_images(self, loss: Loss, rows: Tensor, labels: Tensor, make: Make) -> Relations | None:
        """Anchors are images."""
        kind, distance = self.kind(), loss.distance
        of_others = kind == "positive-negative"
        if self._number is not None:
            with torch.no_grad():
                similarity = distance.similarity(rows.detach())
            anchor, first, second = hard_pairs(
                labels, similarity, self._number, draw_positive=of_others
            )
            pairs = self._pairs(rows, first, second)
            if pairs is None:
                return None
            mixes = make(pairs)
            valid = torch.arange(len(rows), device=rows.device).unsqueeze(1) == anchor
            similarity = distance.similarity(rows, mixes)
            return Relations(
                similarity,
                pairs.share.expand(similarity.shape),
                valid.to(similarity.dtype),
                distance.similarity(mixes) if loss.between_candidates else None,
            )
        mine = candidates_of_images(labels, kind)
        if loss.by_row:
            return self._rows(rows, rows, labels, mine, loss, make)
        pairs = self._pairs(rows, *all_pairs(labels))
        if pairs is None:
            return None
        refuse_too_many(len(rows), len(pairs.first), "similarities of anchors and mixes")
        similarity = distance.similarity(rows, make(pairs))
        first = torch.zeros_like(mine.negatives)
        first = first.scatter(1, mine.first, mine.there).to(rows)
        return Relations(
            similarity, pairs.share.expand(similarity.shape), first.index_select(1, pairs.first)
        )

    def _to_proxies(
        self, loss: ProxyLoss, rows: Tensor, labels: Tensor, make: Make
    ) -> Relations | None:
        """Anchors are proxies, the images of a class the positives of its proxy."""
        check_range(labels, loss.num_classes)
        proxies = loss.class_vectors().to(rows.dtype)
        kind = self.kind() if self._mixes_anchors(loss) else "positive-negative"
        if kind == "anchor-negative":
            near = products(proxies, rows, unit_rows=True)
            classes = torch.arange(len(proxies), device=rows.device)
            negatives = classes.unsqueeze(1) != labels.to(rows.device)
            if self._number is not None:
                far = near.detach().masked_fill(~negatives, -torch.inf)
                hardest = far.topk(min(self._number, len(rows)), dim=1).indices
                negatives &= torch.zeros_like(negatives).scatter(1, hardest, True)
            return relations_of_anchor_negative(
                near, self.shares(rows, *near.shape), negatives, loss.distance, rows.shape[1]
            )
        classes, mine = candidates_of_classes(labels)
        if self._number is None:
            present = classes.to(rows.device)
            anchors = proxies.index_select(0, present)
            relations = self._rows(anchors, rows, labels, mine, loss, make)
            return None if relations is None else spread(relations, present, len(proxies))
        of_images = labels.to(rows.device)
        with torch.no_grad():
            own = proxies.detach().index_select(0, of_images)
            similarity = _similarity(loss, own, rows.detach())
        _, first, second = hard_pairs(labels, similarity, self._number, draw_positive=False)
        pairs = self._pairs(rows, first, second)
        if pairs is None:
            return None
        similarity = _similarity(loss, proxies, make(pairs))
        numbers = torch.arange(len(proxies), device=rows.device)
        valid = numbers.unsqueeze(1) == of_images.index_select(0, first)
        return Relations(
            similarity, pairs.share.expand(similarity.shape), valid.to(similarity.dtype)
        )

    def _to_classes(
        self, loss: ProxyLoss, rows: Tensor, labels: Tensor, make: Make
    ) -> Relations | None:
        """The mix is the anchor: a softmax over all classes, with a label of two of them."""
        if self._number is None:
            first, second = all_pairs(labels)
        else:
            with torch.no_grad():
                similarity = loss.distance.similarity(rows.detach())
            _, first, second = hard_pairs(labels, similarity, self._number, draw_positive=False)
        pairs = self._pairs(rows, first, second)
        if pairs is None:
            return None
        refuse_too_many(len(pairs.first), len(loss.class_vectors()), "similarities to classes")
        of_images = class_rows(labels, loss.num_classes, rows)
        return loss.relations(make(pairs), pairs.of(of_images))

    def _rows(
        self,
        anchors: Tensor,
        rows: Tensor,
        labels: Tensor,
        mine: Candidates,
        loss: Loss,
        make: Make,
    ) -> Relations | None:
        """Each anchor against all mixes of its own."""
        if not (mine.first.numel() and mine.negatives.any()):
            return None
        refuse_too_many(mine.first.numel(), len(rows), "similarities of anchors and mixes")
        mine = mine.on(rows.device)
        if self.where == "embed" and follows_from_cosine(loss.distance):
            cosine = products(rows, unit_rows=True)
            near = cosine if anchors is rows else products(anchors, rows, unit_rows=True)
            share = self.shares(rows, len(rows), len(rows))
            return relations_from_cosines(near, cosine, share, mine, loss.distance, rows.shape[1])
        pairs = self._pairs(rows, *all_pairs(labels))
        assert pairs is not None
        refuse_too_many(len(anchors), len(pairs.first), "similarities of anchors and mixes")
        return relations_of_rows(_similarity(loss, anchors, make(pairs)), pairs, mine)

    def _pairs(self, rows: Tensor, first: Tensor, second: Tensor) -> MixedPairs | None:
        if first.numel() == 0:
            return None
        share = self.shares(rows, first.numel())
        return MixedPairs(first.to(rows.device), second.to(rows.device), share)

    @property
    def _number(self) -> int | None:
        """How many negatives per anchor; None: all."""
        if self.negatives is None:
            return INPUT_NEGATIVES if self.where == "input" else None
        return None if self.negatives == "all" else self.negatives

    def _mixes_anchors(self, loss: Loss) -> bool:
        """Whether an anchor itself can be mixed: an image always, a proxy as an embedding only."""
        if loss.compares != "proxies with images":
            return True
        return self.where == "embed" and follows_from_cosine(loss.distance)


def _similarity(loss: Loss, anchors: Tensor, others: Tensor) -> Tensor:
    """[anchors, others]; a distance with a direction goes from images to proxies."""
    if loss.distance.symmetric or loss.compares == "images":
        return loss.distance.similarity(anchors, others)
    return loss.distance.similarity(others, anchors).T


def additive_names() -> list[str]:
    """The losses that mixing works with.

    Returns:
        Names, sorted.
    """
    return [e.name for e in LOSSES.entries() if getattr(e.build, "additive", False)]
