"""What every loss is: a formula over relations, in a thin module that holds its settings.

A loss over pairs of images subclasses ``PairLoss``, one with learned class vectors ``ProxyLoss``;
both write one method, ``terms(relations)``, which gives one value per pair, triplet, anchor or
image, and get reducers, miners, memory, mixing, labels of any kind and regularisers for nothing.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from lookalike.distances import DistanceModule
from lookalike.errors import BadInput
from lookalike.labels import (
    Comparison,
    Labels,
    Overlap,
    as_tensor,
    class_rows,
    comparison_of,
)
from lookalike.losses import kernels
from lookalike.miners.mined import Indices, from_indices, sample_weights, take_pairs, take_triplets
from lookalike.ops.autocast import autocast
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.reducers.base import Reducer, ReducerLike
from lookalike.reducers.base import build as build_reducer
from lookalike.reducers.mean import MeanReducer
from lookalike.reducers.terms import Batch, Terms
from lookalike.regularizers.penalties import RegularizerLike, build
from lookalike.relations import Relations, relate

__all__ = [
    "AnchorLoss",
    "Compared",
    "Loss",
    "PairLoss",
    "ProxyLoss",
    "Terms",
]


if TYPE_CHECKING:

    class _ReducerArgument:
        """An argument that takes a name or a reducer, and an attribute that is a reducer."""

        def __get__(self, module: object, kind: type | None = None) -> Reducer: ...

        def __set__(self, module: object, given: ReducerLike | None) -> None: ...


Compared: TypeAlias = Literal["images", "images with proxies", "proxies with images"]


class Loss(DistanceModule):
    """Settings that all losses share: a distance, a reducer and a regulariser of the embeddings.

    Args:
        reducer: How the values of the elements become one number: a reducer, or its name; None: the
            default of the loss.
        embedding_regularizer: A penalty on the embeddings, or its name.
        embedding_reg_weight: The weight of that penalty.
    """

    additive: ClassVar[bool] = False
    """Whether the loss sums over candidates by weight, so that mixed candidates make sense.

    A loss says so itself: mixing would silently turn a ranking loss into another one.
    """
    compares: ClassVar[Compared] = "images"
    """What the anchors and the candidates are."""
    between_candidates = False
    """Whether the loss compares candidates with one another."""
    by_row: ClassVar[bool] = True
    """Whether an anchor's part reads its own row only, so that anchors may differ in candidates."""
    needs_labels: ClassVar[bool] = True
    """Whether an ``indices_tuple`` alone is not enough."""
    sub_losses: ClassVar[tuple[str, ...]] = ("loss",)
    """Names of its kinds of elements; with several, ``reducer`` has one for each, as PML's."""
    fused_kernel: ClassVar[kernels.Kernel | None] = None
    """Value and gradient of ``formula`` by hand, in fewer passes, for any relations."""
    never_decayed: ClassVar[tuple[str, ...]] = ()
    """Names of its parameters that weight decay leaves alone, whatever ``optim`` says."""

    _: KW_ONLY
    if TYPE_CHECKING:
        reducer: _ReducerArgument = _ReducerArgument()
    else:
        reducer: ReducerLike | None = None
    embedding_regularizer: RegularizerLike | None = None
    embedding_reg_weight: float = 1.0

    def __post_init__(self) -> None:
        """Build distance, reducer and regulariser."""
        super().__post_init__()
        given = self.reducer
        del self.reducer  # one of PML's is a torch module, which only a module may replace
        usual = self.default_reducer()
        self.usual_reducer = usual.for_each(self.sub_losses)
        self.reducer = self.usual_reducer
        if given is not None and (chosen := build_reducer(given)) != usual:
            self.reducer = chosen.for_each(self.sub_losses)
        self.embedding_regularizer = build(self.embedding_regularizer)

    def default_reducer(self) -> Reducer:
        """What ``reducer=None`` means; kernels compute this one only."""
        return MeanReducer()

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """The formula: one value per element, of one or several kinds of elements."""
        raise NotImplementedError

    def batch(self, relations: Relations) -> Batch:
        """What reducers may want to know of the anchors."""
        size, labels = relations.similarity.shape, relations.labels
        if relations.classes is not None and labels is not None:
            labels = relations.classes.index_select(0, labels)
        return Batch(size[0], size[1], labels, relations.embeddings)

    def formula(self, relations: Relations) -> Tensor:
        """The loss of these relations as its formula says, a scalar."""
        found = self.terms(relations)
        parts = (found,) if isinstance(found, Terms) else found
        if relations.anchor_weights is not None:
            parts = tuple(p._replace(values=p.values * relations.anchor_weights) for p in parts)
        reducer = self.reducer
        batch = None if reducer is self.usual_reducer else self.batch(relations)
        return reducer.combine(parts, batch)

    def kernel(self, relations: Relations) -> kernels.Kernel | None:  # noqa: ARG002
        """A faster way to value and gradient of ``formula`` for these relations, if there is."""
        return type(self).fused_kernel

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations, a scalar; by a kernel where there is one that fits."""
        return kernels.compute(self, relations)

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        itself: Tensor | None = None,
    ) -> Relations:
        """Anchors x candidates, as this loss reads them.

        ``itself`` [N] says which of ``ref_emb`` is the copy of each image, in a memory.
        """
        raise NotImplementedError

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """How this loss reads ``mined``, what a miner made of ``relations``."""
        raise NotImplementedError

    def value(self, relations: Relations) -> Tensor:
        """The loss of these relations with its regularisers, a scalar."""
        loss = self.compute(relations)
        if self.embedding_regularizer is not None and relations.embeddings is not None:
            penalty = build(self.embedding_regularizer)(relations.embeddings)
            weighed = self.embedding_reg_weight * penalty
            loss = self.reducer.add(loss, "embedding_reg_loss", weighed)
        return loss

    def check_given(
        self,
        labels: Labels | None,
        indices_tuple: Indices | None,
        ref_emb: Tensor | None,  # noqa: ARG002
        ref_labels: Labels | None,  # noqa: ARG002
    ) -> None:
        """Refuse a call without what this loss needs, or with what it cannot use."""
        if labels is None and (indices_tuple is None or self.needs_labels):
            raise BadInput(f"{type(self).__name__} needs labels")

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Tensor:
        """The loss of a batch, in float32 at least.

        Args:
            embeddings: [N, D], the images of the batch.
            labels: One per embedding; some losses need none where ``indices_tuple`` says all.
            indices_tuple: What a miner returned, or PML's index tensors.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.

        Returns:
            A scalar.
        """
        self.distance.check_shapes(embeddings, None)
        self.check_given(labels, indices_tuple, ref_emb, ref_labels)
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        with autocast(embeddings.device, enabled=False):
            relations = self.relations(embeddings, labels, ref_emb, ref_labels)
            if indices_tuple is not None:
                rows = embeddings.shape[0]
                columns = rows if ref_emb is None else ref_emb.shape[0]
                chosen = from_indices(indices_tuple, rows, columns, relations.similarity)
                relations = self.narrow(relations, chosen)
            return self.value(relations)


class PairLoss(Loss):
    """A loss over images compared with images.

    Degenerate batches (no positives, one class, one image, none) give 0 with a zero gradient,
    unless the loss says otherwise.

    Args:
        overlap: How multi-hot labels agree.
        label_comparison: Which labels agree, and how much, where not only equal ones do: a function
            of two tensors that broadcast, or ``package.module:function``.
    """

    needs_labels = False
    counts: ClassVar[bool] = True
    """Whether a pair that a miner names several times weighs as much (PML: differs by loss)."""
    self_pairs: ClassVar[bool] = False
    """Whether an image is a candidate of its own."""
    reads_triplets: ClassVar[bool] = False
    """Whether triplets that a miner chose stay triplets, or become the pairs they are made of."""

    _: KW_ONLY
    overlap: Overlap = "any"
    label_comparison: Comparison | str | None = None

    def __post_init__(self) -> None:
        """Build distance, reducer and regulariser; find the comparison of labels."""
        super().__post_init__()
        self.label_comparison = comparison_of(self.label_comparison)

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        itself: Tensor | None = None,
    ) -> Relations:
        """Images x images."""
        return relate(
            embeddings,
            labels,
            ref_emb,
            ref_labels,
            self.distance,
            self.overlap,
            itself=itself,
            self_pairs=self.self_pairs,
        ).compared_by(comparison_of(self.label_comparison))

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """Only the pairs or triplets that the miner chose."""
        if self.reads_triplets:
            return take_triplets(relations, mined)
        return take_pairs(relations, mined, count=self.counts)


class AnchorLoss(PairLoss):
    """A loss with one value per anchor, of all its pairs.

    What a miner chose does not choose pairs here but weighs anchors: by how often each is named,
    over the largest count (as PML).
    """

    needs_labels = True

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """All pairs, each anchor times its weight."""
        weights = sample_weights(
            mined, relations.similarity.dtype, anchors_only=not relations.self_comparison
        )
        return relations._replace(anchor_weights=weights, mined=True)


class ProxyLoss(Loss):
    """A loss over images compared with learned vectors (proxies), one or several per class.

    Labels are class indices from 0, or rows [N, classes] that say how much of each class an image
    is (mixed images). What a miner chose weighs the images: by how often each is named, over the
    largest count (as PML). A memory adds images, which train the proxies only.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        weight_regularizer: A penalty on the proxies, or its name.
        weight_reg_weight: The weight of that penalty.
        weight_init_func: Fills the proxies; None: as the paper of the loss does.
    """

    compares: ClassVar[Compared] = "images with proxies"
    anchors_only: ClassVar[bool] = False
    """Whether a miner's choice weighs an image only by how often it is an anchor."""

    num_classes: int
    embedding_size: int
    _: KW_ONLY
    weight_regularizer: RegularizerLike | None = None
    weight_reg_weight: float = 1.0
    weight_init_func: Callable[[Tensor], object] | None = None

    def __post_init__(self) -> None:
        """Build distance and regularisers; subclasses make their parameters here."""
        super().__post_init__()
        self.weight_regularizer = build(self.weight_regularizer)

    def learned(self, *shape: int, start: Callable[[Tensor], object]) -> nn.Parameter:
        """A parameter of this shape, filled by ``weight_init_func``, or else by ``start``."""
        parameter = nn.Parameter(torch.empty(*shape))
        (self.weight_init_func or start)(parameter.data)
        return parameter

    def class_vectors(self) -> Tensor:
        """The learned vectors as rows."""
        raise NotImplementedError

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Images x classes, or the other way round where proxies are the anchors."""
        rows = self.rows(embeddings)
        return self.distance.similarity(rows, self.class_vectors().to(rows.dtype))

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Images x classes: how near each image is to each class, without any margin.

        As PML's: the numbers that a softmax loss takes the softmax of; for proxy-NCA, proxy-anchor
        and SoftTriple those of the distance, before any scale.

        Args:
            embeddings: [N, D].

        Returns:
            [N, classes].
        """
        found = self.similarities(embeddings)
        if self.compares == "proxies with images":
            found = found.T
        return found if self.distance.is_inverted else -found

    def rows(self, embeddings: Tensor) -> Tensor:
        """The embeddings, checked, in float32 at least."""
        check_rows(embeddings, self.embedding_size)
        return in_full_precision(embeddings)

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        itself: Tensor | None = None,
    ) -> Relations:
        """Images and proxies; the images of a memory are further ones, without gradient."""
        assert labels is not None
        if ref_emb is not None and ref_emb is not embeddings:
            if itself is None or ref_labels is None:
                raise BadInput(
                    f"{type(self).__name__} compares with learned vectors, not with ref_emb"
                )
            embeddings = ref_emb.index_copy(0, itself, in_full_precision(embeddings))
            labels = ref_labels
        return self.to_proxies(embeddings, labels)

    def to_proxies(self, embeddings: Tensor, labels: Labels) -> Relations:
        """The similarities with their labels, all of them valid."""
        given = as_tensor(labels, embeddings.shape[0])
        similarity = self.similarities(embeddings)
        return self.of_classes_compared(embeddings, similarity, given, self.num_classes)

    def of_classes_compared(
        self, embeddings: Tensor, similarity: Tensor, given: Tensor, num_classes: int
    ) -> Relations:
        """Relations of these similarities to so many classes, of which ``given`` are the labels."""
        classes = 0 if self.compares == "proxies with images" else 1
        return Relations(
            similarity,
            class_rows(given, num_classes, similarity, dim=classes),
            similarity.new_ones(()).expand_as(similarity),
            embeddings=in_full_precision(embeddings),
            labels=given.to(similarity.device, torch.long if given.ndim == 1 else None),
            all_valid=True,
            binary=given.ndim == 1,
        )

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """All images, each times its weight."""
        weights = sample_weights(mined, relations.similarity.dtype, anchors_only=self.anchors_only)
        return relations._replace(anchor_weights=weights, mined=True)

    def value(self, relations: Relations) -> Tensor:
        """The loss of these relations with its regularisers, a scalar."""
        loss = super().value(relations)
        if self.weight_regularizer is not None:
            vectors = self.class_vectors().to(relations.similarity.dtype)
            weighed = self.weight_reg_weight * build(self.weight_regularizer)(vectors)
            loss = self.reducer.add(loss, "weight_reg_loss", weighed)
        return loss
