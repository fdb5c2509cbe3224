"""Rank metrics: each a small function of the ranks r_1 <= ... <= r_R of the relevant items.

Each gives one value a query; a query without relevant items gets NaN and is left out of means.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, did_you_mean
from lookalike.evaluation.ranks import Ranks

__all__ = ["CLUSTERING", "RANKING", "STRUCTURE", "check_metrics", "is_ranking", "per_query"]

Values = NDArray[np.float64]

CLUSTERING = ("nmi", "ami", "f1")
STRUCTURE = ("pi-intra", "pi-inter", "pi-ratio", "rho", "alignment", "uniformity")


def recall_at(ranks: Ranks, k: int) -> Values:
    """[r_1 <= k]: whether one of the k nearest is relevant."""
    return (ranks.first() <= k).astype(np.float64)


def precision_at(ranks: Ranks, k: int) -> Values:
    """#{r_j <= k} / k, also where the gallery has fewer than k items."""
    return ranks.total(ranks.values <= k) / k


def r_precision(ranks: Ranks) -> Values:
    """#{r_j <= R} / R."""
    return _mean(ranks, ranks.within_r)


def map_at_r(ranks: Ranks) -> Values:
    """1/R sum over r_j <= R of j / r_j (Musgrave et al., ECCV 2020)."""
    return _mean(ranks, ranks.within_r * ranks.place / ranks.values)


def average_precision(ranks: Ranks) -> Values:
    """1/R sum_j j / r_j."""
    return _mean(ranks, ranks.place / ranks.values)


def map_at(ranks: Ranks, k: int) -> Values:
    """1/min(R, k) sum over r_j <= k of j / r_j; 1 where the k nearest are all relevant."""
    hits = ranks.total((ranks.values <= k) * ranks.place / ranks.values)
    return hits / np.maximum(np.minimum(ranks.relevant, k), 1)


def reciprocal_rank(ranks: Ranks) -> Values:
    """1 / r_1."""
    return 1 / ranks.first()


def ndcg_at(ranks: Ranks, k: int) -> Values:
    """DCG / ideal DCG with gains 0 and 1: sum over r_j <= k of 1 / log2(1 + r_j)."""
    gained = ranks.total((ranks.values <= k) / np.log2(1 + ranks.values))
    most = min(k, int(ranks.relevant.max(initial=0)))
    # The first, for queries without relevant items, may be anything but 0: they are left out.
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(2, most + 2)))])
    best: Values = ideal[np.minimum(ranks.relevant, most)]
    return gained / best


def _mean(ranks: Ranks, per_item: NDArray[Any]) -> Values:
    return ranks.total(per_item) / np.maximum(ranks.relevant, 1)


_PLAIN: dict[str, Callable[[Ranks], Values]] = {
    "r-precision": r_precision,
    "map@r": map_at_r,
    "map": average_precision,
    "mrr": reciprocal_rank,
}
_AT_K: dict[str, Callable[[Ranks, int], Values]] = {
    "recall": recall_at,
    "precision": precision_at,
    "map": map_at,
    "ndcg": ndcg_at,
}
RANKING = (*_PLAIN, *(f"{name}@k" for name in _AT_K))


def check_metrics(names: tuple[str, ...]) -> None:
    """Refuse an unknown name, saying the nearest known one."""
    if not names:
        raise BadInput("no metric was asked for")
    for name in names:
        if not (name in CLUSTERING or name in STRUCTURE or is_ranking(name)):
            stem, at, k = name.partition("@")
            if stem in _AT_K and at:
                raise BadInput(f"the k of metric '{name}' must be a whole number from 1, not '{k}'")
            known = (*RANKING, *CLUSTERING, *STRUCTURE)
            raise BadInput(f"there is no metric '{name}'; {_suggestion(name, known)}")


def is_ranking(name: str) -> bool:
    """Whether the metric follows from ranks, so that it has a value for each query."""
    return _find(name) is not None


def per_query(name: str, ranks: Ranks) -> Values:
    """The metric ``name`` of each query of the block; NaN where nothing is relevant."""
    compute = _find(name)
    if compute is None:
        raise BadInput(f"'{name}' is not a metric of ranks; {did_you_mean(name, RANKING)}")
    return np.where(ranks.relevant > 0, compute(ranks), np.nan)


def _find(name: str) -> Callable[[Ranks], Values] | None:
    if name in _PLAIN:
        return _PLAIN[name]
    match = re.fullmatch(r"(\w+)@([1-9][0-9]*)", name)
    if not match or match[1] not in _AT_K:
        return None
    compute, k = _AT_K[match[1]], int(match[2])
    return lambda ranks: compute(ranks, k)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    """The nearest name, with the k that was asked for in the place of ``@k``."""
    number = re.search(r"@([1-9][0-9]*)$", name)
    return did_you_mean(name, [n.replace("@k", number[0]) if number else n for n in known])
