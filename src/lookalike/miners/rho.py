"""rho-regularisation: now and then, push a class apart."""

from typing import Any

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.miners.base import Miner
from lookalike.miners.mined import Gaps, Listed, Mined
from lookalike.ops.pairs import picked
from lookalike.registry import MINERS
from lookalike.relations import relate

__all__ = ["RhoMiner"]


@MINERS.register("rho", paper="Roth et al., ICML 2020")
class RhoMiner(Miner):
    """With a probability, replaces a triplet by one that keeps the spread inside the class.

    The replaced triplet is (anchor, the anchor itself, another image of its class), so the class
    is pushed apart a little. ``miner`` is any miner of triplets, or its name (its arguments come
    as ``settings``). With ``ref_emb`` "itself" is the nearest candidate of its class.
    """

    def __init__(
        self,
        miner: Miner | str = "distance-weighted",
        probability: float = 0.2,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise BadInput(f"probability is {probability}; it must be from 0 to 1")
        made = MINERS.create(miner, **(settings or {})) if isinstance(miner, str) else miner
        self.miner: Miner = made
        self.probability = probability

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Labels,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Mined:
        """The triplets of the inner miner, some of them replaced."""
        found = self.miner(embeddings, labels, ref_emb, ref_labels)
        if isinstance(found, Gaps):
            found = found.listed()
        if not isinstance(found, Listed):
            raise BadInput(
                f"rho needs a miner of triplets; {type(self.miner).__name__} finds pairs "
                "(use semi-hard, hard, random or distance-weighted)"
            )
        relations = relate(embeddings, labels, ref_emb, ref_labels, self.distance)
        same = relations.positives
        if relations.self_comparison:
            itself = torch.arange(same.shape[0], device=same.device)
        else:
            itself = (relations.similarity + (same.ceil() - 1) * 1e30).argmax(1)
            same = same.scatter(1, itself.unsqueeze(1), 0)
        classmates, number = _columns_of(same > 0)
        rows = found.anchor
        which = (torch.rand(rows.shape, device=rows.device) * number[rows]).long()
        classmate = picked(classmates, rows, which)
        replaced = torch.rand(rows.shape, device=rows.device) < self.probability
        replaced &= number[rows] > 0
        return Listed(
            rows,
            torch.where(replaced, itself[rows], found.positive),
            torch.where(replaced, classmate, found.negative),
            found.keep,
            found.shape,
        )


def _columns_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The columns that are True, first in each row, and how many they are."""
    height, width = mask.shape
    place = torch.where(mask, mask.cumsum(1) - 1, width)
    columns = torch.arange(width, device=mask.device).expand(height, width)
    listed = torch.zeros(height, width + 1, dtype=torch.long, device=mask.device)
    return listed.scatter_(1, place, columns), mask.sum(1)
