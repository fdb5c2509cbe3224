"""What every miner is: relations in, narrowed relations out, without gradient."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, dataclass_transform

import torch
from torch import Tensor, nn

from lookalike.arguments import Built, declare_arguments, shown_arguments
from lookalike.distances import Distance, LpDistance, chosen_distance
from lookalike.labels import Comparison, Labels, agreement, comparison_of
from lookalike.miners.mined import Mined, from_indices
from lookalike.ops.device import autocast
from lookalike.relations import Relations, relate

__all__ = ["Miner"]


@dataclass_transform(eq_default=False)
class Miner(nn.Module):
    """Chooses pairs or triplets; subclasses write ``mine(relations)``.

    Args:
        distance: How embeddings are compared; None: the default of the miner.
        label_comparison: Which labels agree, where not only equal ones do: a function of two
            tensors that broadcast, ``jaccard``, or ``package.module:function``. None: in a training
            step as the loss says.
    """

    default_distance: ClassVar[Callable[[], Distance]] = LpDistance
    """What ``distance=None`` means."""
    needs: ClassVar[str] = ""
    """What the distance must be, one of the keys of ``distances.NEEDS``; empty: anything."""

    _: KW_ONLY
    distance: Built[Distance] = Built(chosen_distance)
    label_comparison: Built[Comparison | None] = Built(lambda _, given: comparison_of(given))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declare_arguments(cls)

    def __post_init__(self) -> None:
        """Nothing; subclasses check their settings here."""

    def extra_repr(self) -> str:
        """The settings, and the distance where it is not the default."""
        return shown_arguments(self)

    def mine(self, relations: Relations) -> Relations:
        """What to keep of these relations, images against images by ``self.distance``."""
        raise NotImplementedError

    @torch.no_grad()
    def choose(self, relations: Relations) -> Relations:
        """``mine``, of pairs that are positive or negative and nothing between."""
        r, compare = relations, self.label_comparison
        if compare is not None and r.labels is not None:
            others = r.labels if r.ref_labels is None else r.ref_labels
            same = agreement(r.labels, others, compare) > 0
            pairs = r.positives + r.negatives
            r = r.only(pairs * same, pairs * ~same)
        return self.mine(r.of_classes())

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
        self.distance.check_shapes(embeddings, None)
        rows, others = embeddings.detach(), None if ref_emb is None else ref_emb.detach()
        with autocast(embeddings.device, enabled=False):
            relations = relate(rows, labels, others, ref_labels, self.distance)
            return Mined(self.choose(relations))


declare_arguments(Miner)


class _OtherMiner(Miner):
    """A miner of another package: called with embeddings and labels, it returns index tensors."""

    module: nn.Module

    def mine(self, relations: Relations) -> Relations:
        """What it finds, without pairs of an image and its own copy."""
        r = relations
        references: tuple[Any, ...] = () if r.ref_emb is None else (r.ref_emb, r.ref_labels)
        chosen = from_indices(self.module(r.embeddings, r.labels, *references), r)
        pairs = ((r.positives + r.negatives) > 0).to(r.similarity.dtype)
        if chosen.triplets is None:
            return r.only(chosen.positives * pairs, chosen.negatives * pairs)
        weights = chosen.triplets.weights * chosen.at_pairs(pairs).unsqueeze(1)
        return r.only_triplets(chosen.triplets._replace(weights=weights))


def as_miner(module: nn.Module) -> Miner:
    """One of our miners as it is; one of another package in an adapter."""
    return module if isinstance(module, Miner) else _OtherMiner(module)
