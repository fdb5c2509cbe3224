"""Evaluation by several processes: gather what each has embedded, share the queries out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, Distance, check_choice, labels_of
from lookalike.evaluation.metrics import check_metrics, is_ranking
from lookalike.evaluation.ranking import Progress, rank_embeddings
from lookalike.evaluation.ranks import Ties
from lookalike.evaluation.scoring import (
    DEFAULT_METRICS,
    Evaluation,
    Sets,
    evaluation_from,
    score,
    values_of,
    whole_set_scores,
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
    distance: Distance = "cosine",
    ties: Ties = "worst",
    ignore: ArrayLike | None = None,
    gallery_ignore: ArrayLike | None = None,
    confidence: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    memory_mb: int = 512,
    progress: Progress | None = None,
    group: Any = None,
) -> Evaluation:
    """As ``score``, each process ranking its share of the queries; all get the same result.

    Every process gives the whole sets, as ``gather_embeddings`` returns them. In a program of
    one process this is ``score``.
    """
    names = tuple(metrics)
    check_metrics(names)
    check_choice(ties, Ties, "rule for ties")
    if _alone():
        return score(
            embeddings,
            labels,
            names,
            gallery,
            gallery_labels,
            distance=distance,
            ties=ties,
            ignore=ignore,
            gallery_ignore=gallery_ignore,
            confidence=confidence,
            resamples=resamples,
            seed=seed,
            memory_mb=memory_mb,
            progress=progress,
        )
    sets = Sets.of(embeddings, labels, gallery, gallery_labels, ignore, gallery_ignore, distance)
    sets.check(names)
    rank, processes = dist.get_rank(group), dist.get_world_size(group)
    queries = len(sets.queries)
    span = queries * rank // processes, queries * (rank + 1) // processes
    ranked = tuple(name for name in names if is_ranking(name))
    blocks = rank_embeddings(
        sets.queries,
        sets.gallery,
        sets.relevance,
        distance=distance,
        ties=ties,
        memory_mb=memory_mb,
        progress=progress,
        span=span,
    )
    own = values_of(ranked, blocks if ranked and span[0] < span[1] else ())
    # k-means and the like cannot be shared out: the first process computes them for all.
    whole = whole_set_scores(names, sets, seed) if rank == 0 else None
    shares: list[Any] = [None] * processes
    dist.all_gather_object(shares, (*own, whole), group=group)
    values = {name: np.concatenate([share[0][name] for share in shares]) for name in ranked}
    without = sum(share[1] for share in shares)
    return evaluation_from(names, sets, values, without, shares[0][2], confidence, resamples, seed)


def _alone() -> bool:
    return not (dist.is_available() and dist.is_initialized())


def _gather_rows(rows: Tensor, sizes: list[int], width: int, group: Any) -> list[Tensor]:
    """Rows of every process; padded for the exchange only."""
    padded = rows.new_zeros(max(sizes), width)
    padded[: len(rows), : rows.shape[1]] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded, group=group)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]
