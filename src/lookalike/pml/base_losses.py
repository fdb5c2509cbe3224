"""A loss of one's own, written as a subclass of PML's bases."""

from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor

from lookalike.arguments import Built
from lookalike.distances import Distance
from lookalike.errors import BadInput
from lookalike.losses import PairLoss
from lookalike.miners.mined import index_tuple
from lookalike.pml.distances import LpDistance, distance_of
from lookalike.pml.loss_dict import as_loss_dict, as_pmls
from lookalike.pml.reducers import reducer_of
from lookalike.pml.shipped import Shipped, no_statistics
from lookalike.pml.utils.loss_and_miner_utils import convert_to_pairs
from lookalike.relations import Relations

__all__ = ["BaseMetricLossFunction", "GenericPairLoss"]


class BaseMetricLossFunction(Shipped, PairLoss):
    """A loss by ``compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)``.

    As PML's subclasses write it: it returns ``{"loss": {"losses": values, "indices": where they
    stand, "reduction_type": "element", "pos_pair", "neg_pair", "triplet" or "already_reduced"}}``,
    which the reducer makes one number of. Works with every miner and distance of ours, in training
    and in a memory; a loss that reads ``Relations`` (``lookalike.losses.PairLoss``) gets mixing
    too, and compares the batch only once.

    Args:
        distance: How embeddings are compared; None: what ``get_default_distance`` gives.
        reducer: None: what ``get_default_reducer`` gives.
        embedding_regularizer: A penalty on the embeddings, or its name.
        embedding_reg_weight: The weight of that penalty.
        collect_stats: True is refused: no statistics are kept.

    >>> class Gap(BaseMetricLossFunction):
    ...     def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
    ...         a, p, _, _ = convert_to_pairs(indices_tuple, labels, ref_labels)
    ...         values = self.distance(embeddings, ref_emb)[a, p]
    ...         entry = {"losses": values, "indices": (a, p), "reduction_type": "pos_pair"}
    ...         return {"loss": entry}
    >>> Gap()(torch.eye(2), torch.tensor([0, 0]))
    tensor(1.4142)
    """

    reads = "triplets"
    hooks = (
        "add_embedding_regularization_to_loss_dict all_regularization_loss_names sub_loss_names "
        "embedding_regularization_loss regularization_loss_names reset_stats set_reducer "
        "_assert_either_pos_or_neg"
    )
    instead = "write compute_loss, or terms(relations) in a lookalike.losses.PairLoss"
    default_distance = LpDistance

    _: KW_ONLY
    distance: Built[Distance] = Built(distance_of)
    reducer: Built[Any] = Built(reducer_of)
    collect_stats: Built[None] = Built(no_statistics)

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

    def zero_loss(self) -> dict[str, Any]:
        """An entry that is 0."""
        return {"losses": 0, "indices": None, "reduction_type": "already_reduced"}

    def zero_losses(self) -> dict[str, Any]:
        """Entries that are 0, one for each of ``_sub_loss_names``."""
        return {name: self.zero_loss() for name in self._sub_loss_names()}

    def _sub_loss_names(self) -> list[str]:
        return ["loss"]

    def total_loss(self, relations: Relations, mined: Relations | None = None) -> Tensor:
        """The loss of these relations, or of what a miner chose of them, a scalar."""
        r, chosen = relations, None
        embeddings, labels, ref_emb, ref_labels = as_pmls(r)
        if mined is not None:
            chosen = index_tuple(mined)
        elif not r.self_comparison and not bool(((r.positives + r.negatives) > 0).all()):
            chosen = index_tuple(r)  # its own copy in a memory is no pair of an image
        found = self.compute_loss(embeddings, labels, chosen, ref_emb, ref_labels)
        value: Tensor = self.reducer(found | as_loss_dict(self.penalties(r)), embeddings, labels)
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
