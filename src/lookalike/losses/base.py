"""What every loss is: a formula over relations, in a thin module that holds its settings.

A loss over pairs of images subclasses ``PairLoss``, one with learned class vectors ``ProxyLoss``;
both write one method, ``terms(relations)``, which gives one value per pair, triplet, anchor or
image, and get reducers, miners, memory, mixing, labels of any kind and regularisers for nothing.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import ClassVar, Literal, dataclass_transform

import torch
from torch import Tensor, nn

from lookalike.arguments import Built, declare_arguments, shown_arguments
from lookalike.distances import CosineSimilarity, Distance
from lookalike.distances.base import chosen_distance
from lookalike.errors import BadInput
from lookalike.labels import Comparison, Labels, as_tensor, check_range, class_rows, comparison_of
from lookalike.miners.mined import Indices, from_indices, named_pairs, sample_weights
from lookalike.ops.autocast import autocast
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.reducers import MeanReducer, Reducer, Terms
from lookalike.reducers import build as build_reducer
from lookalike.regularizers.penalties import build as build_regularizer
from lookalike.relations import ListedTriplets, Relations, relate

__all__ = ["Loss", "PairLoss", "ProxyLoss", "Terms"]


@dataclass_transform(eq_default=False)
class Loss(nn.Module):
    """Settings that all losses share: a distance, a reducer and a regulariser of the embeddings.

    Args:
        distance: How embeddings are compared; None: the default of the loss.
        reducer: How the values of the elements become one number: a reducer, or its name; None: the
            default of the loss.
        embedding_regularizer: A penalty on the embeddings, or its name.
        embedding_reg_weight: The weight of that penalty.
    """

    default_distance: ClassVar[Callable[[], Distance]] = CosineSimilarity
    """What ``distance=None`` means."""
    default_reducer: ClassVar[Callable[[], Reducer]] = MeanReducer
    """What ``reducer=None`` means."""
    needs: ClassVar[str] = ""
    """What the distance must be, one of the keys of ``distances.base.NEEDS``; empty: anything."""
    additive: ClassVar[bool] = False
    """Whether the loss sums over candidates by weight, so that mixed candidates make sense.

    A loss says so itself: mixing would silently turn a ranking loss into another one.
    """
    needs_labels: ClassVar[bool] = True
    """Whether an ``indices_tuple`` alone is not enough."""
    never_decayed: ClassVar[tuple[str, ...]] = ()
    """Names of its parameters that weight decay leaves alone, whatever ``optim`` says."""

    _: KW_ONLY
    distance: Built[Distance] = Built(chosen_distance)
    reducer: Built[Reducer] = Built(
        lambda loss, given: type(loss).default_reducer() if given is None else build_reducer(given)
    )
    embedding_regularizer: Built[nn.Module | None] = Built(
        lambda _, given: build_regularizer(given)
    )
    embedding_reg_weight: float = 1.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declare_arguments(cls)

    def __post_init__(self) -> None:
        """Nothing; subclasses check their settings and make their learned parameters here."""

    def extra_repr(self) -> str:
        """The settings, and the distance where it is not the default."""
        shown = [text] if (text := shown_arguments(self)) else []
        if self.distance != type(self).default_distance():
            shown.append(f"distance={self.distance}")
        return ", ".join(shown)

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """The formula: one value per element, of one or several kinds of elements."""
        raise NotImplementedError

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        *,
        own: Tensor | None = None,
        list_pairs: bool = False,
    ) -> Relations:
        """Anchors x candidates, as this loss reads them.

        Args:
            embeddings: [N, D].
            labels: One per embedding.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.
            own: [N] which of ``ref_emb`` is the copy of each image, in a memory.
            list_pairs: Whether a miner wants the positive pairs listed.

        Returns:
            Relations of all pairs.
        """
        raise NotImplementedError

    def images(self, relations: Relations) -> tuple[Tensor | None, Tensor | None]:
        """The embeddings and the labels of the images."""
        return relations.embeddings, relations.labels

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """Images against images by a distance, without gradient: what a miner reads."""
        raise NotImplementedError

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """What this loss reads where a miner chose ``mined``, and a factor for each anchor."""
        raise NotImplementedError

    def penalties(self, relations: Relations) -> list[Terms]:
        """The regularisers, each a number."""
        images, _ = self.images(relations)
        if self.embedding_regularizer is None or images is None:
            return []
        penalty = self.embedding_regularizer(images)
        return [Terms(self.embedding_reg_weight * penalty, name="embedding_reg_loss")]

    def total_loss(self, relations: Relations, mined: Relations | None = None) -> Tensor:
        """The loss of these relations, or of what a miner chose of them, a scalar."""
        chosen, factors = self.narrow(relations, mined)
        parts = self.parts(chosen, factors) + self.penalties(chosen)
        return self.reducer.combine(parts, chosen)

    def parts(self, relations: Relations, factors: Tensor | None = None) -> list[Terms]:
        """``terms`` as a list, each value times the factor of its anchor."""
        found = self.terms(relations)
        parts = [found] if isinstance(found, Terms) else list(found)
        if factors is None:
            return parts
        return [part._replace(values=part.values * factors) for part in parts]

    def check_given(
        self,
        labels: Labels | None,
        indices_tuple: Indices | None,
        ref_emb: Tensor | None,  # noqa: ARG002
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
            indices_tuple: What a miner returned, or index tensors of pairs or triplets.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.

        Returns:
            A scalar.
        """
        self.distance.check_shapes(embeddings, None)
        self.check_given(labels, indices_tuple, ref_emb)
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        with autocast(embeddings.device, enabled=False):
            relations, mined = self.relations(embeddings, labels, ref_emb, ref_labels), None
            if indices_tuple is not None:
                images = self.image_relations(relations, self.distance)
                mined = from_indices(indices_tuple, images)
            return self.total_loss(relations, mined)


declare_arguments(Loss)


class PairLoss(Loss):
    """A loss over images compared with images.

    Degenerate batches (no positives, one class, one image, none) give 0 with a zero gradient,
    unless the loss says otherwise.

    Args:
        label_comparison: Which labels agree, and how much, where not only equal ones do: a function
            of two tensors that broadcast, ``jaccard``, or ``package.module:function``.
    """

    needs_labels = False
    reads: ClassVar[Literal["matrix", "pairs", "triplets"]] = "matrix"
    """What the formula reads: the matrix; the positive pairs, listed; or triplets, listed, those
    that a miner chose or all that the pairs make."""
    weight_repeated_pairs: ClassVar[bool] = True
    """Whether a pair that a miner names several times weighs as much (PML: differs by loss)."""
    by_row: ClassVar[bool] = True
    """Whether an anchor's part reads its own row only, so that anchors may differ in candidates."""
    weighs_anchors: ClassVar[bool] = False
    """Whether what a miner chose weighs the anchors, by how often each is named (as PML), instead
    of choosing pairs."""

    _: KW_ONLY
    label_comparison: Built[Comparison | None] = Built(lambda _, given: comparison_of(given))

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        *,
        own: Tensor | None = None,
        list_pairs: bool = False,
    ) -> Relations:
        """Images x images."""
        return relate(
            embeddings,
            labels,
            ref_emb,
            ref_labels,
            self.distance,
            self.label_comparison,
            own=own,
            list_pairs=list_pairs or self.reads != "matrix",
        )

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """The same, by another distance where the miner has one."""
        assert relations.embeddings is not None
        rows, others = relations.embeddings.detach(), relations.ref_emb
        others = None if others is None else others.detach()
        similarity = relations.similarity.detach()
        if distance != self.distance:
            similarity = distance.similarity(rows, others)
        return relations._replace(similarity=similarity, embeddings=rows, ref_emb=others)

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """Only the pairs or triplets that the miner chose, or all with a factor per anchor."""
        factors = None
        if mined is not None and self.weighs_anchors:
            factors = sample_weights(mined, anchors_only=not relations.self_comparison)
        elif mined is not None and self.reads == "triplets" and mined.triplets is not None:
            return relations.only_triplets(mined.triplets), None
        elif mined is not None:
            pairs = named_pairs(mined)
            if not self.weight_repeated_pairs:
                pairs = pairs[0].sign(), pairs[1].sign()
            relations = relations.only(*pairs)
        if self.reads != "matrix":
            relations = relations.with_listed_pairs()
        return relations, factors

    def between_candidates(self, relations: Relations) -> Tensor:
        """The similarities of the candidates to one another."""
        if relations.ref_emb is None:
            return relations.similarity
        return self.distance.similarity(relations.ref_emb)


class ProxyLoss(Loss):
    """A loss over images compared with learned vectors (proxies), one or several per class.

    By default the cross-entropy over classes of ``logits``. Labels are class indices from 0, or
    rows [N, classes] that say how much of each class an image is (mixed images). What a miner chose
    weighs the images: by how often each is named, over the largest count (as PML). A memory adds
    images, which train the proxies only.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        weight_regularizer: A penalty on the proxies, or its name.
        weight_reg_weight: The weight of that penalty.
        weight_init_func: Fills the proxies; None: as the paper of the loss does.
        sample: The share of the classes that a training step compares images with: those of the
            batch, and random others (partial FC, An et al., CVPR 2022). 1: all classes. Less makes
            logits and their gradients smaller by that factor; images that are of several classes
            in part are compared with all, and so is everything in evaluation mode.
    """

    additive = True
    proxies_are_anchors: ClassVar[bool] = False
    """Whether relations are proxies x images instead of images x proxies."""
    weighs_by_anchors: ClassVar[bool] = False
    """Whether a miner's choice weighs an image only by how often it is an anchor."""
    can_sample: ClassVar[bool] = True
    """Whether ``sample`` may be less than 1."""
    default_init: ClassVar[Callable[[Tensor], object]] = nn.init.normal_
    """What fills the learned vectors where ``weight_init_func`` is None."""
    columns: ClassVar[str] = ""
    """The parameter that has the vectors as columns, as a linear layer has them; empty: they are
    the rows of ``proxies``."""

    num_classes: int
    embedding_size: int
    _: KW_ONLY
    weight_regularizer: Built[nn.Module | None] = Built(lambda _, given: build_regularizer(given))
    weight_reg_weight: float = 1.0
    weight_init_func: Callable[[Tensor], object] | None = None
    sample: Built[float] = Built(lambda loss, given: _checked_sample(loss, given), 1)

    def make_parameter(self, *shape: int) -> nn.Parameter:
        """A parameter of this shape, filled by ``weight_init_func``, or else as the paper does."""
        parameter = nn.Parameter(torch.empty(*shape))
        (self.weight_init_func or type(self).default_init)(parameter.data)
        return parameter

    def __post_init__(self) -> None:
        """Make the learned vectors; a loss with other parameters makes its own."""
        number = self.num_classes * self.vectors_per_class()
        if self.columns:
            setattr(self, self.columns, self.make_parameter(self.embedding_size, number))
        else:
            self.proxies = self.make_parameter(number, self.embedding_size)

    def vectors_per_class(self) -> int:
        """How many vectors a class has."""
        return 1

    def class_vectors(self) -> Tensor:
        """The learned vectors as rows, in order of their classes."""
        if not self.columns:
            return self.proxies
        columns: Tensor = getattr(self, self.columns)
        return columns.T

    def vectors_of(self, classes: Tensor | None) -> Tensor:
        """The learned vectors of some classes as rows; None: of all."""
        vectors = self.class_vectors()
        if classes is None:
            return vectors
        number = self.vectors_per_class()
        rows = classes.unsqueeze(1) * number + torch.arange(number, device=classes.device)
        return vectors.index_select(0, rows.flatten())

    def similarities(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:
        """Images x classes, all or some."""
        return self.distance.similarity(embeddings, self.vectors_of(classes).to(embeddings.dtype))

    def logit_scale(self) -> float:
        """What the similarities are multiplied by in a softmax."""
        return 1

    def lengths(self, embeddings: Tensor) -> float | Tensor:  # noqa: ARG002
        """What they are multiplied by besides, in a loss that keeps lengths; images x classes."""
        return 1

    def apply_margin(self, relations: Relations) -> Tensor:
        """The similarities, in a loss with a margin with it for the right class."""
        return relations.similarity

    def logits(self, relations: Relations) -> Tensor:
        """Images x classes: what the softmax is of."""
        assert relations.embeddings is not None
        factor = self.logit_scale() * self.lengths(relations.embeddings)
        return factor * self.apply_margin(relations)

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Images x classes: how near each image is to each class, scaled, without any margin.

        Args:
            embeddings: [N, D].

        Returns:
            [N, classes].
        """
        rows = self.rows(embeddings)
        return self.logit_scale() * self.lengths(rows) * self.similarities(rows)

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """Cross-entropy, one value per image."""
        return Terms(soft_cross_entropy(self.logits(relations), relations))

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
        *,
        own: Tensor | None = None,
        list_pairs: bool = False,  # noqa: ARG002
    ) -> Relations:
        """Images and proxies; the images of a memory are further ones, without gradient.

        The labels of the proxies are those of the classes that were sampled, or None: all classes.
        """
        assert labels is not None
        rows = self.rows(embeddings)
        if ref_emb is not None and ref_emb is not embeddings:
            if own is None or ref_labels is None:
                raise BadInput(
                    f"{type(self).__name__} compares with learned vectors, not with ref_emb"
                )
            own = own.to(rows.device, non_blocking=True)
            rows, labels = ref_emb.index_copy(0, own, rows), ref_labels
        given = as_tensor(labels, len(rows))
        classes = self._classes_compared(given, rows)
        similarity = self.similarities(rows, classes)
        places = _places(given, classes)
        number = self.num_classes if classes is None else len(classes)
        found = class_rows(places, number, similarity)
        share = found if given.ndim == 2 else None
        given = given.to(rows.device, torch.long if given.ndim == 1 else None, non_blocking=True)
        images, proxies = (rows, given), (self.class_vectors(), classes)
        if not self.proxies_are_anchors:
            return Relations(similarity, found, 1 - found, share, *images, *proxies)
        found, share = found.T, None if share is None else share.T
        proxies = proxies[0], torch.arange(self.num_classes, device=rows.device)
        return Relations(similarity.T, found, 1 - found, share, *proxies, *images)

    def images(self, relations: Relations) -> tuple[Tensor | None, Tensor | None]:
        """The embeddings and the labels of the images, which may be the candidates."""
        if self.proxies_are_anchors:
            return relations.ref_emb, relations.ref_labels
        return relations.embeddings, relations.labels

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """The images against one another."""
        rows, labels = self.images(relations)
        assert rows is not None
        return relate(rows.detach(), labels, distance=distance)

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """All images, each with a factor; in the sums of a proxy, of weight ``e^(w - 1)``."""
        r = relations
        if mined is None:
            return r, None
        weights = sample_weights(mined, anchors_only=self.weighs_by_anchors)
        if not self.proxies_are_anchors:
            return r, weights
        times = torch.exp(weights - 1)
        return r._replace(positives=r.positives * times, negatives=r.negatives * times), None

    def penalties(self, relations: Relations) -> list[Terms]:
        """Those of the embeddings and of the learned vectors."""
        found = super().penalties(relations)
        if self.weight_regularizer is not None:
            vectors = self.class_vectors().to(relations.similarity.dtype)
            penalty = self.weight_reg_weight * self.weight_regularizer(vectors)
            found.append(Terms(penalty, name="weight_reg_loss"))
        return found

    def _classes_compared(self, labels: Tensor, rows: Tensor) -> Tensor | None:
        """The classes that ``sample`` draws; None: all."""
        number = max(math.ceil(self.sample * self.num_classes), len(rows))
        if not self.training or labels.ndim != 1 or number >= self.num_classes:
            return None
        check_range(labels, self.num_classes)
        return sampled_classes(labels.to(rows.device, torch.long), self.num_classes, number)


def _checked_sample(loss: ProxyLoss, sample: float) -> float:
    if not 0 < sample <= 1:
        raise BadInput(f"sample is {sample}; it must be above 0, up to 1")
    if sample != 1 and not loss.can_sample:
        raise BadInput(f"{type(loss).__name__} reads the vectors of all classes; sample must be 1")
    return sample


def sampled_classes(labels: Tensor, num_classes: int, number: int) -> Tensor:
    """So many classes in order: all of the labels, and random others.

    >>> sampled_classes(torch.tensor([3, 0]), 4, 2)
    tensor([0, 3])
    """
    chance = torch.rand(num_classes, device=labels.device)
    return chance.index_fill_(0, labels, 2).topk(number).indices.sort().values


def _places(labels: Tensor, classes: Tensor | None) -> Tensor:
    """The labels as places among the classes compared with."""
    if classes is None or labels.ndim != 1:
        return labels
    labels = labels.to(classes.device, torch.long)
    # a label below 0 stays one, where no check has refused it
    return torch.searchsorted(classes, labels).where(labels >= 0, -1)


def of_listed_pairs(relations: Relations, values: Tensor) -> Terms:
    """One value per positive pair, of those that are listed."""
    r = relations
    weights = r.of_pairs(r.positives)
    counts = weights if r.share is None else r.of_pairs(r.positive_counts)
    return Terms(values, weights, counts, images=r.listed_pairs)


def of_listed_triplets(relations: Relations, values: Tensor, listed: ListedTriplets) -> Terms:
    """One value per triplet, of those that are listed."""
    anchor, positive = relations.listed_pairs
    negative = None if relations.triplets is None else relations.triplets.negative
    if negative is None:
        negative = torch.arange(values.shape[1], device=anchor.device)
    images = anchor.unsqueeze(1), positive.unsqueeze(1), negative
    return Terms(values, listed.weights, listed.counts, images=images)


def soft_cross_entropy(logits: Tensor, relations: Relations) -> Tensor:
    """``-sum_c share_c log softmax(logits)_c``, one value per image."""
    r = relations
    if r.share is not None or r.labels is None:
        return nn.functional.cross_entropy(logits, r.positives, reduction="none")
    return nn.functional.cross_entropy(logits, _places(r.labels, r.ref_labels), reduction="none")


def with_target_margin(relations: Relations, margin: Callable[[Tensor], Tensor]) -> Tensor:
    """The similarities, with ``margin(s)`` instead of s for the right class of each image."""
    r, s = relations, relations.similarity
    if r.share is not None or r.labels is None:  # an image is of several classes in part
        return torch.lerp(s, margin(s), r.positives)
    target = _places(r.labels, r.ref_labels).unsqueeze(1)
    return s.scatter(1, target, margin(s.gather(1, target)))
