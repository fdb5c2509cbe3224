"""Relations: every anchor against every candidate, the language that all parts speak.

The one place that builds anchors x candidates matrices. Nothing here waits for the device.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lookalike.distances import CosineSimilarity, Distance
from lookalike.errors import BadInput
from lookalike.labels import Labels, Overlap, agreement, as_tensor
from lookalike.ops.blocks import row_blocks
from lookalike.ops.pairs import PairList, at_places
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.ops.triplets import Gap

__all__ = ["Relations", "Triplets", "in_row_blocks", "relate"]


class Triplets(NamedTuple):
    """Triplets one by one: indices of anchors and candidates, and how often each counts."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    weights: Tensor
    """0 for a place of the list that holds none."""


class Relations(NamedTuple):
    """Every anchor against every candidate.

    A loss reads ``same * valid`` as the weight of a pair as a positive, and ``(1 - same) * valid``
    as its weight as a negative.
    """

    similarity: Tensor
    """[anchors, candidates]; larger is closer (for a distance: minus the distance)."""
    same: Tensor
    """Float: 1 one class, 0 two, between: mixed or multi-label."""
    valid: Tensor
    """0: not a pair (itself, or dropped by a miner); else 1, or how often a miner named it."""
    candidate_similarity: Tensor | None = None
    """[candidates, candidates], for the losses that compare candidates with one another."""
    lengths: Tensor | None = None
    """[anchors, 1] lengths of the anchors, for a loss that keeps them."""
    anchor_labels: Tensor | None = None
    """[anchors] the label of each anchor, where it has one."""
    triplets: Triplets | None = None
    """The triplets that a miner chose; None is all that the pairs make."""
    gap: Gap | None = None
    """A condition that triplets must meet; None is none."""
    self_comparison: bool = False
    """Whether the candidates are the anchors themselves."""
    all_valid: bool = False
    """Whether ``valid`` is 1 everywhere."""
    binary: bool = False
    """Whether no pair is a positive in part: ``positives`` and ``negatives`` are whole counts."""

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

    def between_candidates(self) -> Tensor:
        """The similarities of the candidates to one another.

        Raises:
            BadInput: They were not asked for when these relations were built.
        """
        if self.candidate_similarity is None:
            raise BadInput(
                "direction regularisation, swap and the angular loss need the similarities of "
                "candidates to one another; give Relations(..., candidate_similarity=...)"
            )
        return self.candidate_similarity

    def with_similarity(self, similarity: Tensor, between: Tensor | None = None) -> "Relations":
        """The same relations with other numbers; ``between`` None keeps to what these have."""
        if self.self_comparison and self.candidate_similarity is not None:
            between = similarity
        elif between is None:
            between = self.candidate_similarity
        return self._replace(similarity=similarity, candidate_similarity=between)

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
    self_pairs: bool = False,
    between_candidates: bool = False,
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
        self_pairs: Whether an image is a candidate of its own.
        between_candidates: Whether candidates are compared with one another too.

    Returns:
        Relations of all pairs.

    >>> relate(torch.eye(2), torch.tensor([7, 7])).valid
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_rows(embeddings, None)
    if ref_emb is not None:
        check_rows(ref_emb, embeddings.shape[1], "ref_emb")
    distance = distance or CosineSimilarity()
    anchors = in_full_precision(embeddings)
    alone = ref_emb is None or ref_emb is embeddings
    candidates = anchors if ref_emb is None or alone else in_full_precision(ref_emb)
    similarity = distance.similarity(anchors, None if alone else candidates)
    rows = None
    if labels is None:
        same = torch.zeros_like(similarity, requires_grad=False)
    else:
        rows, columns = _both_labels(labels, ref_labels, similarity, alone)
        same = agreement(rows, columns, overlap, similarity.dtype)
    all_valid = self_pairs or not alone
    if all_valid:
        valid = similarity.new_ones(()).expand(similarity.shape)
    else:
        valid = torch.ones_like(similarity, requires_grad=False).fill_diagonal_(0)
    between = similarity if alone else None
    if between_candidates and not alone:
        between = distance.similarity(candidates)
    return Relations(
        similarity,
        same,
        valid,
        between,
        anchor_labels=None if rows is None or rows.ndim != 1 else rows,
        self_comparison=alone,
        all_valid=all_valid,
        binary=overlap == "any",  # class indices agree or not, whatever the overlap of rows is
    )


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
    blocks = row_blocks(*relations.similarity.shape)
    if len(blocks) == 1:
        return terms(relations)
    values = []
    gradients = torch.empty_like(relations.similarity)
    for rows in blocks:
        found, gradients[rows] = terms(relations.part(rows))
        values.append(found)
    return torch.cat(values), gradients
