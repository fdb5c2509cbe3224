"""What every miner is: relations in, narrowed relations out, without gradient."""

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lookalike.distances import Distance, DistanceModule, LpDistance
from lookalike.labels import Comparison, Labels, comparison_of
from lookalike.miners.mined import Mined, from_indices, named_pairs, number_of_triplets
from lookalike.ops.autocast import autocast
from lookalike.relations import Relations, relate

__all__ = ["Miner", "as_miner"]


class Miner(DistanceModule):
    """Chooses pairs or triplets; subclasses write ``mine(relations)``.

    Called as PML's, with ``(embeddings, labels, ref_emb, ref_labels)``, ``mine`` gives what a call
    of the miner gives.

    If the loss has the same distance, the miner reads the loss's own similarities, otherwise it
    computes its own.

    Args:
        label_comparison: Which labels agree, where not only equal ones do: a function of two
            tensors that broadcast, or ``package.module:function``. None: in a training step as
            the loss says.
    """

    default_distance: ClassVar[Callable[[], Distance]] = LpDistance
    hardest_first: ClassVar[bool] = False
    """Whether index tuples of pairs start with the hardest pair; otherwise they go by anchor."""

    _: KW_ONLY
    label_comparison: Comparison | str | None = None

    def __init_subclass__(cls) -> None:
        """Let ``mine`` take PML's arguments too."""
        super().__init_subclass__()
        if "mine" in vars(cls):
            cls.mine = _also_of_embeddings(cls.mine)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Build the distance."""
        super().__post_init__()
        self.label_comparison = comparison_of(self.label_comparison)
        self.found: Relations | None = None

    def mine(self, relations: Relations) -> Relations:
        """What to keep of these relations, images against images by ``self.distance``."""
        raise NotImplementedError

    @torch.no_grad()
    def narrow(self, relations: Relations) -> Relations:
        """What to keep of a loss's relations, whatever its distance; also of those to proxies."""
        return self.mine(self._compared(relations.of_images(self.distance)))

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
        with autocast(embeddings.device, enabled=False):
            relations = relate(embeddings, labels, ref_emb, ref_labels, self.distance)
            found = self.mine(self._compared(relations))
        if found.triplets is not None:  # which say all: the matrices need not be kept
            blank = found.similarity.new_zeros(()).expand_as(found.similarity)
            found = Relations(blank, blank, blank, triplets=found.triplets, mined=True)
        # without the embeddings, whose graph must not outlive the step
        self.found = Relations(
            found.similarity,
            found.same,
            found.valid,
            triplets=found.triplets,
            condition=found.condition,
        )
        return Mined(found, hardest_first=self.hardest_first)

    def _compared(self, relations: Relations) -> Relations:
        """The relations by the labels' own comparison: for a miner a pair is positive or not."""
        if self.label_comparison is None:
            return relations
        found = relations.compared_by(comparison_of(self.label_comparison))
        return found._replace(same=(found.same > 0).to(found.similarity.dtype), binary=True)

    @property
    def num_triplets(self) -> int:
        """How many triplets the last call found; 0 where it found pairs."""
        if self.found is None or (self.found.triplets is None and self.found.condition is None):
            return 0
        return round(number_of_triplets(self.found).item())

    @property
    def num_pos_pairs(self) -> int:
        """How many positive pairs the last call found; 0 where it found triplets."""
        return self._number_of_pairs(0)

    @property
    def num_neg_pairs(self) -> int:
        """How many negative pairs the last call found; 0 where it found triplets."""
        return self._number_of_pairs(1)

    def _number_of_pairs(self, kind: int) -> int:
        if (
            self.found is None
            or self.found.triplets is not None
            or self.found.condition is not None
        ):
            return 0
        return round(named_pairs(self.found)[kind].sum().item())


def _also_of_embeddings(mine: Callable[..., Relations]) -> Callable[..., Any]:
    """A ``mine`` of relations that also takes ``(embeddings, labels, ref_emb, ref_labels)``."""

    @functools.wraps(mine)
    def either(self: Miner, relations: Relations | Tensor, *others: Any) -> Any:
        if isinstance(relations, Relations):
            return mine(self, relations)
        return self.forward(relations, *others)

    return either


class _OtherMiner(Miner):
    """A miner of another package: called with embeddings and labels, it returns index tensors."""

    module: nn.Module

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
