"""Re-ranking: neighbours of neighbours correct the first ranking; scores with and without."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, full_precision, unit_rows
from lookalike.evaluation.metrics import check_metrics
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.ranking import ProgressCallback, rank_embeddings, rank_rows
from lookalike.evaluation.ranks import Ranks, Ties
from lookalike.evaluation.results import Evaluation
from lookalike.evaluation.scoring import DEFAULT_METRICS, RetrievalData, evaluation_of

PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Gain:
    """The scores without and with re-ranking.

    Args:
        plain: Without.
        reranked: With.
    """

    plain: Evaluation
    reranked: Evaluation

    @property
    def gain(self) -> dict[str, float]:
        """What re-ranking adds to each score."""
        before = self.plain.scores
        return {name: value - before[name] for name, value in self.reranked.scores.items()}


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
        self, data: RetrievalData, ties: Ties, memory_mb: int, progress: ProgressCallback | None
    ) -> Iterator[Ranks]:
        """Ranks of the relevant items by the new distance."""
        if self.k1 < 1 or self.k2 < 1 or not 0 <= self.weight <= 1:
            raise BadInput(f"k1 and k2 must be at least 1, weight between 0 and 1: not {self}")
        rows = _JaccardRows(data.queries, data.gallery, self)
        return rank_rows(rows, data.relevance, ties, memory_mb, progress)


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
        self, data: RetrievalData, ties: Ties, memory_mb: int, progress: ProgressCallback | None
    ) -> Iterator[Ranks]:
        """Ranks of the relevant items for the expanded queries."""
        if self.neighbours < 1 or self.alpha < 0:
            raise BadInput(f"neighbours must be at least 1 and alpha not negative: not {self}")
        gallery = data.queries if data.gallery is None else data.gallery
        expanded = self.expand(data.queries, gallery, itself=data.gallery is None)
        return rank_embeddings(
            expanded, gallery, data.relevance, ties=ties, memory_mb=memory_mb, progress=progress
        )

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


RERANKINGS: dict[str, type[KReciprocal] | type[AlphaExpansion]] = {
    "k-reciprocal": KReciprocal,
    "alpha-expansion": AlphaExpansion,
}


def rerank(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    *,
    by: KReciprocal | AlphaExpansion | None = None,
    ties: Ties = "worst",
    ignore: ArrayLike | None = None,
    gallery_ignore: ArrayLike | None = None,
    confidence: float | None = None,
    memory_mb: int = 512,
    progress: ProgressCallback | None = None,
) -> Gain:
    """Score with and without re-ranking, by cosine.

    Args:
        embeddings: One row per query.
        labels: One label per query, or a multi-hot table.
        metrics: Names of rank metrics.
        gallery: One row per gallery item; None: every item is a query to all others.
        gallery_labels: Labels of the gallery.
        by: The method, with its settings; None: ``KReciprocal()``.
        ties: As in :func:`lookalike.evaluation.score`.
        ignore: As in :func:`lookalike.evaluation.score`.
        gallery_ignore: As in :func:`lookalike.evaluation.score`.
        confidence: Level of bootstrap intervals over classes; None: none.
        memory_mb: Memory for blocks of similarities.
        progress: Called with the number of queries that are done, and of all.

    Returns:
        Both evaluations.

    Raises:
        BadInput: A metric does not follow from ranks, or the embeddings cannot be scored.

    >>> points = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    >>> rerank(points, ["a", "a", "b", "b"], by=KReciprocal(k1=2, k2=1)).gain
    {'recall@1': 0.0, 'map@r': 0.0}
    """
    asked = check_metrics(metrics)
    for metric in asked:
        if not metric.per_query:
            raise BadInput(f"re-ranking cannot change '{metric.name}': it needs metrics of ranks")
    data = RetrievalData.of(embeddings, labels, gallery, gallery_labels, ignore, gallery_ignore)
    plain = rank_embeddings(
        data.queries, data.gallery, data.relevance, ties=ties, memory_mb=memory_mb
    )
    second = (by or KReciprocal()).rank(data, ties, memory_mb, progress)
    return Gain(
        evaluation_of(asked, data, plain, confidence),
        evaluation_of(asked, data, second, confidence),
    )


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
