"""Batches that are triplets already."""

import torch

from lookalike.errors import BadInput
from lookalike.miners.base import Miner
from lookalike.relations import Relations

__all__ = ["EmbeddingsAlreadyPackagedAsTriplets"]


class EmbeddingsAlreadyPackagedAsTriplets(Miner):
    """The triplets that a batch holds in order: anchor, positive, negative, anchor, and so on."""

    def mine(self, relations: Relations) -> Relations:
        """Every third image and the two that follow it."""
        size = relations.similarity.shape[0]
        if size % 3:
            raise BadInput(f"a batch of {size} does not consist of triplets")
        if relations.ref_emb is not None:
            raise BadInput("the triplets of a batch know no ref_emb")
        first = torch.arange(0, size, 3, device=relations.similarity.device)
        return relations.only_triplets(first, first + 1, first + 2)
