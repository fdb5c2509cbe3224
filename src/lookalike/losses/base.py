"""What every loss is: a formula over relations, in a thin module that holds its settings.

A loss over pairs of images subclasses ``PairLoss``, one with learned class vectors ``ProxyLoss``;
both write one method, ``terms(relations)``, which gives one value per pair, triplet, anchor or
image, and get miners, memory, mixing, labels of any kind and regularisers for nothing.
"""

import inspect
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from lookalike.distances import CosineSimilarity, Distance, DistanceLike, create
from lookalike.errors import BadInput
from lookalike.labels import Labels, Overlap, as_tensor, check_range, class_rows
from lookalike.losses import kernels
from lookalike.miners.mined import Indices, Mined, mined, narrow, narrow_triplets
from lookalike.ops.autocast import autocast, autocast_enabled
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.regularizers.base import RegularizerLike, build
from lookalike.relations import Relations, relate
from lookalike.signatures import show_options

__all__ = [
    "AnchorLoss",
    "Loss",
    "LossOptions",
    "PairLoss",
    "ProxyLoss",
    "ProxyOptions",
    "Terms",
    "mean",
    "mean_above_zero",
]


class Terms(NamedTuple):
    """One value per element: pair, triplet, anchor, image or proxy; a reducer makes one number."""

    values: Tensor
    weights: Tensor | None = None
    """How much each value counts in the sum; None is 1."""
    counts: Tensor | None = None
    """How often each value counts in the number of elements; None is its weight."""


def mean(terms: Terms) -> Tensor:
    """``sum of w v / sum of counts``; 0 where nothing counts.

    >>> mean(Terms(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])))
    tensor(1.)
    """
    values, weights, counts = terms
    if weights is None:
        return values.mean()
    number = (weights if counts is None else counts).sum()
    return (values * weights).sum() / number.clamp_min(torch.finfo(values.dtype).tiny)


def mean_above_zero(terms: Terms) -> Tensor:
    """The mean over the values above zero; 0 where there is none.

    >>> mean_above_zero(Terms(torch.tensor([0.0, 3.0])))
    tensor(3.)
    """
    values, weights, counts = terms
    above = (values > 0).to(values.dtype)
    counts = weights if counts is None else counts
    return mean(
        Terms(
            values,
            above if weights is None else above * weights,
            above if counts is None else above * counts,
        )
    )


class LossOptions(TypedDict, total=False):
    """What every loss takes beside its own arguments."""

    distance: DistanceLike | None
    embedding_regularizer: RegularizerLike | None
    embedding_reg_weight: float
    overlap: Overlap


class ProxyOptions(TypedDict, total=False):
    """What every loss with learned weights takes beside its own arguments."""

    distance: DistanceLike | None
    embedding_regularizer: RegularizerLike | None
    embedding_reg_weight: float
    weight_regularizer: RegularizerLike | None
    weight_reg_weight: float
    weight_init_func: Callable[[Tensor], object] | None


class Loss(nn.Module):
    """Settings that all losses share: a distance and a regulariser of the embeddings."""

    additive: ClassVar[bool] = False
    """Whether the loss sums over candidates by weight, so that mixed candidates make sense.

    A loss says so itself: a ranking loss would be mixed into something else in silence.
    """
    setting_names: ClassVar[tuple[str, ...]] = ()
    """The arguments that the loss takes."""
    default_distance: ClassVar[Callable[[], Distance]] = CosineSimilarity
    """What ``distance=None`` means."""
    never_decayed: ClassVar[tuple[str, ...]] = ()
    """Names of its parameters that weight decay leaves alone, whatever ``optim`` says."""

    def __init__(
        self,
        distance: DistanceLike | None = None,
        embedding_regularizer: RegularizerLike | None = None,
        embedding_reg_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.distance = type(self).default_distance() if distance is None else create(distance)
        self.embedding_regularizer = build(embedding_regularizer)
        self.embedding_reg_weight = embedding_reg_weight

    def __init_subclass__(cls) -> None:
        """Show the common options in the signature."""
        super().__init_subclass__()
        show_options(cls)
        cls.setting_names = tuple(inspect.signature(cls).parameters)

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """The formula: one value per element, of one or several kinds of elements.

        Args:
            relations: Anchors x candidates.

        Returns:
            Values, how much each weighs in their sum, and how often it counts in their number.
        """
        raise NotImplementedError

    def reduce(self, terms: Terms) -> Tensor:
        """How the values of the elements become one number: their mean, unless a loss differs."""
        return mean(terms)

    def formula(self, relations: Relations) -> Tensor:
        """The loss of these relations as its formula says, a scalar."""
        found = self.terms(relations)
        parts = (found,) if isinstance(found, Terms) else found
        total = self.reduce(parts[0])
        for part in parts[1:]:
            total = total + self.reduce(part)
        return total

    def kernel(self, relations: Relations) -> kernels.Kernel | None:  # noqa: ARG002
        """A faster way to value and gradient of ``formula`` for these relations, if there is."""
        return None

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations, a scalar; by a kernel where there is one that fits."""
        return kernels.compute(self, relations)

    def _regularized(self, loss: Tensor, embeddings: Tensor) -> Tensor:
        if self.embedding_regularizer is None:
            return loss
        penalty: Tensor = self.embedding_regularizer(in_full_precision(embeddings))
        return loss + self.embedding_reg_weight * penalty


class PairLoss(Loss):
    """A loss over images compared with images.

    Degenerate batches (no positives, one class, one image, none) give 0 with a zero gradient,
    unless the loss says otherwise.
    """

    counts: ClassVar[bool] = True
    """Whether a pair that a miner names several times weighs as much (PML: differs by loss)."""
    needs_labels: ClassVar[bool] = False
    """Whether an ``indices_tuple`` alone is not enough."""
    self_pairs: ClassVar[bool] = False
    """Whether an image is a candidate of its own."""
    between_candidates: bool = False
    """Whether the loss compares candidates with one another."""
    reads_triplets: ClassVar[bool] = False
    """Whether triplets that a miner chose stay triplets, or become the pairs they are made of."""
    by_row: ClassVar[bool] = True
    """Whether an anchor's part reads its own row only, so that anchors may differ in candidates."""

    def __init__(
        self,
        distance: DistanceLike | None = None,
        embedding_regularizer: RegularizerLike | None = None,
        embedding_reg_weight: float = 1.0,
        overlap: Overlap = "any",
    ) -> None:
        super().__init__(distance, embedding_regularizer, embedding_reg_weight)
        self.overlap = overlap

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        *,
        valid: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, in float32 at least.

        Args:
            embeddings: [N, D], the anchors.
            labels: One per embedding; may be left out where ``indices_tuple`` says all.
            indices_tuple: What a miner returned, or PML's index tensors.
            ref_emb: The candidates, where they are not the anchors.
            ref_labels: Their labels.
            valid: [N, candidates], 0 where two are not to be compared (a memory's own copies).

        Returns:
            A scalar.
        """
        if autocast_enabled(embeddings.device):
            with autocast(embeddings.device, enabled=False):
                return self.forward(
                    embeddings, labels, indices_tuple, ref_emb, ref_labels, valid=valid
                )
        if labels is None and (indices_tuple is None or self.needs_labels):
            raise BadInput(f"{type(self).__name__} needs labels")
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        relations = self.relations(embeddings, labels, ref_emb, ref_labels)
        if valid is not None:
            valid = valid.to(relations.similarity.dtype)
            relations = relations._replace(valid=valid, all_valid=False)
        if indices_tuple is None:
            loss = self.compute(relations)
        else:
            rows, columns = relations.similarity.shape
            found = mined(indices_tuple, (rows, columns), embeddings.device)
            loss = self.compute_mined(relations, found)
        return self._regularized(loss, embeddings)

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Relations:
        """The relations this loss reads."""
        return relate(
            embeddings,
            labels,
            ref_emb,
            ref_labels,
            self.distance,
            self.overlap,
            self_pairs=self.self_pairs,
            between_candidates=self.between_candidates,
        )

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The loss of what a miner found."""
        if self.reads_triplets:
            return self.compute(narrow_triplets(relations, found, self.distance))
        return self.compute(narrow(relations, found, count=self.counts))


class AnchorLoss(PairLoss):
    """A loss with one value an anchor, of all its pairs.

    What a miner found does not choose pairs here but weighs anchors: by how often each is named,
    over the largest count (as PML).
    """

    needs_labels = True

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The mean over the anchors that count, each times its weight."""
        weights = found.sample_weights(
            relations.similarity.dtype, anchors_only=not relations.self_comparison
        )
        terms = self.terms(relations)
        assert isinstance(terms, Terms)
        return self.reduce(terms._replace(values=terms.values * weights))


class ProxyLoss(Loss):
    """A loss over images compared with learned vectors, one or several a class.

    ``relations(embeddings, labels)`` gives images x classes; labels are class numbers from 0, or
    rows [N, classes] that say how much of each class an image is (mixed images).
    """

    anchors_only: ClassVar[bool] = False
    """Whether a miner's finding weighs an image only by how often it is an anchor."""
    proxies_are_anchors: ClassVar[bool] = False
    """Whether the loss sums over the images of each proxy, one per class: proxies x images."""

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        distance: DistanceLike | None = None,
        embedding_regularizer: RegularizerLike | None = None,
        embedding_reg_weight: float = 1.0,
        weight_regularizer: RegularizerLike | None = None,
        weight_reg_weight: float = 1.0,
        weight_init_func: Callable[[Tensor], object] | None = None,
    ) -> None:
        super().__init__(distance, embedding_regularizer, embedding_reg_weight)
        self.num_classes = num_classes
        self.embedding_size = embedding_size
        self.weight_regularizer = build(weight_regularizer)
        self.weight_reg_weight = weight_reg_weight
        self.weight_init_func = weight_init_func

    def learned(self, *shape: int, start: Callable[[Tensor], object]) -> nn.Parameter:
        """A parameter of this shape, filled by ``weight_init_func``, or else by ``start``."""
        parameter = nn.Parameter(torch.empty(*shape))
        (self.weight_init_func or start)(parameter.data)
        return parameter

    def class_vectors(self) -> Tensor:
        """The learned vectors as rows."""
        raise NotImplementedError

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Images x classes; larger is closer."""
        rows = self.rows(embeddings)
        return self.distance.similarity(rows, self.class_vectors().to(rows.dtype))

    def rows(self, embeddings: Tensor) -> Tensor:
        """The embeddings, checked, in float32 at least."""
        check_rows(embeddings, self.embedding_size)
        return in_full_precision(embeddings)

    def class_indices(self, embeddings: Tensor, labels: Labels) -> Tensor | None:
        """The class index of each image where the labels are indices, None where they are rows."""
        given = as_tensor(labels, embeddings.shape[0])
        if given.ndim != 1:
            return None
        check_range(given, self.num_classes)
        return given

    def relations(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Images x classes, all of them valid."""
        similarity = self.similarities(embeddings)
        indices = self.class_indices(embeddings, labels)
        return Relations(
            similarity,
            class_rows(labels, similarity.shape[0], self.num_classes, similarity),
            similarity.new_ones(()).expand(similarity.shape),
            anchor_labels=None if indices is None else indices.to(similarity.device, torch.long),
            all_valid=True,
            binary=indices is not None,
        )

    def compute_weighted(self, relations: Relations, weights: Tensor) -> Tensor:
        """The mean over the images, each times its weight."""
        terms = self.terms(relations)
        assert isinstance(terms, Terms)
        return self.reduce(terms._replace(values=terms.values * weights))

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Tensor:
        """The loss of a batch, in float32 at least.

        What a miner found weighs the images: by how often each is named, over the largest count
        (as PML). Candidates are the learned vectors, so ``ref_emb`` is refused.
        """
        if autocast_enabled(embeddings.device):
            with autocast(embeddings.device, enabled=False):
                return self.forward(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if (ref_emb is not None and ref_emb is not embeddings) or (
            ref_labels is not None and ref_labels is not labels
        ):
            raise BadInput(f"{type(self).__name__} compares with learned vectors, not with ref_emb")
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        relations = self.relations(embeddings, labels)
        if indices_tuple is None:
            loss = self.compute(relations)
        else:
            size = embeddings.shape[0]
            found = mined(indices_tuple, (size, size), embeddings.device)
            weights = found.sample_weights(
                relations.similarity.dtype, anchors_only=self.anchors_only
            )
            loss = self.compute_weighted(relations, weights)
        if self.weight_regularizer is not None:
            vectors = self.class_vectors().to(loss.dtype)
            loss = loss + self.weight_reg_weight * self.weight_regularizer(vectors)
        return self._regularized(loss, embeddings)
