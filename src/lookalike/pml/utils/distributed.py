"""``pytorch_metric_learning.utils.distributed``: one batch on several processes."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.losses.wrappers import as_loss
from lookalike.memory import CrossBatchMemory
from lookalike.miners.base import as_miner
from lookalike.miners.mined import Indices, Mined
from lookalike.relations import relate
from lookalike.training.distributed.gather import gather_rows
from lookalike.training.distributed.ranks import rank, world_size

__all__ = ["DistributedLossWrapper", "DistributedMinerWrapper"]


class DistributedLossWrapper(nn.Module):
    """The loss of the batches of all processes, of which each passes its own.

    Under DistributedDataParallel, which averages gradients over processes, network and loss get
    exactly the gradient that one process with the whole batch would have; the value is the loss of
    the whole batch in every process (PML's is that times the number of processes). Rows are in
    order of the processes.

    Args:
        loss: Any loss, or ``CrossBatchMemory``.
        efficient: Whether each process takes only its own rows as anchors, and all as candidates.
            Its value is then that of its own anchors.
    """

    def __init__(self, loss: nn.Module, efficient: bool = False) -> None:
        super().__init__()
        if efficient and isinstance(loss, CrossBatchMemory):
            raise BadInput("efficient=True does not work with CrossBatchMemory")
        self.loss = loss
        self.efficient = efficient

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        enqueue_mask: Tensor | None = None,
    ) -> Tensor:
        """The loss of the whole batch.

        Args:
            embeddings: [N, D], those of this process.
            labels: Their labels.
            indices_tuple: Of the whole batch: what a ``DistributedMinerWrapper`` returned.
            ref_emb: The candidates of this process, where they are not its embeddings.
            ref_labels: Their labels.
            enqueue_mask: For ``CrossBatchMemory``: which rows of this process go into the memory.

        Returns:
            A scalar.
        """
        if isinstance(self.loss, CrossBatchMemory):
            if ref_emb is not None or ref_labels is not None:
                raise BadInput("CrossBatchMemory takes no ref_emb")
            mask = _all(enqueue_mask)
            return self.loss(_all(embeddings), _all(labels), indices_tuple, mask)  # type: ignore[no-any-return]
        others = _all(ref_emb), _all(ref_labels)
        if not self.efficient or world_size() == 1:
            return self.loss(_all(embeddings), _all(labels), indices_tuple, *others)  # type: ignore[no-any-return]
        if ref_emb is not None:
            return self.loss(embeddings, labels, indices_tuple, *others)  # type: ignore[no-any-return]
        others = _all(embeddings), _all(labels)
        if indices_tuple is not None:
            return self.loss(embeddings, labels, indices_tuple, *others)  # type: ignore[no-any-return]
        loss = as_loss(self.loss)
        relations = loss.relations(embeddings, labels, *others, own=_places(embeddings))
        return loss.total_loss(relations)


class DistributedMinerWrapper(nn.Module):
    """What a miner finds in the batches of all processes.

    Args:
        miner: Any miner.
        efficient: Whether the anchors are those of this process only.
    """

    def __init__(self, miner: nn.Module, efficient: bool = False) -> None:
        super().__init__()
        self.miner = miner
        self.efficient = efficient

    @torch.no_grad()
    def forward(
        self,
        emb: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Indices:
        """Pairs or triplets of the whole batch.

        Args:
            emb: [N, D], those of this process.
            labels: Their labels.
            ref_emb: The candidates of this process, where they are not its embeddings.
            ref_labels: Their labels.

        Returns:
            What ``DistributedLossWrapper`` takes as ``indices_tuple``.
        """
        others = _all(ref_emb), _all(ref_labels)
        if not self.efficient or world_size() == 1:
            return self.miner(_all(emb), _all(labels), *others)  # type: ignore[no-any-return]
        if ref_emb is not None:
            return self.miner(emb, labels, *others)  # type: ignore[no-any-return]
        miner, others = as_miner(self.miner), (_all(emb), _all(labels))
        own, distance = _places(emb), miner.distance
        relations = relate(emb, labels, *others, distance, own=own)
        return Mined(miner.choose(relations))


def _all(rows: Tensor | None) -> Any:
    """The rows of all processes; None: None."""
    return None if rows is None else gather_rows(rows)


def _places(rows: Tensor) -> Tensor:
    """Where the rows of this process are among those of all."""
    number = torch.tensor([len(rows)], device=rows.device)
    start = int(gather_rows(number)[: rank()].sum())
    return torch.arange(start, start + len(rows), device=rows.device)
