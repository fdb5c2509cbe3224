"""Score a set of embeddings, in one process or shared by several."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation import inputs
from lookalike.evaluation.inputs import ArrayLike, DistanceName, LabelArray
from lookalike.evaluation.metrics import check_metrics
from lookalike.evaluation.ranks import ProgressCallback, RankOptions, Ties, rank_embeddings
from lookalike.evaluation.relevance import Relevance
from lookalike.evaluation.reranking import Reranking, find_reranking
from lookalike.evaluation.results import Evaluation, bootstrap_intervals, summarize
from lookalike.evaluation.space import EmbeddingSpace
from lookalike.labels import Comparison

DEFAULT_METRICS = ("recall@1", "map@r")


class ScoreOptions(TypedDict, total=False):
    """What ``score`` takes by name."""

    distance: DistanceName
    ties: Ties
    ignore: ArrayLike | None
    gallery_ignore: ArrayLike | None
    training: ArrayLike | None
    training_labels: ArrayLike | None
    label_comparison: Comparison | None
    confidence: float | None
    resamples: int
    seed: int
    memory_mb: int | None
    progress: ProgressCallback | None
    distributed: bool
    rerank: str | Reranking | None


def evaluate(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    **options: Unpack[ScoreOptions],
) -> dict[str, float]:
    """Compute scores of ``embeddings`` by name.

    Args:
        embeddings: One row per query.
        labels: One label per query, or a multi-hot table.
        metrics: Names (``lookalike list metrics``) or ``package.module:function``, or one of them.
        gallery: One row per gallery item; None: every item is a query to all others.
        gallery_labels: Labels of the gallery.
        **options: The other arguments of :func:`lookalike.evaluation.score`.

    Returns:
        The value of each metric.

    Raises:
        BadInput: A metric is unknown, or the embeddings cannot be scored.

    >>> evaluate([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["a", "a", "b"])
    {'recall@1': 1.0, 'map@r': 1.0}
    """
    return score(embeddings, labels, metrics, gallery, gallery_labels, **options).scores


def score(
    embeddings: ArrayLike,
    labels: ArrayLike,
    metrics: str | Sequence[str] = DEFAULT_METRICS,
    gallery: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    *,
    distance: DistanceName = "cosine",
    ties: Ties = "worst",
    ignore: ArrayLike | None = None,
    gallery_ignore: ArrayLike | None = None,
    training: ArrayLike | None = None,
    training_labels: ArrayLike | None = None,
    label_comparison: Comparison | None = None,
    confidence: float | None = None,
    resamples: int = 1000,
    seed: int = 0,
    memory_mb: int | None = None,
    progress: ProgressCallback | None = None,
    distributed: bool = False,
    rerank: str | Reranking | None = None,
) -> Evaluation:
    """Evaluate ``embeddings`` (queries) against a gallery, or against themselves.

    Args:
        embeddings: One row per query.
        labels: One label per query (whole numbers of any size, strings), or a multi-hot table: two
            items are then relevant to each other if they share a label.
        metrics: Names (``lookalike list metrics``) or ``package.module:function``, or one of them.
            Those of the embedding space are of ``embeddings``, without the gallery.
        gallery: One row per gallery item; None: every item is a query to all others.
        gallery_labels: Labels of the gallery.
        distance: "cosine" or "l2".
        ties: Where equally similar items are ranked: the relevant last ("worst"), first ("best")
            or in the middle ("average").
        ignore: One identity per query, such as its camera: pairs of the same label and identity
            are left out. Or a table queries x gallery, True to leave a pair out.
        gallery_ignore: Identities of the gallery.
        training: One row per training image, by the same model; for metrics that need it, such as
            ``utilization``.
        training_labels: One label per training image.
        label_comparison: Which labels agree, where not only equal ones do: a function of two
            tensors that broadcast; of labels [queries, 1] and [1, gallery], or of rows [queries, 1,
            K] and [1, gallery, K]. For metrics of ranks; labels are numbers.
        confidence: Level of bootstrap intervals of the rank metrics over classes, such as 0.95;
            None: none.
        resamples: Number of bootstrap samples.
        seed: Seed of k-means and the bootstrap.
        memory_mb: Memory for blocks of similarities; None: 512, on a GPU half of what is free.
        progress: Called with the number of queries that are done, and of all.
        distributed: Let all processes of torch's process group, each of which must call this with
            the same arguments, rank a share of the queries; all get the same result. Without a
            process group it has no effect.
        rerank: Correct the ranking by neighbours of neighbours: "k-reciprocal", "alpha-expansion",
            or one of these with its settings (``KReciprocal(k1=10)``). For metrics of ranks.

    Returns:
        The scores, with the values per query behind them.

    Raises:
        BadInput: A metric is unknown, or the embeddings cannot be scored.

    >>> found = score([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], ["a", "a", "b"], ["recall@1"])
    >>> found.scores, found.queries_without_relevant
    ({'recall@1': 1.0}, 1)
    """
    asked = check_metrics(metrics)
    inputs.check_choice(ties, Ties, "rule for ties")
    inputs.check_choice(distance, DistanceName, "distance")
    if confidence is not None and not 0 < confidence < 1:
        raise BadInput(f"confidence must lie between 0 and 1, not {confidence}")
    rule = label_comparison is not None
    queries, classes = _checked(embeddings, labels, "", distance, compared=rule)
    others = _beside(queries, gallery, gallery_labels, "gallery", distance, compared=rule)
    known = _beside(queries, training, training_labels, "training", distance)
    items, item_classes = others or (None, None)
    ignored = _identities(ignore), _identities(gallery_ignore)
    relevance = Relevance(classes, item_classes, *ignored, label_comparison)
    ranked = [metric for metric in asked if metric.per_query]
    of_space = [metric for metric in asked if not metric.per_query]
    for metric in of_space:
        if rerank is not None:
            raise BadInput(f"re-ranking cannot change '{metric.name}': it needs metrics of ranks")
        if rule:
            raise BadInput(f"'{metric.name}' needs classes; take it without label_comparison")
        if classes.ndim == 2:
            raise BadInput(f"'{metric.name}' needs one label per item, not a multi-hot table")
        if metric.needs_training and known is None:
            raise BadInput(
                f"'{metric.name}' needs the embeddings of the training images: give training and "
                "training_labels, or name it in protocol.metrics of a run"
            )
    if rule and classes.ndim == 2:  # every different row is a class
        classes = np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1)
    distributed = distributed and dist.is_available() and dist.is_initialized()
    span = None
    if distributed:  # the queries that this process ranks
        count, rank, number = len(queries), dist.get_rank(), dist.get_world_size()
        span = count * rank // number, count * (rank + 1) // number
    options: RankOptions = {
        "ties": ties, "memory_mb": memory_mb, "progress": progress, "span": span,
    }  # fmt: skip
    if rerank is None:
        blocks = rank_embeddings(queries, items, relevance, distance=distance, **options)
    elif distance == "cosine":
        blocks = find_reranking(rerank).rank(queries, items, relevance, **options)
    else:
        raise BadInput("re-ranking is by the cosine")
    parts: dict[str, list[NDArray[np.float64]]] = {metric.name: [] for metric in ranked}
    without = 0
    for block in blocks if ranked else ():
        without += int((block.relevant == 0).sum())
        for metric in ranked:
            parts[metric.name].append(metric.of_queries(block))
    values = {name: np.concatenate(part or [np.empty(0)]) for name, part in parts.items()}
    # k-means and the like cannot be shared: the first process computes them for all.
    scores: dict[str, float] = {}
    if of_space and (not distributed or dist.get_rank() == 0):
        beside = None if known is None else EmbeddingSpace(known[0], _codes(*known))
        space = EmbeddingSpace(queries, _codes(queries, classes), seed, beside)
        scores = {metric.name: float(metric.function(space, *metric.k)) for metric in of_space}
    if distributed:  # the values of all processes, in order of the queries
        shares: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(shares, (values, without, scores))
        values = {name: np.concatenate([share[0][name] for share in shares]) for name in values}
        without, scores = sum(share[1] for share in shares), shares[0][2]
    if values and without == relevance.queries:
        raise BadInput(
            "no query has a relevant item in the gallery: "
            + ("no label occurs twice" if relevance.itself else "no label is in both")
        )
    summaries = {metric.name: metric.summary for metric in ranked}
    scores |= {name: summarize(of_each, summaries[name]) for name, of_each in values.items()}
    intervals = {}
    if confidence:
        intervals = bootstrap_intervals(values, classes, confidence, resamples, seed, summaries)
    return Evaluation(
        scores={metric.name: scores[metric.name] for metric in asked},
        per_query=values,
        labels=classes,
        queries=relevance.queries,
        gallery=relevance.gallery,
        queries_without_relevant=without,
        intervals=intervals,
        summaries=summaries,
    )


def _codes(rows: Tensor, labels: LabelArray) -> Tensor:
    """The labels of rows as class indices from 0, on their device."""
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1]).to(rows.device)


def _checked(
    values: ArrayLike, labels: ArrayLike, which: str, distance: DistanceName, *, compared: bool
) -> tuple[Tensor, LabelArray]:
    """Rows with their labels."""
    rows = inputs.embeddings_of(values, f"{which}embeddings", distance)
    known = inputs.labels_of(labels, f"{which}labels", compared=compared)
    if len(rows) == 0:
        raise BadInput(f"there are no {which}embeddings")
    if len(rows) != len(known):
        raise BadInput(f"there are {len(rows)} {which}embeddings but {len(known)} {which}labels")
    return rows, known


def _beside(
    queries: Tensor,
    values: ArrayLike | None,
    labels: ArrayLike | None,
    which: str,
    distance: DistanceName,
    *,
    compared: bool = False,
) -> tuple[Tensor, LabelArray] | None:
    """Other rows with their labels, on the device of the queries and as wide; None: there are none.

    Those of training images have one label each.
    """
    if values is None and labels is None:
        return None
    if values is None or labels is None:
        raise BadInput(f"{which} and {which}_labels go together: give both, or neither")
    rows, known = _checked(values, labels, f"{which} ", distance, compared=compared)
    if rows.shape[1] != queries.shape[1]:
        raise BadInput(
            f"embeddings have {queries.shape[1]} columns and {which} embeddings {rows.shape[1]}"
        )
    if which == "training" and known.ndim == 2:
        raise BadInput("training labels must be one label per item, not a multi-hot table")
    return rows.to(queries.device), known


def _identities(values: ArrayLike | None) -> NDArray[np.generic] | None:
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
