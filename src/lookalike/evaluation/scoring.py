"""Score a set of embeddings: the scores, and what lies behind them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.bootstrap import bootstrap_intervals
from lookalike.evaluation.clustering import clustering_scores
from lookalike.evaluation.inputs import (
    ArrayLike,
    Distance,
    Labels,
    check_choice,
    embeddings_of,
    labels_of,
)
from lookalike.evaluation.metrics import CLUSTERING, STRUCTURE, check_metrics, is_ranking, per_query
from lookalike.evaluation.ranking import Progress, rank_embeddings
from lookalike.evaluation.ranks import Ranks, Ties
from lookalike.evaluation.relevance import Relevance
from lookalike.evaluation.structure import structure_scores

__all__ = [
    "ClassScores",
    "Crew",
    "Evaluation",
    "ScoreOptions",
    "Sets",
    "WorstQuery",
    "evaluate",
    "score",
]

DEFAULT_METRICS = ("recall@1", "map@r")

Values: TypeAlias = tuple[dict[str, NDArray[np.float64]], int]
"""The rank metrics of each query, and how many queries have nothing relevant."""
Whole: TypeAlias = dict[str, float]
"""The scores that belong to no single query."""


@dataclass(frozen=True)
class ClassScores:
    """One line of the table by class: the means over the queries of the class."""

    label: object
    queries: int
    without_relevant: int
    scores: dict[str, float]


@dataclass(frozen=True)
class WorstQuery:
    """A query that was answered badly: its row, its label, its value."""

    index: int
    label: object
    value: float


@dataclass(frozen=True)
class Evaluation:
    """The scores of a set of embeddings, and what lies behind them.

    ``per_query`` holds one value a query for each rank metric, NaN where the gallery holds
    nothing relevant; ``scores`` are the means without those. ``intervals`` is empty unless
    confidence intervals were asked for.
    """

    scores: dict[str, float]
    per_query: dict[str, NDArray[np.float64]]
    labels: Labels
    queries: int
    gallery: int
    queries_without_relevant: int
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def per_class(self) -> list[ClassScores]:
        """The rank metrics by class, in order of the labels; a class without a hit scores NaN.

        Recall@k of a class is its hit rate. With multi-hot labels the label is the column, and a
        query counts in each of its classes.
        """
        of_any = next(iter(self.per_query.values()), np.zeros(self.queries))
        without = np.isnan(of_any)
        return [
            ClassScores(
                label,
                len(members),
                int(without[members].sum()),
                {name: _mean(values[members]) for name, values in self.per_query.items()},
            )
            for label, members in _members(self.labels)
        ]

    def worst(self, metric: str | None = None, number: int = 20) -> list[WorstQuery]:
        """The queries with the lowest ``metric`` (the last rank metric asked for, if none).

        Queries without relevant items are left out; equal values keep the order of the rows.
        """
        if metric is None and self.per_query:
            metric = next(reversed(self.per_query))
        if metric is None or metric not in self.per_query:
            known = ", ".join(self.per_query) or "none"
            raise BadInput(f"no value of each query for '{metric}'; there is: {known}")
        values = self.per_query[metric]
        order = np.argsort(values, kind="stable")[:number]  # NaN last
        return [
            WorstQuery(int(i), _plain(self.labels[i]), float(values[i]))
            for i in order
            if not np.isnan(values[i])
        ]


@dataclass(frozen=True)
class Sets:
    """Queries and gallery, checked: float32 rows, and who is relevant to whom."""

    queries: Tensor
    gallery: Tensor | None
    labels: Labels
    relevance: Relevance

    @staticmethod
    def of(
        embeddings: ArrayLike,
        labels: ArrayLike,
        gallery: ArrayLike | None = None,
        gallery_labels: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        gallery_ignore: ArrayLike | None = None,
        distance: Distance = "cosine",
    ) -> "Sets":
        """Check what was given; anything that cannot be scored is refused in one sentence."""
        check_choice(distance, Distance, "distance")
        queries = embeddings_of(embeddings, "embeddings", distance)
        own_labels = labels_of(labels, "labels")
        _check_lengths(queries, own_labels, "")
        others = other_labels = None
        if gallery is not None:
            if gallery_labels is None:
                raise BadInput("a gallery needs gallery_labels")
            others = embeddings_of(gallery, "gallery embeddings", distance).to(queries.device)
            other_labels = labels_of(gallery_labels, "gallery labels")
            _check_lengths(others, other_labels, "gallery ")
            if others.shape[1] != queries.shape[1]:
                raise BadInput(
                    f"embeddings have {queries.shape[1]} columns and those of the gallery "
                    f"{others.shape[1]}"
                )
        elif gallery_labels is not None:
            raise BadInput("gallery_labels need a gallery")
        relevance = Relevance(
            own_labels, other_labels, _identities(ignore), _identities(gallery_ignore)
        )
        return Sets(queries, others, own_labels, relevance)

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse clustering and structure where items have several labels."""
        for name in names:
            if self.labels.ndim == 2 and not is_ranking(name):
                raise BadInput(f"'{name}' needs one label an item, not a multi-hot table")


class ScoreOptions(TypedDict, total=False):
    """What ``score`` takes by name."""

    distance: Distance
    ties: Ties
    ignore: ArrayLike | None
    gallery_ignore: ArrayLike | None
    confidence: float | None
    resamples: int
    seed: int
    memory_mb: int
    progress: Progress | None


class Crew:
    """Who shares the work of scoring: here one process alone."""

    def span(self, queries: int) -> tuple[int, int] | None:
        """The queries that this process ranks; None is all."""
        del queries
        return None

    def together(self, own: Values, whole: Callable[[], Whole]) -> tuple[Values, Whole]:
        """What all have found; ``whole`` computes what cannot be shared out."""
        return own, whole()


def evaluate(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: Sequence[str] = DEFAULT_METRICS,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    **options: Unpack[ScoreOptions],
) -> dict[str, float]:
    """The scores of ``embeddings`` by name; see ``score`` for the options.

    >>> evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["a", "a", "b"])
    {'recall@1': 1.0, 'map@r': 1.0}
    """
    return score(embeddings, labels, metrics, gallery, gallery_labels, **options).scores


def score(
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
    crew: Crew | None = None,
) -> Evaluation:
    """Evaluate ``embeddings`` (queries) against a gallery, or against themselves.

    ``labels``: one an item (whole numbers of any size, strings), or a multi-hot table; then two
    items are relevant to each other if they share a label. Without a ``gallery`` every item is
    a query to all others. ``ignore``: an identity an item, such as its camera: pairs of the same
    label and identity are left out; or a table queries x gallery, True to leave a pair out.
    ``ties``: where equally similar items stand, the relevant last ("worst"), first ("best") or
    in the middle ("average"). ``confidence``, such as 0.95, asks for bootstrap intervals of the
    rank metrics. Clustering and structure are those of ``embeddings``, without the gallery;
    ``seed`` is that of k-means and the bootstrap. ``crew``: see ``score_distributed``.

    >>> found = score([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["a", "a", "b"], ["recall@1"])
    >>> found.scores, found.queries_without_relevant
    ({'recall@1': 1.0}, 1)
    """
    names = tuple(metrics)
    check_metrics(names)
    check_choice(ties, Ties, "rule for ties")
    if confidence is not None and not 0 < confidence < 1:
        raise BadInput(f"confidence must lie between 0 and 1, not {confidence}")
    sets = Sets.of(embeddings, labels, gallery, gallery_labels, ignore, gallery_ignore, distance)
    sets.check(names)
    crew = crew or Crew()
    span = crew.span(len(sets.queries))
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
    return evaluation_of(names, sets, blocks, confidence, resamples, seed, crew)


def evaluation_of(
    names: tuple[str, ...],
    sets: Sets,
    blocks: Iterable[Ranks],
    confidence: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    crew: Crew | None = None,
) -> Evaluation:
    """Put together what was asked for; ranks are computed only if a metric needs them."""
    ranked = tuple(name for name in names if is_ranking(name))
    own = values_of(ranked, blocks if ranked else ())
    (values, without), whole = (crew or Crew()).together(
        own, lambda: whole_set_scores(names, sets, seed)
    )
    if values and without == sets.relevance.queries:
        raise BadInput(
            "no query has a relevant item in the gallery: "
            + ("no label is met twice" if sets.relevance.itself else "no label is in both")
        )
    scores = whole | {name: _mean(of_each) for name, of_each in values.items()}
    intervals = {}
    if confidence is not None:
        intervals = bootstrap_intervals(
            values, confidence=confidence, resamples=resamples, seed=seed
        )
    return Evaluation(
        scores={name: scores[name] for name in names},
        per_query=values,
        labels=sets.labels,
        queries=sets.relevance.queries,
        gallery=sets.relevance.gallery,
        queries_without_relevant=without,
        intervals=intervals,
    )


def values_of(names: tuple[str, ...], blocks: Iterable[Ranks]) -> Values:
    """The rank metrics of each query, and how many queries have nothing relevant."""
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    without = 0
    for block in blocks:
        without += int((block.relevant == 0).sum())
        for name in names:
            parts[name].append(per_query(name, block))
    return {name: np.concatenate(part or [np.empty(0)]) for name, part in parts.items()}, without


def whole_set_scores(names: tuple[str, ...], sets: Sets, seed: int) -> Whole:
    """Clustering and structure, where asked for: they belong to no single query."""
    clustering = tuple(name for name in names if name in CLUSTERING)
    structure = tuple(name for name in names if name in STRUCTURE)
    if not (clustering or structure):
        return {}
    codes = np.unique(sets.labels, return_inverse=True)[1]
    scores = clustering_scores(clustering, sets.queries, codes, seed) if clustering else {}
    if structure:
        on_device = torch.from_numpy(codes).to(sets.queries.device)
        scores |= structure_scores(structure, sets.queries, on_device)
    return scores


def _check_lengths(rows: Tensor, labels: Labels, which: str) -> None:
    if len(rows) == 0:
        raise BadInput("the gallery is empty" if which else "there are no embeddings")
    if len(rows) != len(labels):
        raise BadInput(f"there are {len(rows)} {which}embeddings but {len(labels)} {which}labels")


def _identities(values: ArrayLike | None) -> NDArray[np.generic] | None:
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _members(labels: Labels) -> list[tuple[object, NDArray[np.int64]]]:
    if labels.ndim == 2:
        return [(column, labels[:, column].nonzero()[0]) for column in range(labels.shape[1])]
    classes, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(sizes)[:-1])
    return list(zip(classes.tolist(), parts, strict=True))


def _plain(label: object) -> object:
    if isinstance(label, np.ndarray):
        return label.nonzero()[0].tolist()
    return label.item() if isinstance(label, np.generic) else label


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
