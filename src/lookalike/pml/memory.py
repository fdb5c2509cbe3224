"""The memory of ``pytorch_metric_learning.losses``: the one of Lookalike with PML's methods."""

from typing import Any

import torch
from torch import Tensor

from lookalike.memory import CrossBatchMemory as Memory
from lookalike.miners.mined import Indices
from lookalike.pml.utils.loss_and_miner_utils import (
    convert_to_pairs,
    convert_to_triplets,
    get_all_pairs_indices,
)

__all__ = ["CrossBatchMemory"]


class CrossBatchMemory(Memory):
    """A loss that compares each batch with the last ``memory_size`` embeddings.

    ``lookalike.memory.CrossBatchMemory`` with what code written against PML calls on it.
    """

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        counters = f"{prefix}_extra_state"
        if counters not in state_dict and counters in rest[2]:
            rest[2].remove(counters)  # PML's memory has none, and starts at the first slot again

    @property
    def queue_idx(self) -> int:
        """The slot of the next embedding."""
        return self.seen % self.memory_size

    @property
    def has_been_filled(self) -> bool:
        """Whether every slot has been written to."""
        return self.seen >= self.memory_size

    def add_to_memory(self, embeddings: Tensor, labels: Tensor, batch_size: int) -> None:  # noqa: ARG002
        """Put a batch over the oldest entries, in the slots ``curr_batch_idx``."""
        self._enqueue(embeddings, labels)

    @torch.no_grad()
    def _enqueue(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        slots = super()._enqueue(embeddings, labels)
        self.curr_batch_idx = slots.to(embeddings.device)
        return slots

    def create_indices_tuple(
        self,
        embeddings: Tensor,
        labels: Tensor,
        E_mem: Tensor,
        L_mem: Tensor,
        input_indices_tuple: Indices | None,
        do_remove_self_comparisons: bool,
    ) -> tuple[Tensor, ...]:
        """The pairs or triplets of a batch and a memory, as PML's index tensors.

        To look at them: ``forward`` works with relations, and does not call this method.

        Args:
            embeddings: [N, D].
            labels: Class indices [N].
            E_mem: [M, D], the embeddings of the memory.
            L_mem: [M], their labels.
            input_indices_tuple: Pairs or triplets that count too.
            do_remove_self_comparisons: Whether to leave out the pairs of an image of the last batch
                and its copy in the memory.

        Returns:
            Three index tensors where the miner finds triplets, otherwise four.
        """
        if self.miner is None:
            found: tuple[Tensor, ...] = get_all_pairs_indices(labels, L_mem)
        else:
            found = tuple(self.miner(embeddings, labels, E_mem, L_mem))
        if do_remove_self_comparisons:
            anchor, positive = found[:2]
            others = positive != self.curr_batch_idx[anchor]
            with_positive = 3 if len(found) == 3 else 2
            found = (*(part[others] for part in found[:with_positive]), *found[with_positive:])
        if input_indices_tuple is None:
            return found
        convert = convert_to_triplets if len(found) == 3 else convert_to_pairs
        more = convert(input_indices_tuple, labels)
        return tuple(torch.cat(parts) for parts in zip(found, more, strict=True))
