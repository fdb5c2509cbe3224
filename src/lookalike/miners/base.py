"""What every miner is: relations in, narrowed relations out, without gradient."""

from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from lookalike.distances import Distance, DistanceLike, LpDistance, create
from lookalike.labels import Labels
from lookalike.miners.mined import Mined, from_indices
from lookalike.ops.autocast import autocast
from lookalike.registry import show_options
from lookalike.relations import Relations, relate

__all__ = ["Miner", "MinerOptions", "as_miner"]


class MinerOptions(TypedDict, total=False):
    """What every miner takes beside its own arguments."""

    distance: DistanceLike | None


class Miner(nn.Module):
    """Chooses pairs or triplets; subclasses write ``mine(relations)``.

    Args:
        distance: How images are compared; None: the default of the miner. If the loss has the same
            distance, the miner reads the loss's own similarities, otherwise it computes its own.
    """

    default_distance: ClassVar[type[Distance]] = LpDistance

    def __init__(self, distance: DistanceLike | None = None) -> None:
        super().__init__()
        self.distance = self.default_distance() if distance is None else create(distance)

    def __init_subclass__(cls) -> None:
        """Show the common options in the signature."""
        super().__init_subclass__()
        show_options(cls)

    def mine(self, relations: Relations) -> Relations:
        """What to keep of these relations, images against images by ``self.distance``."""
        raise NotImplementedError

    @torch.no_grad()
    def narrow(self, relations: Relations) -> Relations:
        """What to keep of a loss's relations, whatever its distance; also of those to proxies."""
        return self.mine(relations.of_images(self.distance))

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Labels,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Mined:
        """The pairs or triplets of a batch.

        Args:
            embeddings: [N, D], the anchors.
            labels: One per embedding.
            ref_emb: The candidates, where they are not the anchors.
            ref_labels: Their labels.

        Returns:
            What a loss takes as ``indices_tuple``.
        """
        with autocast(embeddings.device, enabled=False):
            relations = relate(embeddings, labels, ref_emb, ref_labels, self.distance)
            return Mined(self.narrow(relations))


class _OtherMiner(Miner):
    """A miner of another package: called with embeddings and labels, it returns index tensors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def mine(self, relations: Relations) -> Relations:
        """What it finds, without pairs of an image and its own copy."""
        r = relations
        references: tuple[Any, ...] = () if r.ref_emb is None else (r.ref_emb, r.ref_labels)
        found = self.module(r.embeddings, r.labels, *references)
        chosen = from_indices(found, len(r.similarity), r.similarity.shape[1], r.similarity)
        if chosen.triplets is not None:
            anchor, positive, negative, _ = chosen.triplets
            return r.only_triplets(anchor, positive, negative, r.valid[anchor, positive] > 0)
        return r.counted_pairs(chosen.positives * r.valid, chosen.negatives * r.valid)


def as_miner(module: nn.Module) -> Miner:
    """One of our miners as it is; one of another package (PML) in an adapter."""
    return module if isinstance(module, Miner) else _OtherMiner(module)
