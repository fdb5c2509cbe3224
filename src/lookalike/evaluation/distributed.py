"""Evaluation by several processes: gather what each has embedded, share the queries out."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, labels_of
from lookalike.evaluation.scoring import (
    DEFAULT_METRICS,
    Crew,
    Evaluation,
    ScoreOptions,
    Values,
    Whole,
    score,
)

__all__ = ["gather_embeddings", "score_distributed"]


def gather_embeddings(
    embeddings: Tensor,
    labels: ArrayLike,
    indices: ArrayLike,
    group: Any = None,
) -> tuple[Tensor, NDArray[Any]]:
    """The embeddings and labels of all processes, in order of their index in the data set.

    Samplers that give every process the same number of items repeat some: of each index only
    one is kept. Processes may hold different numbers, or none. Every process gets the whole.
    """
    places = torch.as_tensor(np.asarray(indices)).long()
    names = labels_of(labels, "labels")
    if not len(embeddings) == len(places) == len(names):
        raise BadInput(
            f"there are {len(embeddings)} embeddings, {len(names)} labels and "
            f"{len(places)} indices; they must be as many"
        )
    embeddings = embeddings.detach()
    if _alone():
        parts, all_names, all_places = [embeddings], [names], [places.numpy()]
    else:
        small: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(small, (names, places.numpy(), embeddings.shape[1]), group=group)
        all_names, all_places = [s[0] for s in small if len(s[1])], [s[1] for s in small]
        widths = {s[2] for s in small if len(s[1])}
        if len(widths) > 1:
            raise BadInput(f"the processes hold embeddings of different sizes: {sorted(widths)}")
        parts = _gather_rows(
            embeddings, [len(p) for p in all_places], max(widths, default=0), group
        )
    if not all_names:
        raise BadInput("no process has any embeddings")
    first = np.unique(np.concatenate(all_places), return_index=True)[1]
    whole = torch.cat(parts)[torch.from_numpy(first).to(embeddings.device)]
    return whole, np.concatenate(all_names)[first]


def score_distributed(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: Sequence[str] = DEFAULT_METRICS,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    *,
    group: Any = None,
    **options: Unpack[ScoreOptions],
) -> Evaluation:
    """As ``score``, each process ranking its share of the queries; all get the same result.

    Every process gives the whole sets, as ``gather_embeddings`` returns them. In a program of
    one process this is ``score``.
    """
    crew = None if _alone() else _Processes(group)
    return score(embeddings, labels, metrics, gallery, gallery_labels, crew=crew, **options)


class _Processes(Crew):
    """The processes of a group, each with its share of the queries."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.number = dist.get_rank(group), dist.get_world_size(group)

    def span(self, queries: int) -> tuple[int, int]:
        return queries * self.rank // self.number, queries * (self.rank + 1) // self.number

    def together(self, own: Values, whole: Callable[[], Whole]) -> tuple[Values, Whole]:
        # k-means and the like cannot be shared out: the first process computes them for all.
        shares: list[Any] = [None] * self.number
        own_share = (*own, whole() if self.rank == 0 else None)
        dist.all_gather_object(shares, own_share, group=self.group)
        values = {name: np.concatenate([share[0][name] for share in shares]) for name in own[0]}
        return (values, sum(share[1] for share in shares)), shares[0][2]


def _alone() -> bool:
    return not (dist.is_available() and dist.is_initialized())


def _gather_rows(rows: Tensor, sizes: list[int], width: int, group: Any) -> list[Tensor]:
    """Rows of every process; padded for the exchange only."""
    padded = rows.new_zeros(max(sizes), width)
    padded[: len(rows), : rows.shape[1]] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded, group=group)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]
