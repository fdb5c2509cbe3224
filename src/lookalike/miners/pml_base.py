"""A miner of one's own, written as a subclass of PML's base."""

from typing import Any

import torch
from torch import Tensor, nn

from lookalike.distances import DistanceLike, LpDistance, create
from lookalike.distances.base import Distance
from lookalike.distances.statistics import Statistics
from lookalike.errors import BadInput

__all__ = ["BaseMiner"]


class BaseMiner(Statistics, nn.Module):
    """A miner by ``mine(embeddings, labels, ref_emb, ref_labels)``, as PML's subclasses write it.

    It returns three index tensors (triplets) or four (pairs), and runs in every loss and training
    step of ours. One that narrows ``Relations`` (``lookalike.miners.Miner``) waits for no device.

    Args:
        distance: How embeddings are compared; None: what ``get_default_distance`` gives.
        collect_stats: Accepted as PML's; only the numbers of pairs and triplets are kept.

    >>> class First(BaseMiner):
    ...     def mine(self, embeddings, labels, ref_emb, ref_labels):
    ...         first = torch.tensor([0])
    ...         return first, first + 1, first + 2
    >>> miner = First()
    >>> _ = miner(torch.eye(3), torch.tensor([0, 0, 1]))
    >>> miner.num_triplets
    1
    """

    def __init__(
        self,
        distance: DistanceLike | None = None,
        collect_stats: bool | None = None,
    ) -> None:
        super().__init__()
        self.distance = self.get_default_distance() if distance is None else create(distance)
        self.told_to_collect(collect_stats)
        self.num_pos_pairs = self.num_neg_pairs = self.num_triplets = 0

    def get_default_distance(self) -> Distance:
        """What ``distance=None`` means."""
        return LpDistance()

    def mine(
        self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor
    ) -> tuple[Tensor, ...]:
        """The indices of pairs or triplets."""
        raise NotImplementedError

    def add_to_recordable_attributes(self, *_: Any, **__: Any) -> None:
        """Nothing: PML's record keeper is not here."""

    def output_assertion(self, output: tuple[Tensor, ...]) -> None:
        """Count what was found, and refuse what is neither pairs nor triplets."""
        if len(output) not in (3, 4):
            raise BadInput(f"a miner returns 3 tensors (triplets) or 4 (pairs), not {len(output)}")
        self.num_pos_pairs = self.num_neg_pairs = self.num_triplets = 0
        if len(output) == 3:
            self.num_triplets = len(output[0])
        else:
            self.num_pos_pairs, self.num_neg_pairs = len(output[0]), len(output[2])

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """The pairs or triplets of a batch.

        Args:
            embeddings: [N, D], the anchors.
            labels: One per embedding.
            ref_emb: The candidates; None: the anchors.
            ref_labels: Their labels.

        Returns:
            What ``mine`` returned.
        """
        labels = labels.to(embeddings.device)
        if ref_emb is None or ref_labels is None:
            ref_emb, ref_labels = embeddings, labels
        found = self.mine(embeddings, labels, ref_emb, ref_labels.to(embeddings.device))
        self.output_assertion(found)
        return found
