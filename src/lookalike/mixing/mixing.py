"""Metrix: mixed examples as candidates (Venkataramanan et al., ICLR 2022)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import check_range, class_rows
from lookalike.losses import Loss, ProxyLoss
from lookalike.mixing.mixed_embeddings import (
    Embed,
    Make,
    cosines_to_mixes,
    embedded_mixes,
    follows_from_cosine,
    mixed_embeddings,
    refuse_too_many,
    rows_of,
    similarity_of_cosine,
)
from lookalike.mixing.pairs import MixedPairs, all_pairs, columns_of, hard_pairs, same_class
from lookalike.ops.device import autocast
from lookalike.ops.rows import in_full_precision, products
from lookalike.registry import LOSSES
from lookalike.relations import PositivePairs, Relations

__all__ = ["Mixing", "additive_names"]

INPUT_NEGATIVES = 1


class Anchors(NamedTuple):
    """Images, or proxies of classes, and what the labels say of them."""

    rows: Tensor
    """[A, D]"""
    mixed: bool
    """Whether the anchor itself is the first of its mixes, and not one of its positives."""
    members: Tensor
    """[A, N] which images of the batch are of its class."""
    own: Tensor
    """[A, N] which images it stands for: an image for itself, a proxy for those of its class."""
    firsts: Tensor
    """[A, N] which images come first in its mixes: its positives, or the image itself."""


class Candidates(NamedTuple):
    """Mixes as candidates of anchors."""

    similarity: Tensor
    """[A, M]"""
    share: Tensor
    """[A, M] how much of the first is in each mix."""
    exists: Tensor
    """[A, M] which mixes are those of an anchor."""
    mixes: Tensor | None
    """[M, D], the same of all anchors; None: each anchor has others."""


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
            if isinstance(loss, ProxyLoss) and not loss.proxies_are_anchors:
                relations = self._mixes_with_classes(loss, rows, labels, make)
            else:
                relations = self._anchors_with_mixes(loss, rows, labels, make)
            if relations is None:
                return embeddings.new_zeros(())
            return loss.reducer.combine(loss.parts(relations), relations)

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
        if getattr(loss, "direction", 0) and self._number is None:
            raise BadInput(
                "direction regularisation compares mixes with one another, which are too many "
                "when all are mixed; set mix.negatives, for example to 3"
            )
        if self.pairs == "anchor-negative" and not self._mixes_anchors(loss):
            raise BadInput(
                "mix.pairs=anchor-negative mixes a proxy with images: that needs mix.where=embed "
                "and the cosine or the Euclidean distance of unit vectors"
            )

    def kind(self) -> Literal["positive-negative", "anchor-negative"]:
        """Which pairs this batch mixes; the coin is tossed on the CPU."""
        if self.pairs != "both":
            return self.pairs
        return "positive-negative" if torch.rand(()) < 0.5 else "anchor-negative"

    def shares(self, like: Tensor, *shape: int) -> Tensor:
        """Numbers from Beta(alpha, alpha) for so many pairs, drawn on the CPU for any device."""
        half = torch.full(shape if self.per_pair else (), float(self.alpha))
        drawn: Tensor = torch.distributions.Beta(half, half, validate_args=False).sample()
        return drawn.to(like, non_blocking=True).expand(shape)

    def _mixes_with_classes(
        self, loss: ProxyLoss, rows: Tensor, labels: Tensor, make: Make
    ) -> Relations | None:
        """The mix is the anchor: a softmax over all classes, with a label of two of them."""
        if self._number is None:
            first, second = all_pairs(labels)
        else:
            near = loss.distance.similarity(rows.detach())
            _, first, second = hard_pairs(labels, near, self._number, draw_positive=False)
        pairs = self._pairs(rows, first, second)
        if pairs is None:
            return None
        refuse_too_many(len(first), len(loss.class_vectors()), "similarities to classes")
        return loss.relations(make(pairs), pairs.of(class_rows(labels, loss.num_classes, rows)))

    def _anchors_with_mixes(
        self, loss: Loss, rows: Tensor, labels: Tensor, make: Make
    ) -> Relations | None:
        """Mixes are the candidates of images, or of the proxies of the batch's classes.

        Which mixes are an anchor's own follows from the labels, and is worked out where they are.
        """
        device, classes = rows.device, None
        if isinstance(loss, ProxyLoss):
            check_range(labels, loss.num_classes)
            mixed = self._mixes_anchors(loss) and self.kind() == "anchor-negative"
            classes = torch.arange(loss.num_classes) if mixed else torch.unique(labels)
            vectors = loss.class_vectors().to(rows.dtype).index_select(0, classes.to(device))
            members = classes.to(labels.device).unsqueeze(1) == labels
            anchors = Anchors(vectors, mixed, members, own=members, firsts=members)
        else:
            itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
            mixed, members = self.kind() == "anchor-negative", same_class(labels)
            firsts = itself if mixed else members & ~itself
            anchors = Anchors(rows, mixed, members, own=itself, firsts=firsts)
        closed = self._number is None and self.where == "embed" and getattr(loss, "by_row", True)
        if (closed and follows_from_cosine(loss.distance)) or (mixed and classes is not None):
            candidates = self._by_cosines(loss, anchors, rows)
        else:
            candidates = self._made(loss, anchors, rows, labels, make)
        if candidates is None:
            return None
        similarity, share, exists, mixes = candidates
        counts = exists.to(similarity, non_blocking=True)
        if isinstance(loss, ProxyLoss) and classes is not None:
            number, classes = loss.num_classes, classes.to(device)
            similarity, share, counts = (
                scatter_rows(part, classes, number) for part in (similarity, share, counts)
            )
            labels = torch.arange(number)
        return Relations(
            similarity,
            share * counts,
            (1 - share) * counts,
            share,
            labels=labels.to(device, non_blocking=True),
            ref_emb=mixes,
            pairs=PositivePairs(exists, device),
        )

    def _made(
        self, loss: Loss, anchors: Anchors, rows: Tensor, labels: Tensor, make: Make
    ) -> Candidates | None:
        """All mixes are made, and every anchor is compared with each; which are its own exist."""
        if self._number is None:
            first, second = all_pairs(labels)
            exists = anchors.firsts.index_select(1, first)
        else:
            near = _similarity(loss, anchors.rows.detach(), rows.detach())
            near = near.index_select(0, anchors.own.int().argmax(0).to(rows.device))
            draw = not anchors.mixed and not isinstance(loss, ProxyLoss)
            image, first, second = hard_pairs(labels, near, self._number, draw_positive=draw)
            exists = anchors.own.index_select(1, image)
        pairs = self._pairs(rows, first, second)
        if pairs is None:
            return None
        refuse_too_many(len(anchors.rows), len(first), "similarities of anchors and mixes")
        mixes = make(pairs)
        similarity = _similarity(loss, anchors.rows, mixes)
        return Candidates(similarity, pairs.share.expand(similarity.shape), exists, mixes)

    def _by_cosines(self, loss: Loss, anchors: Anchors, rows: Tensor) -> Candidates | None:
        """Each anchor against all mixes of its own, without making them.

        An anchor's mixes are one row: each of its first images, or the anchor itself, with every
        image of the batch; those with its negatives exist.
        """
        near, negatives = products(anchors.rows, rows, unit_rows=True), ~anchors.members
        if anchors.mixed:
            first = torch.arange(len(near), device=negatives.device).unsqueeze(1)
            there = torch.ones_like(first, dtype=torch.bool)
        else:
            first, there = columns_of(anchors.firsts)
        if not (first.numel() and negatives.any()):
            return None
        refuse_too_many(first.numel(), len(rows), "similarities of anchors and mixes")
        exists = (there.unsqueeze(2) & negatives.unsqueeze(1)).flatten(1)
        first = first.to(rows.device)
        if anchors.mixed:
            to_first, between = torch.ones_like(near[:, :1]), near
        else:
            to_first, between = near.gather(1, first), products(rows, unit_rows=True)
        if self._number is not None:  # of proxies
            far = near.detach().masked_fill(~exists.to(near.device), -torch.inf)
            hardest = far.topk(min(self._number, len(rows)), dim=1).indices
            exists = exists.to(near.device) & torch.zeros_like(far).scatter(1, hardest, 1).bool()
        share = self.shares(rows, *between.shape)
        cosine = cosines_to_mixes(to_first, near, first, between, share)
        similarity = similarity_of_cosine(cosine, loss.distance, rows.shape[1])
        return Candidates(similarity, rows_of(share, first).flatten(1), exists, None)

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
        if not getattr(loss, "proxies_are_anchors", False):
            return True
        return self.where == "embed" and follows_from_cosine(loss.distance)


def _similarity(loss: Loss, anchors: Tensor, others: Tensor) -> Tensor:
    """[anchors, others]; a distance with a direction goes from images to proxies."""
    if isinstance(loss, ProxyLoss):
        return loss.distance.similarity(others, anchors).T
    return loss.distance.similarity(anchors, others)


def scatter_rows(matrix: Tensor, rows: Tensor, number: int) -> Tensor:
    """The rows of some anchors among ``number`` anchors, those of the others 0."""
    return matrix.new_zeros(number, matrix.shape[1]).index_copy(0, rows, matrix)


def additive_names() -> list[str]:
    """The losses that mixing works with.

    Returns:
        Names, sorted.
    """
    return [e.name for e in LOSSES.entries() if getattr(e.build, "additive", False)]
