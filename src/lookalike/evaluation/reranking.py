"""Re-ranking: neighbours of neighbours correct the first ranking."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput, did_you_mean
from lookalike.evaluation.inputs import full_precision, unit_rows
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.ranks import RankOptions, Ranks, rank_embeddings, rank_rows
from lookalike.evaluation.relevance import Relevance

PAIRS_AT_ONCE = 1 << 16


class Reranking(Protocol):
    """A method with its settings."""

    def rank(
        self,
        queries: Tensor,
        gallery: Tensor | None,
        relevance: Relevance,
        **options: Unpack[RankOptions],
    ) -> Iterator[Ranks]:
        """Ranks of the relevant items of unit rows; ``gallery`` None: the queries themselves."""


@dataclass(frozen=True)
class KReciprocal:
    """Items that have each other among their neighbours are similar (Zhong et al., CVPR 2017).

    R(p, k): the items among the k nearest of p that have p among their own k nearest. R(p, k1)
    is enlarged by R(q, k1/2) of each member q that shares two thirds of it; then p is the vector
    of weights e^(s - 1) on its set, averaged over its k2 nearest, and d_J the Jaccard distance of
    two such vectors. Ranked by (1 - weight) d_J + weight (1 - s).

    Args:
        k1: Size of the first neighbourhood.
        k2: Neighbours whose vectors are averaged; 1: none.
        weight: Weight of the original distance, between 0 and 1.
    """

    k1: int = 20
    k2: int = 6
    weight: float = 0.3

    def rank(
        self,
        queries: Tensor,
        gallery: Tensor | None,
        relevance: Relevance,
        **options: Unpack[RankOptions],
    ) -> Iterator[Ranks]:
        """Ranks of the relevant items by the new distance."""
        if self.k1 < 1 or self.k2 < 1 or not 0 <= self.weight <= 1:
            raise BadInput(f"k1 and k2 must be at least 1, weight between 0 and 1: not {self}")
        return rank_rows(_JaccardRows(queries, gallery, self), relevance, **options)


@dataclass(frozen=True)
class AlphaExpansion:
    """A query is replaced by a mean with its neighbours (Radenovic et al., TPAMI 2018).

    q + sum over the ``neighbours`` nearest x of max(s, 0)^alpha x, at unit length.

    Args:
        neighbours: Number of neighbours in the mean.
        alpha: Exponent of their similarities.
    """

    neighbours: int = 10
    alpha: float = 3.0

    def rank(
        self,
        queries: Tensor,
        gallery: Tensor | None,
        relevance: Relevance,
        **options: Unpack[RankOptions],
    ) -> Iterator[Ranks]:
        """Ranks of the relevant items for the expanded queries."""
        if self.neighbours < 1 or self.alpha < 0:
            raise BadInput(f"neighbours must be at least 1 and alpha not negative: not {self}")
        items = queries if gallery is None else gallery
        expanded = self.expand(queries, items, itself=gallery is None)
        return rank_embeddings(expanded, items, relevance, **options)

    def expand(self, queries: Tensor, gallery: Tensor, itself: bool) -> Tensor:
        """The expanded queries; ``itself``: the gallery holds each query at its own place."""
        similar, places = nearest(queries, gallery, self.neighbours + int(itself))
        weights = similar.clamp_min(0) ** self.alpha
        if itself:
            own = places == torch.arange(len(queries), device=places.device)[:, None]
            own[:, -1] |= ~own.any(1)  # displaced by equal items: leave out the last instead
            weights = weights.masked_fill(own, 0)
        expanded = queries.clone()
        step = max(1, PAIRS_AT_ONCE // places.shape[1])
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            expanded[part] += torch.einsum("qk,qkd->qd", weights[part], gallery[places[part]])
        return unit_rows(expanded)


RERANKINGS: dict[str, Callable[[], Reranking]] = {
    "k-reciprocal": KReciprocal,
    "alpha-expansion": AlphaExpansion,
}


def find_reranking(given: str | Reranking) -> Reranking:
    """The re-ranking of that name with its default settings, or the one that is given."""
    if not isinstance(given, str):
        return given
    if given not in RERANKINGS:
        raise BadInput(f"there is no re-ranking '{given}'; {did_you_mean(given, RERANKINGS)}")
    return RERANKINGS[given]()


class _JaccardRows:
    """Rows of minus the k-reciprocal distance."""

    def __init__(self, queries: Tensor, gallery: Tensor | None, method: KReciprocal) -> None:
        self._queries = queries
        self._gallery = queries if gallery is None else gallery
        everything = queries if gallery is None else torch.cat([queries, gallery])
        self._weight = method.weight
        weights = _reciprocal_weights(everything, method.k1, method.k2)
        self._of_queries = weights[: len(queries)]
        others = weights if gallery is None else weights[len(queries) :]
        self._of_gallery = others.tocsc()
        self.shape = (len(queries), len(self._gallery))

    def rows(self, start: int, stop: int) -> Tensor:
        with full_precision():
            similar = self._queries[start:stop] @ self._gallery.T
        distance = (self._weight * (1 - similar)).double()
        for row, query in enumerate(range(start, stop)):
            shared = torch.from_numpy(self._shared(query)).to(distance.device)
            # Both vectors sum to 1: sum max = 2 - sum min.
            distance[row] += (1 - self._weight) * (1 - shared / (2 - shared))
        return distance.neg_()

    def _shared(self, query: int) -> NDArray[np.float64]:
        """Sum of the smaller weights, of one query with every gallery item."""
        own, others = self._of_queries, self._of_gallery
        mine = slice(*own.indptr[query : query + 2])
        columns = [slice(*others.indptr[c : c + 2]) for c in own.indices[mine]]
        items = np.concatenate([others.indices[c] for c in columns] or [np.empty(0, int)])
        smaller = np.concatenate(
            [
                np.minimum(others.data[c], weight)
                for c, weight in zip(columns, own.data[mine], strict=True)
            ]
            or [np.empty(0)]
        )
        return np.bincount(items, smaller, self.shape[1]).astype(np.float64, copy=False)


def _reciprocal_weights(rows: Tensor, k1: int, k2: int) -> Any:
    """The vector of weights of each item, as a sparse matrix items x items; each sums to 1."""
    from scipy.sparse import csr_array, diags_array

    places = nearest(rows, rows, max(k1, k2) + 1)[1].cpu().numpy()
    number = len(rows)

    def among(k: int) -> Any:
        """Items x items: whether the column is among the k nearest of the row, or the row."""
        columns = places[:, : k + 1]
        count = columns.size
        owners = np.repeat(np.arange(number), columns.shape[1])
        table = csr_array((np.ones(count, np.int32), (owners, columns.ravel())), (number, number))
        table.setdiag(1)
        return table

    def reciprocal(k: int) -> Any:
        table = among(k)
        return table.multiply(table.T).tocsr()

    full, half = reciprocal(k1), reciprocal(max(1, round(k1 / 2)))
    common = (full @ half.T).multiply(full).tocoo()
    enough = common.data * 3 >= 2 * np.diff(half.indptr)[common.col]
    common.data = enough.astype(np.int32)
    common.eliminate_zeros()
    enlarged = (full + common.tocsr() @ half).tocsr()
    enlarged.sort_indices()
    owners = np.repeat(np.arange(number), np.diff(enlarged.indptr))
    enlarged = enlarged.astype(np.float64)
    for start in range(0, len(owners), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        left = rows[torch.from_numpy(owners[part]).to(rows.device)]
        right = rows[torch.from_numpy(enlarged.indices[part].astype(np.int64)).to(rows.device)]
        similar = (left.double() * right.double()).sum(1)
        enlarged.data[part] = (similar - 1).exp().cpu().numpy()
    enlarged = (diags_array(1 / enlarged.sum(axis=1).ravel()) @ enlarged).tocsr()
    if k2 > 1:
        near = among(k2 - 1).astype(np.float64)
        enlarged = (diags_array(1 / near.sum(axis=1).ravel()) @ near @ enlarged).tocsr()
    return enlarged
