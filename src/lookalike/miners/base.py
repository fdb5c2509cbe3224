"""What every miner is: embeddings and labels in, a mined value out, without gradient."""

from typing import ClassVar, TypedDict

import torch
from torch import Tensor, nn

from lookalike.distances import Distance, DistanceLike, LpDistance, create
from lookalike.labels import Labels
from lookalike.miners.mined import Mined
from lookalike.ops.autocast import autocast, autocast_enabled
from lookalike.relations import Relations, relate
from lookalike.signatures import show_options

__all__ = ["Miner", "MinerOptions"]


class MinerOptions(TypedDict, total=False):
    """What every miner takes beside its own arguments."""

    distance: DistanceLike | None


class Miner(nn.Module):
    """Chooses pairs or triplets; subclasses write ``mine(relations)``."""

    default_distance: ClassVar[type[Distance]] = LpDistance
    between_candidates: ClassVar[bool] = False
    """Whether the miner compares candidates with one another."""

    def __init__(self, distance: DistanceLike | None = None) -> None:
        super().__init__()
        self.distance = self.default_distance() if distance is None else create(distance)

    def __init_subclass__(cls) -> None:
        """Show the common options in the signature."""
        super().__init_subclass__()
        show_options(cls)

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Labels,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Mined:
        """The pairs or triplets of this batch (against ``ref_emb`` where given)."""
        if autocast_enabled(embeddings.device):
            with autocast(embeddings.device, enabled=False):
                return self(embeddings, labels, ref_emb, ref_labels)  # type: ignore[no-any-return]
        return self.mine(
            relate(
                embeddings,
                labels,
                ref_emb,
                ref_labels,
                self.distance,
                between_candidates=self.between_candidates,
            )
        )

    def mine(self, relations: Relations) -> Mined:
        """What to keep of these relations."""
        raise NotImplementedError
