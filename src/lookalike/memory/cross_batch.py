"""Cross-batch memory, XBM (Wang et al., CVPR 2020)."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import as_tensor
from lookalike.losses.base import Loss, PairLoss
from lookalike.miners.base import Miner
from lookalike.miners.mined import Gaps, Indices, Listed, Mined, Pairs, mined
from lookalike.ops.autocast import autocast
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.relations import relate

__all__ = ["CrossBatchMemory", "refuse_unless_paired"]


class CrossBatchMemory(nn.Module):
    """A loss over pairs or triplets whose candidates are the last ``memory_size`` embeddings.

    Each batch goes into the memory, without gradient, and is then compared with all of it; an
    image is not compared with its own copy. The memory is filled from the first batch on, but read
    only after ``start`` batches: until then the loss is that of the batch alone. Candidates stored
    a few hundred steps ago still fit when the network changes slowly, which it does not at first.

    ``loss`` is any loss over images (ours, or one of PML's), ``miner`` any miner; it chooses from
    the memory. The state is in the state dict.

    >>> from lookalike.losses import ContrastiveLoss
    >>> loss = CrossBatchMemory(ContrastiveLoss(), embedding_size=2, memory_size=8)
    >>> loss(torch.eye(2), torch.tensor([0, 1])), len(loss)
    (tensor(0.), 2)
    """

    embedding_memory: Tensor
    label_memory: Tensor

    def __init__(
        self,
        loss: nn.Module,
        embedding_size: int,
        memory_size: int = 1024,
        miner: nn.Module | None = None,
        start: int = 0,
    ) -> None:
        super().__init__()
        refuse_unless_paired(type(loss))
        self.loss = loss
        self.miner = miner
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
        self.embedding_memory = self.embedding_memory.to(
            saved.dtype
        )  # a run in float64 has float64
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_queue(self) -> None:
        """Forget everything."""
        self.batches = self.seen = 0

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, enqueue_mask: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch against the memory.

        ``enqueue_mask`` says which rows go into the memory; the others are then the anchors, and
        there are no copies to leave out (as in MoCo, where the two come from two networks).
        """
        check_rows(embeddings, self.embedding_memory.shape[1])
        labels = as_tensor(labels, embeddings.shape[0]).to(embeddings.device)
        if labels.ndim != 1:
            raise BadInput("the memory needs one class index per embedding, not multi-hot rows")
        self.batches += 1
        stored = (embeddings, labels)
        if enqueue_mask is not None:
            stored = (embeddings[enqueue_mask], labels[enqueue_mask])
            embeddings, labels = embeddings[~enqueue_mask], labels[~enqueue_mask]
        slots = self._enqueue(*stored)
        if self.batches <= self.start:
            found = None if self.miner is None else self.miner(embeddings, labels)
            return self.loss(embeddings, labels, found)  # type: ignore[no-any-return]
        candidates, classes = self.embedding_memory[: len(self)], self.label_memory[: len(self)]
        others = candidates.new_ones(embeddings.shape[0], len(self))
        if enqueue_mask is None:
            others.scatter_(1, slots.unsqueeze(1), 0)
        return self._compared(embeddings, labels, candidates, classes, others)

    @torch.no_grad()
    def _enqueue(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Put a batch over the oldest entries; where it lies now."""
        size = embeddings.shape[0]
        if size > self.memory_size:
            raise BadInput(f"a memory of {self.memory_size} cannot hold a batch of {size}")
        rows = in_full_precision(embeddings)
        self.embedding_memory = self.embedding_memory.to(rows.device, rows.dtype)
        self.label_memory = self.label_memory.to(rows.device)
        slots = (torch.arange(size, device=rows.device) + self.seen) % self.memory_size
        self.embedding_memory.index_copy_(0, slots, rows)
        self.label_memory.index_copy_(0, slots, labels.to(self.label_memory.dtype))
        self.seen += size
        return slots

    def _compared(
        self,
        embeddings: Tensor,
        labels: Tensor,
        candidates: Tensor,
        classes: Tensor,
        others: Tensor,
    ) -> Tensor:
        loss: Any = self.loss
        found = None
        if self.miner is not None:
            found = mine(self.miner, embeddings, labels, candidates, classes, others)
        if isinstance(loss, PairLoss):
            valid = None if loss.self_pairs else others
            return loss(embeddings, labels, found, candidates, classes, valid=valid)  # type: ignore[no-any-return]
        if found is None:
            same = labels.unsqueeze(1) == classes
            found = Pairs(same & (others > 0), ~same, once=True)
        value: Tensor = loss(embeddings, labels, found, candidates, classes)
        return value


def refuse_unless_paired(build: object) -> None:
    """Refuse a loss that compares images with learned vectors: it has no candidates to add."""
    if isinstance(build, type) and issubclass(build, Loss) and not issubclass(build, PairLoss):
        raise BadInput(
            f"{build.__name__} compares images with learned vectors; a memory of images is for "
            "losses over pairs and triplets"
        )


def mine(
    miner: nn.Module,
    embeddings: Tensor,
    labels: Tensor,
    candidates: Tensor,
    classes: Tensor,
    others: Tensor,
) -> Mined:
    """What a miner finds in the memory; no image with its own copy (``others`` is 0 there)."""
    if isinstance(miner, Miner) and type(miner).forward is Miner.forward:
        # hide the copies before it looks: one that wants near positives would find only them
        with torch.no_grad(), autocast(embeddings.device, enabled=False):
            relations = relate(
                embeddings,
                labels,
                candidates,
                classes,
                miner.distance,
                between_candidates=miner.between_candidates,
            )
            valid = others.to(relations.similarity.dtype)
            return miner.mine(relations._replace(valid=valid, all_valid=False))
    found: Indices = miner(embeddings, labels, candidates, classes)
    shape = (others.shape[0], others.shape[1])
    return without_copies(mined(found, shape, others.device), labels, classes, others)


def without_copies(found: Mined, labels: Tensor, classes: Tensor, others: Tensor) -> Mined:
    """What was found, less the positive pairs of an image with its own copy.

    A triplet whose negative is of the anchor's class stays: rho-regularisation means the copy.
    """
    if isinstance(found, Gaps):
        return Gaps(found.positive * others, found.negative, found.gap, found.distance)
    if isinstance(found, Listed):
        keep = others[found.anchor, found.positive] > 0
        keep |= labels[found.anchor] == classes[found.negative]
        if found.keep is not None:
            keep &= found.keep
        return Listed(found.anchor, found.positive, found.negative, keep, found.shape)
    positive, negative = found.pairs()
    return Pairs(positive * others.to(torch.float32), negative, once=found.once)
