"""What every loss is: a pure function of relations, in a thin module that holds its settings.

A loss over pairs of images subclasses ``PairLoss``, one with learned class vectors ``ProxyLoss``;
both write one method, ``compute(relations)``, and get miners, memory, mixing, labels of any kind
and regularisers for nothing.
"""

from collections.abc import Callable
from typing import ClassVar, TypedDict

import torch
from torch import Tensor, nn

from lookalike.distances import CosineSimilarity, Distance, DistanceLike, create
from lookalike.errors import BadInput
from lookalike.geometry import Relations, check_rows, in_full_precision, relate, weighted_mean
from lookalike.labels import Labels, Overlap, as_tensor, check_range, class_rows
from lookalike.miners.mined import Indices, Mined, mined, narrow
from lookalike.regularizers.base import RegularizerLike, build
from lookalike.signatures import show_options

__all__ = ["AnchorLoss", "Loss", "LossOptions", "PairLoss", "ProxyLoss", "ProxyOptions"]


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
    default_distance: ClassVar[Callable[[], Distance]] = CosineSimilarity
    """What ``distance=None`` means."""

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

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations, a scalar."""
        raise NotImplementedError

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
    among: bool = False
    """Whether the loss compares candidates with one another."""
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
        if torch.is_autocast_enabled(embeddings.device.type):
            with torch.autocast(embeddings.device.type, enabled=False):
                return self.forward(
                    embeddings, labels, indices_tuple, ref_emb, ref_labels, valid=valid
                )
        if labels is None and (indices_tuple is None or self.needs_labels):
            raise BadInput(f"{type(self).__name__} needs labels")
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        relations = self.relations(embeddings, labels, ref_emb, ref_labels)
        if valid is not None:
            relations = relations._replace(valid=valid.to(relations.similarity.dtype))
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
            among=self.among,
        )

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The loss of what a miner found."""
        return self.compute(narrow(relations, found, count=self.counts))


class AnchorLoss(PairLoss):
    """A loss with one value an anchor, of all its pairs.

    What a miner found does not choose pairs here but weighs anchors: by how often each is named,
    over the largest count (as PML).
    """

    needs_labels = True

    def per_anchor(self, relations: Relations) -> tuple[Tensor, Tensor]:
        """The loss of each anchor, and 1 for the anchors that count in the mean (else 0)."""
        raise NotImplementedError

    def compute(self, relations: Relations) -> Tensor:
        """The mean over the anchors that count."""
        return weighted_mean(*self.per_anchor(relations))

    def compute_mined(self, relations: Relations, found: Mined) -> Tensor:
        """The mean over the anchors that count, each times its weight."""
        weights = found.sample_weights(
            relations.similarity.dtype, anchors_only=not relations.within
        )
        values, counted = self.per_anchor(relations)
        return weighted_mean(values * weights, counted)


class ProxyLoss(Loss):
    """A loss over images compared with learned vectors, one or several a class.

    ``relations(embeddings, labels)`` gives images x classes; labels are class numbers from 0, or
    rows [N, classes] that say how much of each class an image is (mixed images).
    """

    anchors_only: ClassVar[bool] = False
    """Whether a miner's finding weighs an image only by how often it is an anchor."""

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
        same = class_rows(labels, similarity.shape[0], self.num_classes, similarity)
        return Relations(similarity, same, similarity.new_ones(()).expand(similarity.shape))

    def per_image(self, relations: Relations) -> Tensor:
        """The loss of each image, [N]."""
        raise NotImplementedError

    def compute(self, relations: Relations) -> Tensor:
        """The mean over the images."""
        return self.per_image(relations).mean()

    def compute_batch(self, embeddings: Tensor, labels: Labels) -> Tensor:
        """The loss of a batch."""
        return self.compute(self.relations(embeddings, labels))

    def compute_weighted(self, relations: Relations, weights: Tensor) -> Tensor:
        """The mean over the images, each times its weight."""
        return (self.per_image(relations) * weights).mean()

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
        if torch.is_autocast_enabled(embeddings.device.type):
            with torch.autocast(embeddings.device.type, enabled=False):
                return self.forward(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        if (ref_emb is not None and ref_emb is not embeddings) or (
            ref_labels is not None and ref_labels is not labels
        ):
            raise BadInput(f"{type(self).__name__} compares with learned vectors, not with ref_emb")
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        if indices_tuple is None:
            loss = self.compute_batch(embeddings, labels)
        else:
            relations = self.relations(embeddings, labels)
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
