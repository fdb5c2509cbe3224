"""The memory of ``pytorch_metric_learning.losses``: the one of Lookalike with PML's methods."""

from typing import Any

import torch
from torch import Tensor

from lookalike.memory import CrossBatchMemory as Memory

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
