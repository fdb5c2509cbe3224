"""``pytorch_metric_learning.utils.distributed``: one batch on several processes."""

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.adapter import as_loss
from lookalike.memory import CrossBatchMemory
from lookalike.miners.mined import Indices
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
            mask = None if enqueue_mask is None else _all(enqueue_mask)
            return self.loss(_all(embeddings), _all(labels), indices_tuple, mask)  # type: ignore[no-any-return]
        others = None if ref_emb is None else _all(ref_emb)
        of_others = None if ref_labels is None else _all(ref_labels)
        if not self.efficient or world_size() == 1:
            of_all = None if labels is None else _all(labels)
            return self.loss(_all(embeddings), of_all, indices_tuple, others, of_others)  # type: ignore[no-any-return]
        if indices_tuple is not None or others is not None:
            candidates, of_candidates = _candidates(embeddings, labels, others, of_others)
            return self.loss(embeddings, labels, indices_tuple, candidates, of_candidates)  # type: ignore[no-any-return]
        loss = as_loss(self.loss)
        start = _start(embeddings)
        itself = torch.arange(start, start + len(embeddings), device=embeddings.device)
        return loss.value(
            loss.relations(embeddings, labels, _all(embeddings), _all(labels), itself=itself)
        )


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
        others = None if ref_emb is None else _all(ref_emb)
        of_others = None if ref_labels is None else _all(ref_labels)
        if not self.efficient or world_size() == 1:
            return self.miner(_all(emb), _all(labels), others, of_others)  # type: ignore[no-any-return]
        candidates, of_candidates = _candidates(emb, labels, others, of_others)
        found = self.miner(emb, labels, candidates, of_candidates)
        if others is not None:
            return found  # type: ignore[no-any-return]
        # an image is no positive of its own copy among the candidates
        anchor, positive, *rest = found
        keep = positive != anchor + _start(emb)
        if len(rest) == 1:
            return anchor[keep], positive[keep], rest[0][keep]
        return anchor[keep], positive[keep], *rest


def _all(rows: Tensor | None) -> Tensor:
    """The rows of all processes."""
    if rows is None:
        raise BadInput("labels are needed")
    return gather_rows(rows)


def _candidates(
    rows: Tensor, labels: Labels | None, others: Tensor | None, of_others: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    if others is not None:
        return others, of_others
    return _all(rows), _all(labels if isinstance(labels, Tensor) else None)


def _start(rows: Tensor) -> int:
    """How many rows the processes before this one have."""
    number = torch.tensor([len(rows)], device=rows.device)
    return int(gather_rows(number)[: rank()].sum())
