"""Cross-batch memory, XBM (Wang et al., CVPR 2020)."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import as_tensor
from lookalike.losses import Loss, ProxyLoss
from lookalike.losses.wrappers import as_loss
from lookalike.miners.base import as_miner
from lookalike.miners.mined import Indices, merge_mined
from lookalike.ops.device import autocast
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.relations import Relations

__all__ = ["CrossBatchMemory", "EmbeddingMemory"]


class EmbeddingMemory(nn.Module):
    """The last ``memory_size`` embeddings with their labels, as further candidates.

    Each batch goes into the memory, without gradient, and is then compared with all of it; an
    image is not compared with its own copy. The memory is filled from the first batch on, but read
    only after ``start`` batches: until then the relations are those of the batch alone. Candidates
    stored a few hundred steps ago still fit when the network changes slowly, which it does not at
    first. The state is in the state dict.

    Args:
        embedding_size: The dimension of the embeddings.
        memory_size: How many embeddings are kept.
        start: For how many batches the memory is only filled.
    """

    embedding_memory: Tensor
    label_memory: Tensor

    def __init__(self, embedding_size: int, memory_size: int = 1024, start: int = 0) -> None:
        super().__init__()
        self.embedding_size = embedding_size
        self.memory_size = memory_size
        self.start = start
        self.batches = 0
        self.seen = 0  # numbers of the host: knowing what is filled must not wait for the device
        self.register_buffer("embedding_memory", torch.zeros(memory_size, embedding_size))
        self.register_buffer("label_memory", torch.zeros(memory_size, dtype=torch.long))

    def __len__(self) -> int:
        """How many embeddings are in the memory."""
        return min(self.seen, self.memory_size)

    def get_extra_state(self) -> Tensor:
        """The counters, as a tensor: checkpoints hold nothing else."""
        return torch.tensor([self.batches, self.seen])

    def set_extra_state(self, state: Tensor) -> None:
        """Put the counters back."""
        self.batches, self.seen = (int(number) for number in state)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(f"{prefix}embedding_memory", self.embedding_memory)
        # a run in float64 has float64
        self.embedding_memory = self.embedding_memory.to(saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_queue(self) -> None:
        """Forget everything."""
        self.batches = self.seen = 0
        self.embedding_memory = torch.zeros_like(self.embedding_memory)
        self.label_memory = torch.zeros_like(self.label_memory)

    def relations(
        self,
        loss: Loss,
        embeddings: Tensor,
        labels: Tensor,
        *,
        enqueue_mask: Tensor | None = None,
    ) -> Relations:
        """What ``loss`` reads of a batch and the memory, in which the batch is put first.

        Labels are kept and compared where they come from: those of a loader stay on the CPU.

        Args:
            loss: A loss.
            embeddings: [N, D].
            labels: Class indices [N].
            enqueue_mask: [N] which rows go into the memory; the others are then the anchors, and
                have no copies in it (as in MoCo, where the two come from two networks). None: all
                rows are both.

        Returns:
            Relations of the batch to the memory.
        """
        check_rows(embeddings, self.embedding_memory.shape[1])
        labels = as_tensor(labels, embeddings.shape[0])
        if labels.ndim != 1:
            raise BadInput("the memory needs one class index per embedding, not multi-hot rows")
        self.batches += 1
        stored = (embeddings, labels)
        if enqueue_mask is not None:
            of_labels = enqueue_mask.to(labels.device)
            stored = (embeddings[enqueue_mask], labels[of_labels])
            embeddings, labels = embeddings[~enqueue_mask], labels[~of_labels]
        slots = self._enqueue(*stored)
        if self.batches <= self.start:
            return loss.relations(embeddings, labels)
        return loss.relations(
            embeddings,
            labels,
            self.embedding_memory[: len(self)],
            self.label_memory[: len(self)],
            own=slots if enqueue_mask is None else None,
        )

    @torch.no_grad()
    def _enqueue(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Put a batch over the oldest entries; where it lies now."""
        size = embeddings.shape[0]
        if size > self.memory_size:
            raise BadInput(f"a memory of {self.memory_size} cannot hold a batch of {size}")
        rows = in_full_precision(embeddings)
        self.embedding_memory = self.embedding_memory.to(rows.device, rows.dtype)
        self.label_memory = self.label_memory.to(labels.device)
        slots = (torch.arange(size) + self.seen) % self.memory_size
        self.embedding_memory.index_copy_(0, slots.to(rows.device, non_blocking=True), rows)
        labels = labels.to(self.label_memory.dtype)
        self.label_memory.index_copy_(0, slots.to(labels.device), labels)
        self.seen += size
        return slots


class CrossBatchMemory(EmbeddingMemory):
    """A loss that compares each batch with the last ``memory_size`` embeddings.

    For a loss over images they are the candidates; for one with proxies they are further images.

    Args:
        loss: Any loss, ours or another package's.
        embedding_size: The dimension of the embeddings.
        memory_size: How many embeddings are kept.
        miner: Any miner; it chooses from the memory.
        start: For how many batches the memory is only filled.

    >>> from lookalike.losses import ContrastiveLoss
    >>> loss = CrossBatchMemory(ContrastiveLoss(), embedding_size=2, memory_size=8)
    >>> loss(torch.eye(2), torch.tensor([0, 1])), len(loss)
    (tensor(0.), 2)
    """

    def __init__(
        self,
        loss: nn.Module,
        embedding_size: int,
        memory_size: int = 1024,
        miner: nn.Module | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(embedding_size, memory_size, start)
        self.loss = as_loss(loss)
        self.miner = None if miner is None else as_miner(miner)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: Indices | None = None,
        enqueue_mask: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch against the memory.

        Args:
            embeddings: [N, D].
            labels: Class indices [N].
            indices_tuple: Pairs or triplets that count beside those of the memory, or of the miner:
                indices of the batch and of the memory.
            enqueue_mask: [N] which rows go into the memory; the others are then the anchors.

        Returns:
            A scalar.
        """
        if indices_tuple is not None and enqueue_mask is not None:
            raise BadInput("a memory takes indices_tuple or enqueue_mask, not both")
        with autocast(embeddings.device, enabled=False):
            relations = self.relations(self.loss, embeddings, labels, enqueue_mask=enqueue_mask)
            mined = None
            if self.miner is not None:
                images = self.loss.image_relations(relations, self.miner.distance)
                mined = self.miner.choose(images)
            if indices_tuple is not None:
                if isinstance(self.loss, ProxyLoss):
                    raise BadInput("a loss with learned vectors takes no indices of the memory")
                mined = merge_mined(relations if mined is None else mined, indices_tuple)
            return self.loss.total_loss(relations, mined)
