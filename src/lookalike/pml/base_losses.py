"""What PML's losses have besides, and a loss of one's own, as a subclass of PML's bases."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import torch
from torch import Tensor

from lookalike.arguments import Built
from lookalike.distances import Distance, LpDistance
from lookalike.errors import BadInput
from lookalike.labels import Labels, as_tensor
from lookalike.losses import Loss, PairLoss
from lookalike.miners.mined import Indices, chosen_indices
from lookalike.ops.device import autocast
from lookalike.ops.rows import in_full_precision
from lookalike.pml.distances import distance_of
from lookalike.pml.reducers import as_loss_dict, reducer_of
from lookalike.pml.shipped import Shipped, as_pmls
from lookalike.pml.utils.loss_and_miner_utils import convert_to_pairs
from lookalike.reducers import Reducer
from lookalike.relations import Relations

__all__ = ["BaseMetricLossFunction", "GenericPairLoss"]


class OfLosses(Shipped, Loss):
    """PML's arguments, and the inner steps of its losses, which nothing calls."""

    hooks = (
        "compute_loss _compute_loss mat_based_loss pair_based_loss pos_calc neg_calc "
        "get_per_pair_loss compute_density compute_loss_with_labels compute_loss_without_labels "
        "compute_reg_loss get_pairs nca_computation initialize_beta variance_with_eps "
        "covariance_loss invariance_loss variance_loss sigmoid update_histogram weigh_loss "
        "init_margin get_cosine get_angles get_cos_with_margin get_target_mask "
        "modify_cosine_of_target_classes scale_logits cast_types get_default_weight_init_func "
        "embedding_regularization_loss add_embedding_regularization_to_loss_dict "
        "weight_regularization_loss add_weight_regularization_to_loss_dict "
        "regularization_loss_names all_regularization_loss_names sub_loss_names _sub_loss_names "
        "zero_loss zero_losses set_reducer reset_stats set_stats _assert_either_pos_or_neg"
    )
    instead = "write terms(relations), or subclass BaseMetricLossFunction"

    _: KW_ONLY
    distance: Built[Distance] = Built(distance_of)
    reducer: Built[Reducer] = Built(reducer_of)


class BaseMetricLossFunction(OfLosses, PairLoss):
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

    >>> class Gap(BaseMetricLossFunction):
    ...     def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
    ...         a, p, _, _ = convert_to_pairs(indices_tuple, labels, ref_labels)
    ...         values = self.distance(embeddings, ref_emb)[a, p]
    ...         entry = {"losses": values, "indices": (a, p), "reduction_type": "pos_pair"}
    ...         return {"loss": entry}
    >>> Gap()(torch.eye(2), torch.tensor([0, 0]))
    tensor(1.4142)
    """

    hooks = ""
    default_distance: ClassVar[Callable[[], Distance]] = LpDistance

    def compute_loss(
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
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

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Tensor:
        """The loss of a batch, in float32 at least; ``compute_loss`` says what it needs of it.

        Args:
            embeddings: [N, D], the images of the batch.
            labels: One per embedding.
            indices_tuple: What a miner returned, or index tensors of pairs or triplets.
            ref_emb: The candidates, where they are not the batch itself.
            ref_labels: Their labels.

        Returns:
            A scalar.
        """
        ref_emb = None if ref_emb is embeddings else ref_emb
        self.distance.check_shapes(embeddings, ref_emb)
        if not len(embeddings):
            return in_full_precision(embeddings).sum()
        with autocast(embeddings.device, enabled=False):
            rows = in_full_precision(embeddings)
            others = None if ref_emb is None else in_full_precision(ref_emb)
            blank = rows.new_zeros(()).expand(len(rows), len(rows if others is None else others))
            given = None if labels is None else as_tensor(labels, len(rows))
            of_others = None if ref_labels is None else as_tensor(ref_labels, blank.shape[1])
            relations = Relations(blank, blank, blank, None, rows, given, others, of_others)
            return self.loss_of(relations, indices_tuple)

    def total_loss(self, relations: Relations, mined: Relations | None = None) -> Tensor:
        """The loss of these relations, or of what a miner chose of them, a scalar."""
        return self.loss_of(relations, chosen_indices(relations, mined))

    def loss_of(self, relations: Relations, indices_tuple: Indices | None) -> Tensor:
        """The dictionary of ``compute_loss``, and the penalties, as a scalar."""
        embeddings, labels, ref_emb, ref_labels = as_pmls(relations)
        found = self.compute_loss(embeddings, labels, indices_tuple, ref_emb, ref_labels)
        penalties = as_loss_dict(self.penalties(relations))
        value: Tensor = self.reducer(found | penalties, embeddings, labels)  # type: ignore[operator]
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
        self, embeddings: Tensor, labels: Any, indices_tuple: Any, ref_emb: Tensor, ref_labels: Any
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
