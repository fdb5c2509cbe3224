"""Relations: every anchor against every candidate, the language that all parts speak."""

from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.distances import CosineSimilarity, Distance
from lookalike.errors import BadInput
from lookalike.labels import Comparison, Labels, agreement, as_tensor
from lookalike.ops.blocks import gather_pairs
from lookalike.ops.rows import in_full_precision

__all__ = ["PositivePairs", "Relations", "Triplets", "relate"]


class Triplets(NamedTuple):
    """Positive pairs one by one, each against several candidates as its negatives."""

    anchor: Tensor
    """[P]"""
    positive: Tensor
    """[P]"""
    negative: Tensor | None
    """[P, K] candidates; None: all candidates, in order."""
    weights: Tensor
    """[P, K] how often each triplet counts."""

    def one_by_one(self) -> tuple[Tensor, Tensor, Tensor]:
        """The anchor, positive and negative of each triplet that counts; may wait for a device."""
        row, column = (self.weights > 0).nonzero(as_tuple=True)
        negative = column if self.negative is None else self.negative[row, column]
        return self.anchor[row], self.positive[row], negative


class PositivePairs:
    """The positive pairs one by one, listed when a formula first reads them.

    Listing waits for the device that the pairs are counted on. ``relate`` counts them where the
    labels are, so while these are on the CPU nothing waits for the device of the embeddings.

    Args:
        positives: [anchors, candidates], above 0 at each positive pair.
        device: Where the lists are read.
    """

    def __init__(self, positives: Tensor, device: torch.device) -> None:
        self.positives = positives
        self.device = device
        self.listed: tuple[Tensor, Tensor] | None = None

    def indices(self) -> tuple[Tensor, Tensor]:
        """The anchors and the positives, [P] each."""
        if self.listed is None:
            anchor, positive = self.positives.nonzero(as_tuple=True)
            self.listed = _moved(anchor, self.device), _moved(positive, self.device)
        return self.listed

    def with_self_pairs(self) -> "PositivePairs":
        """The same, and each anchor with itself."""
        image = torch.arange(len(self.positives), device=self.device)
        anchor, positive = self.indices()
        more = PositivePairs(self.positives, self.device)
        more.listed = torch.cat([anchor, image]), torch.cat([positive, image])
        return more


class Relations(NamedTuple):
    """Every anchor against every candidate: what all parts of a training step exchange.

    A pair counts ``positives`` times as a positive and ``negatives`` times as a negative. An image
    and itself, or its copy in a memory, are no pair: both are 0. A miner makes both smaller, or
    lists triplets.
    """

    similarity: Tensor
    """[anchors, candidates]; larger is closer (for a distance: minus the distance)."""
    positives: Tensor
    """[anchors, candidates] how much each pair counts as a positive."""
    negatives: Tensor
    """[anchors, candidates] how much each pair counts as a negative."""
    share: Tensor | None = None
    """How much the labels of each pair agree, between 0 and 1; None: entirely or not at all."""
    embeddings: Tensor | None = None
    """[anchors, D]"""
    labels: Tensor | None = None
    """Class indices [anchors], or rows [anchors, classes]."""
    ref_emb: Tensor | None = None
    """[candidates, D]; None: the candidates are the anchors."""
    ref_labels: Tensor | None = None
    """The labels of the candidates, where they are not the anchors."""
    pairs: PositivePairs | None = None
    """All positive pairs, one by one; None: as ``positives`` has them."""
    triplets: Triplets | None = None
    """The triplets that a miner chose; None: all that the pairs make."""

    @property
    def self_comparison(self) -> bool:
        """Whether the candidates are the anchors themselves."""
        return self.ref_emb is None

    @property
    def positive_counts(self) -> Tensor:
        """How often each pair counts in the number of positives: a label weighs its term only.

        A pair that is 30 % positive adds 0.3 of its term to a sum, but is one of the positives
        that the sum is divided by; dividing by the sum of labels would cancel them.
        """
        if self.share is None:
            return self.positives
        return (self.positives + self.negatives) * (self.share > 0)

    @property
    def negative_counts(self) -> Tensor:
        """How often each pair counts in the number of negatives."""
        if self.share is None:
            return self.negatives
        return (self.positives + self.negatives) * (self.share < 1)

    def of_classes(self) -> "Relations":
        """The same with every pair positive or negative, as miners read them."""
        if self.share is None:
            return self
        positives = (self.positives > 0).to(self.similarity.dtype)
        return self._replace(
            positives=positives, negatives=(self.negatives > 0) * (1 - positives), share=None
        )

    def with_self_pairs(self) -> "Relations":
        """The same with every image a positive of its own, by itself or by its copy."""
        own = ((self.positives + self.negatives) == 0).to(self.similarity.dtype)
        share = None if self.share is None else torch.maximum(self.share, own)
        positives, pairs = self.positives + own, None
        if self.pairs is not None and self.self_comparison:
            pairs = self.pairs.with_self_pairs()
        pairs = pairs or PositivePairs(positives, positives.device)
        return self._replace(positives=positives, share=share, pairs=pairs)

    def only(self, positives: Tensor, negatives: Tensor) -> "Relations":
        """Only these pairs, each as often as it is named: numbers or truth values."""
        dtype = self.similarity.dtype
        positives, negatives = positives.to(dtype), negatives.to(dtype)
        return self._replace(
            positives=positives,
            negatives=negatives,
            share=None,
            pairs=PositivePairs(positives, positives.device),
            triplets=None,
        )

    def only_triplets(self, triplets: Triplets) -> "Relations":
        """Only these triplets."""
        return self._replace(triplets=triplets, share=None)

    @property
    def listed_pairs(self) -> tuple[Tensor, Tensor]:
        """The anchors and the positives [P] of the triplets, or else of all positive pairs."""
        if self.triplets is not None:
            return self.triplets.anchor, self.triplets.positive
        pairs = self.pairs or PositivePairs(self.positives, self.positives.device)
        return pairs.indices()

    def at_pairs(self, matrix: Tensor) -> Tensor:
        """[P] the entries of a matrix at the listed pairs."""
        return gather_pairs(matrix, *self.listed_pairs)

    @property
    def ap(self) -> Tensor:
        """[P, 1] the similarities of the anchors and positives of triplets."""
        return self.at_pairs(self.similarity).unsqueeze(1)

    @property
    def an(self) -> Tensor:
        """[P, K] the similarities of the anchors and negatives of triplets."""
        return self._at_negatives(self.similarity, self.listed_pairs[0])

    def pn(self, between: Tensor) -> Tensor:
        """[P, K] those of the positives and negatives, of ``between`` [candidates, candidates]."""
        return self._at_negatives(between, self.listed_pairs[1])

    def _at_negatives(self, matrix: Tensor, image: Tensor) -> Tensor:
        if self.triplets is None or self.triplets.negative is None:
            return matrix.index_select(0, image)
        return gather_pairs(matrix, image.unsqueeze(1), self.triplets.negative)

    def triplet_weights(self) -> tuple[Tensor, Tensor]:
        """[P, K] how much each triplet counts in a sum, and how often in a number."""
        if self.triplets is not None:
            weights = self.triplets.weights.to(self.similarity.dtype)
            return weights, weights
        anchor, _ = self.listed_pairs
        negatives = self.negatives.index_select(0, anchor)
        weights = self.at_pairs(self.positives).unsqueeze(1) * negatives
        if self.share is None:
            return weights, weights
        counts = self.at_pairs(self.positive_counts).unsqueeze(1)
        return weights, counts * self.negative_counts.index_select(0, anchor)


def relate(
    embeddings: Tensor,
    labels: Labels | None,
    ref_emb: Tensor | None = None,
    ref_labels: Labels | None = None,
    distance: Distance | None = None,
    comparison: Comparison | None = None,
    *,
    own: Tensor | None = None,
) -> Relations:
    """The relations of ``embeddings`` to themselves, or to ``ref_emb``.

    Half precision is raised to float32. Labels are compared where they are: while they are on the
    CPU, nothing waits for the device of the embeddings.

    Args:
        embeddings: [N, D], the anchors.
        labels: Their labels; None where a miner says which pairs are positive.
        ref_emb: [M, D], the candidates; None, or ``embeddings`` itself, are the anchors.
        ref_labels: The labels of ``ref_emb``.
        distance: Defaults to the cosine.
        comparison: Which labels agree, and how much; None: equal ones, or multi-hot rows that share
            a class.
        own: [N] which row of ``ref_emb`` is the copy of each anchor; None: none is.

    Returns:
        Relations of all pairs.

    >>> relate(torch.eye(2), torch.tensor([7, 7])).positives
    tensor([[0., 1.],
            [1., 0.]])
    """
    distance = distance or CosineSimilarity()
    distance.check_shapes(embeddings, ref_emb)
    anchors = in_full_precision(embeddings)
    if ref_emb is embeddings:
        ref_emb = None
    candidates = None if ref_emb is None else in_full_precision(ref_emb)
    similarity = distance.similarity(anchors, candidates)
    if labels is None:
        blank = similarity.new_zeros(()).expand(similarity.shape)
        return Relations(similarity, blank, blank, None, anchors, None, candidates)
    rows, columns = _both_labels(labels, ref_labels, similarity, candidates is None)
    same = agreement(rows, columns, comparison)
    share = same if same.is_floating_point() else None
    positives = same.to(similarity.dtype, copy=True)
    negatives = 1 - positives
    if candidates is None:
        positives, negatives = positives.fill_diagonal_(0), negatives.fill_diagonal_(0)
    elif own is not None:
        copies = own.to(positives.device).unsqueeze(1)
        positives, negatives = positives.scatter(1, copies, 0), negatives.scatter(1, copies, 0)

    device = similarity.device
    return Relations(
        similarity,
        _moved(positives, device),
        _moved(negatives, device),
        None if share is None else _moved(share, device),
        anchors,
        _moved(rows, device),
        candidates,
        None if candidates is None else _moved(columns, device),
        PositivePairs(positives, device),
    )


def _moved(values: Tensor, device: torch.device) -> Tensor:
    """The values on a device, which the host does not wait for."""
    return values.to(device, non_blocking=True)


def _both_labels(
    labels: Labels, ref_labels: Labels | None, similarity: Tensor, alone: bool
) -> tuple[Tensor, Tensor]:
    numbers: dict[str, int] = {}
    height, width = similarity.shape
    rows = as_tensor(labels, height, numbers)
    if alone:
        return rows, rows
    if ref_labels is None:
        raise BadInput("ref_emb came without ref_labels; every embedding needs a label")
    columns = as_tensor(ref_labels, width, numbers, "ref_labels")
    return rows.to(columns.device), columns
