"""Relations: every anchor against every candidate, the language that all parts speak.

The one place that builds anchors x candidates matrices. Nothing here waits for the device.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.distances import CosineSimilarity, Distance
from lookalike.errors import BadInput
from lookalike.labels import Comparison, Labels, Overlap, agreement, as_tensor, compared
from lookalike.ops.blocks import row_blocks
from lookalike.ops.conditions import Condition, Gap
from lookalike.ops.pairs import PairList, at_places
from lookalike.ops.rows import in_full_precision

__all__ = ["Relations", "Triplets", "in_row_blocks", "relate"]


class Triplets(NamedTuple):
    """Triplets one by one: indices of anchors and candidates, and how often each counts."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    weights: Tensor
    """0 for a place of the list that holds none."""


class Relations(NamedTuple):
    """Every anchor against every candidate: what all parts of a training step exchange.

    A loss reads ``same * valid`` as the weight of a pair as a positive, and ``(1 - same) * valid``
    as its weight as a negative. A miner narrows them (``only_pairs``, ``only_triplets``,
    ``only_gap``); the loss then takes what the miner kept.
    """

    similarity: Tensor
    """[anchors, candidates]; larger is closer (for a distance: minus the distance)."""
    same: Tensor
    """Float: 1 same class, 0 different classes, between: mixed or multi-label."""
    valid: Tensor
    """0: not a pair (an image and itself, or dropped by a miner); else how often it counts."""
    candidate_similarity: Tensor | None = None
    """[candidates, candidates], for the losses that compare candidates with one another."""
    embeddings: Tensor | None = None
    """[N, D] the images of the batch."""
    labels: Tensor | None = None
    """Class indices [N] or rows [N, classes] of ``embeddings``."""
    ref_emb: Tensor | None = None
    """[M, D] the images that are candidates, where they are not the batch itself."""
    ref_labels: Tensor | None = None
    """The labels of ``ref_emb``."""
    distance: Distance | None = None
    """What ``similarity`` was computed by."""
    itself: Tensor | None = None
    """[anchors] the candidate that is the anchor's copy in a memory."""
    triplets: Triplets | None = None
    """The triplets that a miner chose; None: all that the pairs make."""
    condition: Condition | None = None
    """A condition that triplets must meet; None: no condition."""
    anchor_weights: Tensor | None = None
    """[anchors] a factor on the value of each anchor; None: 1."""
    self_comparison: bool = False
    """Whether the candidates are the anchors themselves."""
    all_valid: bool = False
    """Whether ``valid`` is 1 everywhere."""
    binary: bool = False
    """Whether no pair is a positive in part: ``positives`` and ``negatives`` are whole counts."""
    mined: bool = False
    """Whether a miner has narrowed these."""
    once: bool = False
    """Whether a miner named every pair at most once."""
    classes: Tensor | None = None
    """[candidates] the classes compared with, where they are some of all: ``labels`` are then
    places among them."""

    @property
    def positives(self) -> Tensor:
        """How much each pair counts as a positive."""
        return self.same if self.all_valid else self.same * self.valid

    @property
    def negatives(self) -> Tensor:
        """How much each pair counts as a negative."""
        if self.all_valid:
            return 1 - self.same
        return torch.addcmul(self.valid, self.same, self.valid, value=-1)

    @property
    def positive_counts(self) -> Tensor:
        """How often each pair counts in the number of positives: a label weighs its term only.

        A pair that is 30 % positive adds 0.3 of its term to a sum, but is one of the positives
        that the sum is divided by; dividing by the sum of labels would cancel them.
        """
        return self.positives if self.binary else self.valid * (self.same > 0)

    @property
    def negative_counts(self) -> Tensor:
        """How often each pair counts in the number of negatives."""
        return self.negatives if self.binary else self.valid * (self.same < 1)

    def counts_of(self, pairs: PairList) -> Tensor:
        """How often each of ``listed_pairs(positives)`` counts in the number of positives."""
        return pairs.weights if self.binary else at_places(self.positive_counts, pairs.places)

    @property
    def class_indices(self) -> Tensor | None:
        """[N] the class index of each image; None where labels are rows or unknown."""
        return None if self.labels is None or self.labels.ndim != 1 else self.labels

    def between_candidates(self) -> Tensor:
        """The similarities of the candidates to one another; refused where they are unknown."""
        if self.candidate_similarity is not None:
            return self.candidate_similarity
        if self.distance is None or self.ref_emb is None:
            raise BadInput(
                "direction regularisation, swap and the angular loss need the similarities of "
                "candidates to one another; give Relations(..., candidate_similarity=...)"
            )
        return self.distance.similarity(self.ref_emb)

    def with_similarity(self, similarity: Tensor, between: Tensor | None = None) -> "Relations":
        """The same relations with other numbers; ``between`` None keeps those of these."""
        if self.self_comparison and self.candidate_similarity is not None:
            between = similarity
        elif between is None:
            between = self.candidate_similarity
        return self._replace(similarity=similarity, candidate_similarity=between)

    def of_images(self, distance: Distance) -> "Relations":
        """Images against other images by ``distance``, without gradient: what a miner reads.

        The similarities are computed only if these are of another distance or of proxies.
        """
        assert self.embeddings is not None
        rows = self.embeddings.detach()
        others = None if self.ref_emb is None else self.ref_emb.detach()
        if not self.self_comparison and others is None:  # images against proxies
            return relate(rows, self.labels, distance=distance)
        if distance == self.distance:
            similarity = self.similarity.detach()
        else:
            similarity = distance.similarity(rows, others)
        valid, all_valid = self.valid, self.all_valid
        if all_valid and (self.self_comparison or self.itself is not None):
            valid, all_valid = _others_only(similarity, self.itself), False
        return self._replace(
            similarity=similarity,
            same=self.same if self.binary else (self.same > 0).to(similarity.dtype),
            valid=valid,
            candidate_similarity=similarity if self.self_comparison else None,
            distance=distance,
            all_valid=all_valid,
            binary=True,
        )

    def compared_by(self, comparison: Comparison | None) -> "Relations":
        """The same with ``same`` by another comparison of the labels; None changes nothing."""
        if comparison is None or self.labels is None:
            return self
        others = self.labels if self.ref_labels is None else self.ref_labels
        found = compared(self.labels, others, comparison)
        return self._replace(same=found.to(self.similarity.dtype), binary=found.dtype == torch.bool)

    def only_pairs(self, positive: Tensor, negative: Tensor) -> "Relations":
        """Only these pairs: two disjoint masks (numbers or truth values)."""
        positive = positive.to(self.similarity.dtype)
        return self._narrowed(positive, positive + negative, once=True)

    def counted_pairs(self, positive: Tensor, negative: Tensor) -> "Relations":
        """Only these pairs, each as often as it is named as a positive and as a negative."""
        positive = positive.to(self.similarity.dtype)
        valid = positive + negative
        return self._narrowed(positive / valid.clamp_min(torch.finfo(valid.dtype).tiny), valid)

    def only_triplets(
        self, anchor: Tensor, positive: Tensor, negative: Tensor, keep: Tensor | None = None
    ) -> "Relations":
        """Only these triplets; ``keep`` False marks an entry of the lists that is none."""
        weights = torch.ones_like(anchor) if keep is None else keep
        triplets = Triplets(anchor, positive, negative, weights.to(self.similarity.dtype))
        return self._replace(triplets=triplets, condition=None, mined=True)

    def only_gap(self, above: float, upto: float) -> "Relations":
        """Only the triplets with ``above < s_ap - s_an <= upto``; none is written out."""
        return self.only_where(Gap(self.similarity, above, upto))

    def only_where(self, condition: Condition) -> "Relations":
        """Only the triplets that meet a condition; none is written out."""
        return self._replace(condition=condition, triplets=None, mined=True)

    def _narrowed(self, same: Tensor, valid: Tensor, *, once: bool = False) -> "Relations":
        return self._replace(
            same=same,
            valid=valid,
            triplets=None,
            condition=None,
            all_valid=False,
            binary=True,
            mined=True,
            once=once,
        )

    def part(self, rows: slice) -> "Relations":
        """The relations of some anchors."""
        return Relations(
            self.similarity[rows],
            self.same[rows],
            self.valid[rows],
            binary=self.binary,
            all_valid=self.all_valid,
        )


def relate(
    embeddings: Tensor,
    labels: Labels | None,
    ref_emb: Tensor | None = None,
    ref_labels: Labels | None = None,
    distance: Distance | None = None,
    overlap: Overlap = "any",
    *,
    itself: Tensor | None = None,
    self_pairs: bool = False,
) -> Relations:
    """The relations of ``embeddings`` to themselves, or to ``ref_emb``.

    Half precision is raised to float32.

    Args:
        embeddings: [N, D], the anchors.
        labels: Their labels; None where a miner says which pairs are positive (``same`` is then 0).
        ref_emb: [M, D], the candidates; None, or ``embeddings`` itself, are the anchors.
        ref_labels: The labels of ``ref_emb``.
        distance: Defaults to the cosine.
        overlap: How multi-hot labels agree.
        itself: [N] which row of ``ref_emb`` is the copy of each anchor; None: none is.
        self_pairs: Whether an image is a candidate of its own.

    Returns:
        Relations of all pairs.

    >>> relate(torch.eye(2), torch.tensor([7, 7])).valid
    tensor([[0., 1.],
            [1., 0.]])
    """
    distance = distance or CosineSimilarity()
    distance.check_shapes(embeddings, ref_emb)
    anchors = in_full_precision(embeddings)
    alone = ref_emb is None or ref_emb is embeddings
    candidates = anchors if ref_emb is None or alone else in_full_precision(ref_emb)
    similarity = distance.similarity(anchors, None if alone else candidates)
    rows = columns = None
    if labels is None:
        same = torch.zeros_like(similarity, requires_grad=False)
    else:
        rows, columns = _both_labels(labels, ref_labels, similarity, alone)
        same = agreement(rows, columns, overlap, similarity.dtype)
    all_valid = self_pairs or not (alone or itself is not None)
    if all_valid:
        valid = similarity.new_ones(()).expand_as(similarity)
    else:
        valid = _others_only(similarity, itself)
    return Relations(
        similarity,
        same,
        valid,
        similarity if alone else None,
        embeddings=anchors,
        labels=rows,
        ref_emb=None if alone else candidates,
        ref_labels=None if alone else columns,
        distance=distance,
        itself=itself,
        self_comparison=alone,
        all_valid=all_valid,
        binary=overlap == "any",  # class indices agree or not, whatever the overlap of rows is
    )


def _others_only(similarity: Tensor, itself: Tensor | None) -> Tensor:
    """1 for every pair but that of an anchor and itself; None: the candidates are the anchors."""
    ones = torch.ones_like(similarity, requires_grad=False)
    return ones.fill_diagonal_(0) if itself is None else ones.scatter_(1, itself.unsqueeze(1), 0)


def _both_labels(
    labels: Labels, ref_labels: Labels | None, similarity: Tensor, alone: bool
) -> tuple[Tensor, Tensor]:
    numbers: dict[str, int] = {}
    height, width = similarity.shape
    rows = as_tensor(labels, height, numbers).to(similarity.device)
    if alone:
        return rows, rows
    if ref_labels is None:
        raise BadInput("ref_emb came without ref_labels; every embedding needs a label")
    return rows, as_tensor(ref_labels, width, numbers, "ref_labels").to(similarity.device)


def in_row_blocks(
    relations: Relations, terms: Callable[[Relations], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """``terms`` of all rows: values [rows, n] and gradients, each row for itself."""
    blocks = row_blocks(relations.similarity)
    if len(blocks) == 1:
        return terms(relations)
    values = []
    gradients = torch.empty_like(relations.similarity)
    for rows in blocks:
        found, gradients[rows] = terms(relations.part(rows))
        values.append(found)
    return torch.cat(values), gradients
