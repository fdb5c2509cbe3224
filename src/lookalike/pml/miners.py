"""``pytorch_metric_learning.miners``: everything of ``lookalike.miners``, called as PML's."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import torch
from torch import Tensor

from lookalike import miners as core
from lookalike.arguments import Built
from lookalike.distances import Distance
from lookalike.errors import BadInput
from lookalike.miners import *
from lookalike.miners.base import as_miner
from lookalike.miners.mined import index_tuple
from lookalike.pml.distances import distance_of
from lookalike.pml.shipped import Shipped, as_pmls, ship
from lookalike.relations import Relations, relate


class _OfMiners(Shipped, Miner):
    hooks = (
        "output_assertion filter_by_bin filter_original_indices get_bins get_func_for_stats "
        "get_max_per_row get_min_per_row get_mine_function get_negatives get_positives "
        "get_uniformly_distributed_pairs get_x_per_row reset_stats set_idx set_stats "
        "should_select_largest"
    )
    instead = "write mine(embeddings, labels, ref_emb, ref_labels), or subclass BaseMiner"
    _: KW_ONLY
    distance: Built[Distance] = Built(distance_of)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls.mine, "takes_both"):
            cls.mine = _either(cls.mine)  # type: ignore[method-assign]

    @torch.no_grad()
    def choose(self, relations: Relations) -> Relations:
        """What was chosen; it is remembered without the embeddings, for its number."""
        found = super().choose(relations)
        self.found = found._replace(embeddings=None, ref_emb=None)
        return found

    @property
    def num_triplets(self) -> int:
        """How many triplets the last call found; 0 where it found pairs."""
        return self._number(3, 0)

    @property
    def num_pos_pairs(self) -> int:
        """How many positive pairs the last call found; 0 where it found triplets."""
        return self._number(4, 0)

    @property
    def num_neg_pairs(self) -> int:
        """How many negative pairs the last call found; 0 where it found triplets."""
        return self._number(4, 2)

    def _number(self, parts: int, part: int) -> int:
        found = index_tuple(self.found) if hasattr(self, "found") else ()
        return len(found[part]) if len(found) == parts else 0


def _either(mine: Callable[..., Any]) -> Callable[..., Any]:
    """A ``mine`` of relations or of PML's arguments, whichever it is written for, for both."""
    of_relations = len(inspect.signature(mine).parameters) == 2

    @functools.wraps(mine)
    def either(self: Miner, given: Relations | Tensor, *others: Any) -> Any:
        if isinstance(given, Relations) == of_relations:
            return mine(self, given, *others)
        if isinstance(given, Relations):
            return as_miner(lambda *_: mine(self, *as_pmls(given))).mine(given)  # type: ignore[arg-type]
        labels, ref_emb, ref_labels = (*others, None, None, None)[:3]
        ref_labels = None if ref_emb is given else ref_labels
        relations = relate(given, labels, ref_emb, ref_labels, self.distance)
        return Mined(mine(self, relations.of_classes()))

    vars(either)["takes_both"] = True
    return either


class BaseMiner(_OfMiners):
    """A miner by ``mine(embeddings, labels, ref_emb, ref_labels)``, as PML's subclasses write it.

    It returns three index tensors (triplets) or four (pairs), and runs in every loss and training
    step of ours. One that narrows ``Relations`` (``lookalike.miners.Miner``) waits for no device.

    Args:
        distance: How embeddings are compared; None: what ``get_default_distance`` gives.

    >>> class First(BaseMiner):
    ...     def mine(self, embeddings, labels, ref_emb, ref_labels):
    ...         first = torch.tensor([0])
    ...         return first, first + 1, first + 2
    >>> miner = First()
    >>> _ = miner(torch.eye(3), torch.tensor([0, 0, 1]))
    >>> miner.num_triplets
    1
    """


class EmbeddingsAlreadyPackagedAsTriplets(BaseMiner):
    """The triplets that a batch holds in order: anchor, positive, negative, anchor, and so on."""

    def mine(self, embeddings: Tensor, labels: Any, ref_emb: Any, ref_labels: Any) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Every third image and the two that follow it."""
        if len(embeddings) % 3:
            raise BadInput(f"a batch of {len(embeddings)} does not consist of triplets")
        if ref_emb is not embeddings:
            raise BadInput("the triplets of a batch know no ref_emb")
        return torch.arange(len(embeddings), device=embeddings.device).view(-1, 3).unbind(1)


class HDCMiner(core.HDCMiner):  # type: ignore[no-redef]
    """The hardest share of all pairs; index tuples start with the hardest pair of each kind."""

    @torch.no_grad()
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Positive pairs from the least similar, negative ones from the most similar."""
        mined = super().forward(*args, **kwargs)
        similarity = mined.relations.similarity
        pulled, pushed = tuple(mined)[:2], tuple(mined)[2:]
        return (*_sorted(pulled, -similarity), *_sorted(pushed, similarity))


def _sorted(pairs: tuple[Tensor, ...], hardness: Tensor) -> tuple[Tensor, ...]:
    """The pairs from the hardest to the easiest; among equals by anchor."""
    order = hardness[pairs].argsort(descending=True, stable=True)
    return tuple(part[order] for part in pairs)


ship(globals(), Miner, _OfMiners)
