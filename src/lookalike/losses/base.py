"""What every loss is: a formula over relations, in a thin module that holds its settings.

A loss over pairs of images subclasses ``PairLoss``, one with learned class vectors ``ProxyLoss``;
both write one method, ``terms(relations)``, which gives one value per pair, triplet, anchor or
image, and get reducers, miners, memory, mixing, labels of any kind and regularisers for nothing.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import ClassVar, TypeAlias, dataclass_transform

from torch import Tensor, nn

from lookalike.arguments import Built, declare_arguments, shown_arguments
from lookalike.distances import CosineSimilarity, Distance, chosen_distance
from lookalike.errors import BadInput
from lookalike.labels import Comparison, Labels, comparison_of
from lookalike.miners.mined import Indices, chosen_pairs, from_indices
from lookalike.ops.device import autocast
from lookalike.ops.rows import in_full_precision
from lookalike.reducers import MeanReducer, Reducer, Terms
from lookalike.registry import REDUCERS, REGULARIZERS
from lookalike.relations import Relations, relate

__all__ = ["Loss", "PairLoss", "Terms"]

FromMiner: TypeAlias = Callable[[Relations, Relations], tuple[Relations, Tensor | None]]
"""All relations and what a miner chose of them in; what the formula reads and a factor for each
anchor out."""


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
    """What the distance must be, one of the keys of ``distances.NEEDS``; empty: anything."""
    from_miner: ClassVar[FromMiner] = chosen_pairs
    """What a miner's choice means to the loss, a function of ``miners.mined``."""
    additive: ClassVar[bool] = False
    """Whether the loss sums over candidates by weight, so that mixed candidates make sense.

    A loss says so itself: mixing would silently turn a ranking loss into another one.
    """
    never_decayed: ClassVar[tuple[str, ...]] = ()
    """Names of its parameters that weight decay leaves alone, whatever ``optim`` says."""

    _: KW_ONLY
    distance: Built[Distance] = Built(chosen_distance)
    reducer: Built[Reducer] = Built(
        lambda loss, given: REDUCERS.build(given or type(loss).default_reducer(), Reducer)
    )
    embedding_regularizer: Built[nn.Module | None] = Built(
        lambda _, given: given and REGULARIZERS.build(given, nn.Module)
    )
    embedding_reg_weight: float = 1.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declare_arguments(cls)

    def __post_init__(self) -> None:
        """Nothing; subclasses check their settings and make their learned parameters here."""

    def extra_repr(self) -> str:
        """The settings, and the distance where it is not the default."""
        return shown_arguments(self)

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
    ) -> Relations:
        """Anchors x candidates, as this loss reads them.

        Args:
            embeddings: [N, D].
            labels: One per embedding.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.
            own: [N] which of ``ref_emb`` is the copy of each image, in a memory.

        Returns:
            Relations of all pairs.
        """
        raise NotImplementedError

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """Images against images by a distance, without gradient: what a miner reads."""
        raise NotImplementedError

    def images(self, relations: Relations) -> Tensor | None:
        """The embeddings of the images."""
        return relations.embeddings

    def penalties(self, relations: Relations) -> list[Terms]:
        """The regularisers, each a number."""
        images = self.images(relations)
        if self.embedding_regularizer is None or images is None:
            return []
        penalty = self.embedding_regularizer(images)
        return [Terms(self.embedding_reg_weight * penalty, name="embedding_reg_loss")]

    def total_loss(self, relations: Relations, mined: Relations | None = None) -> Tensor:
        """The loss of these relations, or of what a miner chose of them, a scalar."""
        factors = None
        if mined is not None:
            relations, factors = type(self).from_miner(relations, mined)
        parts = self.parts(relations, factors) + self.penalties(relations)
        return self.reducer.combine(parts, relations)

    def parts(self, relations: Relations, factors: Tensor | None = None) -> list[Terms]:
        """``terms`` as a list, each value times the factor of its anchor."""
        terms = self.terms(relations)
        parts = [terms] if isinstance(terms, Terms) else list(terms)
        if factors is None:
            return parts
        return [part._replace(values=part.values * factors) for part in parts]

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
        if labels is None and indices_tuple is None:
            raise BadInput(f"{type(self).__name__} needs labels")
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

    by_row: ClassVar[bool] = True
    """Whether an anchor's part reads its own row only, so that anchors may differ in candidates."""

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
    ) -> Relations:
        """Images x images."""
        comparison = self.label_comparison
        return relate(embeddings, labels, ref_emb, ref_labels, self.distance, comparison, own=own)

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """The same, by another distance where the miner has one."""
        assert relations.embeddings is not None
        rows, others = relations.embeddings.detach(), relations.ref_emb
        others = None if others is None else others.detach()
        similarity = relations.similarity.detach()
        if distance != self.distance:
            similarity = distance.similarity(rows, others)
        return relations._replace(similarity=similarity, embeddings=rows, ref_emb=others)

    def between_candidates(self, relations: Relations) -> Tensor:
        """The similarities of the candidates to one another."""
        if relations.ref_emb is None:
            return relations.similarity
        return self.distance.similarity(relations.ref_emb)
