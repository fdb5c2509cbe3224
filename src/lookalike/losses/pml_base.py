"""A loss of one's own, written as a subclass of PML's bases."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.distances import Distance, DistanceLike, LpDistance, create
from lookalike.distances.statistics import Statistics
from lookalike.errors import BadInput
from lookalike.labels import check_shape
from lookalike.miners.indices import convert_to_pairs
from lookalike.reducers import MeanReducer, Reducer
from lookalike.reducers.base import ReducerLike
from lookalike.reducers.base import build as build_reducer
from lookalike.regularizers.penalties import RegularizerLike, build

__all__ = ["BaseMetricLossFunction", "GenericPairLoss"]


class BaseMetricLossFunction(Statistics, nn.Module):
    """A loss by ``compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)``.

    As PML's subclasses write it: it returns ``{"loss": {"losses": values, "indices": where they
    stand, "reduction_type": "element", "pos_pair", "neg_pair", "triplet" or "already_reduced"}}``,
    which the reducer makes one number of. Works with every miner and distance of ours, and in
    training; a loss that reads ``Relations`` (``lookalike.losses.PairLoss``) gets memory and mixing
    too.

    Args:
        distance: How embeddings are compared; None: what ``get_default_distance`` gives.
        reducer: None: what ``get_default_reducer`` gives.
        embedding_regularizer: A penalty on the embeddings, or its name.
        embedding_reg_weight: The weight of that penalty.
        collect_stats: Accepted as PML's; no statistics are kept.

    >>> class Gap(BaseMetricLossFunction):
    ...     def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
    ...         a, p, _, _ = convert_to_pairs(indices_tuple, labels, ref_labels)
    ...         values = self.distance(embeddings, ref_emb)[a, p]
    ...         entry = {"losses": values, "indices": (a, p), "reduction_type": "pos_pair"}
    ...         return {"loss": entry}
    >>> Gap()(torch.eye(2), torch.tensor([0, 0]))
    tensor(1.4142)
    """

    def __init__(
        self,
        distance: DistanceLike | None = None,
        reducer: ReducerLike | None = None,
        embedding_regularizer: RegularizerLike | None = None,
        embedding_reg_weight: float = 1,
        collect_stats: bool | None = None,
    ) -> None:
        super().__init__()
        self.distance = self.get_default_distance() if distance is None else create(distance)
        self.reducer = self.get_default_reducer() if reducer is None else build_reducer(reducer)
        self.embedding_regularizer = build(embedding_regularizer)
        self.embedding_reg_weight = embedding_reg_weight
        self.told_to_collect(collect_stats)

    def get_default_distance(self) -> Distance:
        """What ``distance=None`` means."""
        return LpDistance()

    def get_default_reducer(self) -> Reducer:
        """What ``reducer=None`` means."""
        return MeanReducer()

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: Any,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> dict[str, Any]:
        """The values of the elements, as a dictionary."""
        raise NotImplementedError

    def add_to_recordable_attributes(self, *_: Any, **__: Any) -> None:
        """Nothing: PML's record keeper is not here."""

    def zero_loss(self) -> dict[str, Any]:
        """An entry that is 0."""
        return {"losses": 0, "indices": None, "reduction_type": "already_reduced"}

    def zero_losses(self) -> dict[str, Any]:
        """Entries that are 0, one for each of ``_sub_loss_names``."""
        return {name: self.zero_loss() for name in self._sub_loss_names()}

    def _sub_loss_names(self) -> list[str]:
        return ["loss"]

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: Any = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: [N, D].
            labels: One per embedding.
            indices_tuple: What a miner returned.
            ref_emb: The candidates; None: the batch itself.
            ref_labels: Their labels.

        Returns:
            A scalar.
        """
        if labels is not None:
            check_shape(tuple(labels.shape), len(embeddings))
            labels = labels.to(embeddings.device)
        if ref_emb is None:
            ref_emb, ref_labels = embeddings, labels
        elif ref_labels is not None:
            ref_labels = ref_labels.to(embeddings.device)
        found = self.compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        value = self.reducer(found, embeddings, labels)
        if self.embedding_regularizer is not None:
            penalty = self.embedding_reg_weight * self.embedding_regularizer(embeddings)
            value = self.reducer.add(value, "embedding_reg_loss", penalty)
        return value


class GenericPairLoss(BaseMetricLossFunction):
    """A loss by ``_compute_loss``, of a whole matrix or of pairs one by one.

    ``mat_based_loss``: ``_compute_loss(matrix, positive mask, negative mask)``; else
    ``_compute_loss(positive distances, negative distances, indices_tuple)``.

    Args:
        mat_based_loss: Which of the two.
        **kwargs: Those of ``BaseMetricLossFunction``.
    """

    def __init__(self, mat_based_loss: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loss_method = self.mat_based_loss if mat_based_loss else self.pair_based_loss

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: Any,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> dict[str, Any]:
        """By the matrix or by pairs."""
        if labels is None and indices_tuple is None:
            raise BadInput("labels and indices_tuple cannot both be None")
        chosen = convert_to_pairs(indices_tuple, labels, ref_labels)
        if all(len(part) <= 1 for part in chosen):
            return self.zero_losses()
        return self.loss_method(self.distance(embeddings, ref_emb), chosen)

    def _compute_loss(self, *_: Any) -> dict[str, Any]:
        raise NotImplementedError

    def mat_based_loss(self, mat: Tensor, indices_tuple: tuple[Tensor, ...]) -> dict[str, Any]:
        """Of the matrix, with a mask of positive pairs and one of negative pairs."""
        first, positive, second, negative = indices_tuple
        masks = torch.zeros_like(mat), torch.zeros_like(mat)
        masks[0][first, positive] = 1
        masks[1][second, negative] = 1
        return self._compute_loss(mat, *masks)

    def pair_based_loss(self, mat: Tensor, indices_tuple: tuple[Tensor, ...]) -> dict[str, Any]:
        """Of the positive and of the negative pairs; an empty list where there are none."""
        first, positive, second, negative = indices_tuple
        pulled: Any = mat[first, positive] if len(first) else []
        pushed: Any = mat[second, negative] if len(second) else []
        return self._compute_loss(pulled, pushed, indices_tuple)
