"""Metrics of the embedding space as a whole: clusters, density, spread, number of directions.

pi-intra, pi-inter, pi-ratio and rho: Roth et al., "Revisiting Training Strategies and
Generalization Performance in Deep Metric Learning", ICML 2020. Alignment and uniformity: Wang and
Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
Hypersphere", ICML 2020. With the cosine all of them see unit vectors; with "l2" the rows as given.

Roth et al. published code that differs from their paper: it compares by 1 - cosine, makes class
means unit vectors first, and leaves out the smallest singular value. Those are the metrics
``...-cosine`` and ``rho-spectrum@k``. They relate the structure of the training embeddings to the
scores on test classes, so each of them is a metric of those too: ``train-...``.

Verification (are two images of one class?) counts pairs in fine bins of their similarity, a block
at a time, so that memory does not grow with their number; pairs in one bin count as equally
similar. ``distance_histogram`` counts the distances of positive and negative pairs, clean or mixed
(Metrix).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.evaluation.inputs import ArrayLike, DistanceName, embeddings_of, labels_of, unit_rows
from lookalike.evaluation.metrics import diagnostic, needs_training
from lookalike.evaluation.neighbours import nearest
from lookalike.evaluation.relevance import Ints
from lookalike.registry import METRICS

ROTH = "Roth et al., ICML 2020"
WANG_ISOLA = "Wang and Isola, ICML 2020"

Metric = TypeVar("Metric", bound=Callable[..., float])

BLOCK = 2048
"""Rows at a time."""

BINS = 1 << 17
"""Of the similarities of pairs, from the least to the largest possible."""

FARTHEST = 2.0
"""The distance of two opposite unit vectors."""

SMALLEST = 1e-7
"""Singular values below this share of the largest count as this share: rho stays finite."""

ITERATIONS = 20

RESTARTS = 10
"""k-means starts so many times and keeps the best: one start often joins two clear clusters."""

CHEAP = 10_000_000
"""Items x clusters up to which the restarts take hardly any time; above, one start."""


class ClassSums(NamedTuple):
    """Sums over the items of each class, in double precision.

    Attributes:
        sums: Of the embeddings, [classes, columns].
        counts: How many items.
        squares: Of the squared lengths.
    """

    sums: Tensor
    counts: Tensor
    squares: Tensor

    @property
    def means(self) -> Tensor:
        """The mean embedding of each class."""
        return self.sums / self.counts[:, None]

    @property
    def squared_distances(self) -> tuple[Tensor, Tensor]:
        """Of all pairs of one class: the sum of squared distances, and how many pairs.

        The sum over pairs of |a - b|^2 is n sum |a|^2 - |sum a|^2, for each class of n items.
        """
        total = self.counts * self.squares - self.sums.square().sum(1)
        return total.clamp_min(0), self.counts * (self.counts - 1) / 2


def pair_distances(
    rows: Tensor, others: Tensor | None = None
) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
    """Euclidean distances in double precision, in blocks: of rows to others, or of rows in pairs.

    Args:
        rows: One row per item.
        others: Other items; None: every pair of two rows counts, once.

    Yields:
        The rows and the others of a block, their distances, and which of these count.
    """
    itself, others = others is None, rows if others is None else others
    for top in range(0, len(rows), BLOCK):
        for left in range(top if itself else 0, len(others), BLOCK):
            first, second = slice(top, top + BLOCK), slice(left, left + BLOCK)
            distances = torch.cdist(rows[first].double(), others[second].double())
            counted = torch.ones_like(distances, dtype=torch.bool)
            yield first, second, distances, counted.triu_(1) if itself and left == top else counted


@dataclass(frozen=True, eq=False)
class EmbeddingSpace:
    """The embeddings that are scored, with their classes; what several metrics need is kept.

    Args:
        embeddings: One row per item, in float32; of unit length for the cosine.
        labels: Class index per item, from 0, on the same device.
        seed: Seed of k-means.
        training: The embeddings of the training images by the same model, where they are at hand.
    """

    embeddings: Tensor
    labels: Tensor
    seed: int = 0
    training: "EmbeddingSpace | None" = None

    @cached_property
    def classes(self) -> Ints:
        """Class index per item, as numpy array."""
        return np.asarray(self.labels.cpu())

    @cached_property
    def clusters(self) -> Ints:
        """Cluster index per item, by k-means with as many clusters as classes."""
        return k_means(self.embeddings, int(self.labels.max()) + 1, self.seed)

    @cached_property
    def class_sums(self) -> ClassSums:
        """Of the embeddings."""
        return self._sums(lambda rows: rows.double())

    @cached_property
    def unit_class_sums(self) -> ClassSums:
        """Of the embeddings at unit length."""
        return self._sums(lambda rows: unit_rows(rows, torch.float64))

    def _sums(self, of_rows: Callable[[Tensor], Tensor]) -> ClassSums:
        counts = torch.bincount(self.labels).double()
        sums = counts.new_zeros(len(counts), self.embeddings.shape[1])
        squares = torch.zeros_like(counts)
        for start in range(0, len(self.labels), BLOCK):
            labels = self.labels[start : start + BLOCK]
            rows = of_rows(self.embeddings[start : start + BLOCK])
            sums.index_add_(0, labels, rows)
            squares.index_add_(0, labels, rows.square().sum(1))
        return ClassSums(sums, counts, squares)

    @cached_property
    def singular_values(self) -> Tensor:
        """The singular values of the embeddings, ascending; in double precision."""
        rows = self.embeddings
        products = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
        for part in torch.split(rows, BLOCK):
            products += part.double().T @ part.double()
        squares: Tensor = torch.linalg.eigvalsh(products)
        return squares.clamp_min(0).sqrt()[-min(rows.shape) :]

    @cached_property
    def distance_within_classes(self) -> float:
        """Mean over classes of the mean distance of two of its items; NaN if no class has two."""
        classes = torch.split(self.labels.argsort(), torch.bincount(self.labels).tolist())
        several = [self.embeddings[members] for members in classes if len(members) > 1]
        means = [_mean_distance(rows.double()) for rows in several]
        return math.fsum(means) / len(means) if means else math.nan

    @cached_property
    def pair_counts(self) -> tuple[Tensor, Tensor]:
        """How many pairs of one class, and of two classes, are in each bin, from far to near.

        NaN where there are none of a kind.
        """
        rows, labels = self.embeddings, self.labels
        farthest = max(2 * float(rows.double().norm(dim=1).max()), torch.finfo(torch.float32).tiny)
        counts = torch.zeros(2, BINS, dtype=torch.float64, device=rows.device)
        for first, second, distances, counted in pair_distances(rows):
            nearness = (1 - distances[counted] / farthest).clamp_min_(0)
            bins = nearness.mul_(BINS - 1).round_().long()
            same = (labels[first, None] == labels[second])[counted]
            counts += torch.stack(
                [torch.bincount(bins[which], minlength=BINS) for which in (same, ~same)]
            )
        if not (counts.sum(1) > 0).all():
            counts.fill_(math.nan)
        return counts[0], counts[1]


def training_of(space: EmbeddingSpace) -> EmbeddingSpace:
    """The training embeddings that belong to a space."""
    if space.training is None:
        raise BadInput("the embeddings of the training images are not at hand")
    return space.training


def of_training(metric: Callable[..., float]) -> Callable[..., float]:
    """The same metric of the training embeddings."""

    @diagnostic
    @needs_training
    @wraps(metric)
    def found(space: EmbeddingSpace, *k: int) -> float:
        return metric(training_of(space), *k)

    found.__doc__ = f"Of the training images: {metric.__doc__}"
    return found


def register_structure(name: str) -> Callable[[Metric], Metric]:
    """Register a metric of Roth et al. under its name, and that of the training images."""

    def register(metric: Metric) -> Metric:
        METRICS.register(f"train-{name}", paper=ROTH)(of_training(metric))
        METRICS.register(name, paper=ROTH)(diagnostic(metric))
        return metric

    return register


@METRICS.register("nmi")
def nmi(space: EmbeddingSpace) -> float:
    """Normalised mutual information of k-means clusters and classes."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(space.classes, space.clusters))


@METRICS.register("ami")
def ami(space: EmbeddingSpace) -> float:
    """Adjusted mutual information of k-means clusters and classes."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(space.classes, space.clusters))


@METRICS.register("f1")
def f1(space: EmbeddingSpace) -> float:
    """F1 of "two items share a k-means cluster" as an answer to "two items share a class"."""
    return pair_f1(space.classes, space.clusters)


@register_structure("pi-intra")
def pi_intra(space: EmbeddingSpace) -> float:
    """Mean over classes of the mean distance of two of its items; NaN if no class has two."""
    return space.distance_within_classes


@register_structure("pi-inter")
def pi_inter(space: EmbeddingSpace) -> float:
    """Mean distance of two class means; NaN with a single class."""
    means = space.class_sums.means
    return _mean_distance(means) if len(means) > 1 else math.nan


@register_structure("pi-ratio")
def pi_ratio(space: EmbeddingSpace) -> float:
    """Embedding density: pi-intra / pi-inter; NaN where all class means are equal."""
    between = pi_inter(space)
    return space.distance_within_classes / between if between > 0 else math.nan


@register_structure("rho")
def spectral_decay(space: EmbeddingSpace) -> float:
    """KL(uniform || normalised singular values): 0 where every direction is used alike."""
    return _divergence_from_uniform(space.singular_values)


@register_structure("pi-intra-cosine")
def pi_intra_cosine(space: EmbeddingSpace) -> float:
    """As pi-intra, by 1 - cosine (the authors' code)."""
    found = space.unit_class_sums
    # sum over ordered pairs of a.b = |sum a|^2 - sum |a|^2
    cosines = (found.sums.square().sum(1) - found.squares) / (found.counts * (found.counts - 1))
    several = found.counts > 1
    return float((1 - cosines[several]).mean())


@register_structure("pi-inter-cosine")
def pi_inter_cosine(space: EmbeddingSpace) -> float:
    """As pi-inter, by 1 - cosine of the class means (the authors' code)."""
    means = unit_rows(space.unit_class_sums.sums, torch.float64)
    number = len(means)
    if number < 2:
        return math.nan
    cosines = (means.sum(0).square().sum() - means.square().sum()) / (number * (number - 1))
    return float(1 - cosines)


@register_structure("pi-ratio-cosine")
def pi_ratio_cosine(space: EmbeddingSpace) -> float:
    """pi-intra-cosine / pi-inter-cosine (the authors' code)."""
    between = pi_inter_cosine(space)
    return pi_intra_cosine(space) / between if between > 0 else math.nan


@register_structure("rho-spectrum@k")
def spectrum_decay(space: EmbeddingSpace, k: int) -> float:
    """As rho, of the singular values from the k-th to the last but one (the authors' code)."""
    descending = space.singular_values.flip(0)[: space.embeddings.shape[1] - 1]
    return _divergence_from_uniform(descending[k - 1 :])


@METRICS.register("alignment", paper=WANG_ISOLA)
@diagnostic
def alignment(space: EmbeddingSpace) -> float:
    """Mean squared distance of two items of one class, over all such pairs; NaN without any."""
    squares, pairs = space.class_sums.squared_distances
    return float(squares.sum() / pairs.sum())


@METRICS.register("uniformity", paper=WANG_ISOLA)
@diagnostic
def uniformity(space: EmbeddingSpace) -> float:
    """Logarithm of the mean e^(-2 |a - b|^2) over all pairs; NaN with fewer than two items."""
    number = len(space.embeddings)
    if number < 2:
        return math.nan
    total = math.fsum(
        float((-2 * distances[counted].square()).exp().sum())
        for _, _, distances, counted in pair_distances(space.embeddings)
    )
    return math.log(total / (number * (number - 1) / 2)) if total > 0 else -math.inf


@METRICS.register("roc-auc")
def roc_auc(space: EmbeddingSpace) -> float:
    """The chance that a pair of one class is more similar than a pair of two classes."""
    positive, negative = space.pair_counts
    below = negative.cumsum(0) - negative / 2
    return float((positive * below).sum() / (positive.sum() * negative.sum()))


@METRICS.register("eer")
@diagnostic
def equal_error_rate(space: EmbeddingSpace) -> float:
    """The share of wrong answers where as many pairs are wrongly accepted as refused."""
    accepted, refused = _rates(space)
    if accepted.isnan().any():
        return math.nan
    apart = accepted - refused  # falls as the threshold grows
    after = int((apart <= 0).nonzero()[0])
    if after == 0:
        return float((accepted[0] + refused[0]) / 2)
    # between two thresholds both rates are taken as lines, which cross
    before = after - 1
    share = apart[before] / (apart[before] - apart[after])
    return float(accepted[before] + share * (accepted[after] - accepted[before]))


@METRICS.register("tar@k")
def true_accept_rate(space: EmbeddingSpace, k: int) -> float:
    """The share of pairs of one class accepted where 10^-k of the others are: tar@3 is at 0.001."""
    accepted, refused = _rates(space)
    if accepted.isnan().any():
        return math.nan
    allowed = (accepted <= 10.0**-k).nonzero()[0]
    return float(1 - refused[allowed])


def _rates(space: EmbeddingSpace) -> tuple[Tensor, Tensor]:
    """Of wrongly accepted and of wrongly refused pairs, for thresholds from low to high."""
    positive, negative = space.pair_counts
    zero = positive.new_zeros(1)
    accepted = 1 - torch.cat([zero, negative.cumsum(0)]) / negative.sum()
    refused = torch.cat([zero, positive.cumsum(0)]) / positive.sum()
    return accepted, refused


def utilization(
    test: ArrayLike, training: ArrayLike, *, distance: DistanceName = "cosine", memory_mb: int = 512
) -> float:
    """Mean over test items of the squared distance to the nearest training item.

    ``u(Q, X) = 1/|Q| sum_(q in Q) min_(x in X) |q - x|^2`` (Metrix): low where the training
    embeddings, clean or clean and mixed together, cover the places of the test items. Exact, in
    blocks.

    Args:
        test: One row per test item.
        training: One row per training item.
        distance: "cosine" (rows of unit length), or "l2" (rows as given).
        memory_mb: Memory for blocks of distances.

    Returns:
        The mean.

    Raises:
        BadInput: One of the two is empty, or their numbers of columns differ.

    >>> utilization([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]])
    1.0
    """
    queries = embeddings_of(test, "test embeddings", distance)
    items = embeddings_of(training, "training embeddings", distance).to(queries.device)
    if len(queries) == 0:
        raise BadInput("there are no test embeddings")
    if len(items) == 0:
        raise BadInput("there are no training embeddings")
    places = nearest(queries, items, 1, distance=distance, memory_mb=memory_mb)[1][:, 0]
    gaps = queries.double() - items[places].double()
    return float(gaps.square().sum(1).mean())


@METRICS.register("utilization", paper="Venkataramanan et al., ICLR 2022")
@diagnostic
@needs_training
def utilization_of_space(space: EmbeddingSpace) -> float:
    """Mean over test items of the squared distance to the nearest training item."""
    return utilization(space.embeddings, training_of(space).embeddings, distance="l2")


def _divergence_from_uniform(values: Tensor) -> float:
    """KL(uniform || values / their sum); NaN where there are none, or all are 0."""
    if len(values) == 0 or values.max() == 0:
        return math.nan
    shares = values.clamp_min(SMALLEST * float(values.max()))
    shares = shares / shares.sum()
    return max(0.0, float(-math.log(len(shares)) - shares.log().mean()))


def k_means(embeddings: Tensor, clusters: int, seed: int = 0) -> Ints:
    """Cluster index per row, by the k-means of FAISS."""
    import faiss

    rows = embeddings.cpu().numpy()
    if clusters >= len(rows):
        return np.arange(len(rows))
    means = faiss.Kmeans(
        rows.shape[1],
        clusters,
        niter=ITERATIONS,
        nredo=RESTARTS if len(rows) * clusters <= CHEAP else 1,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(rows),
    )
    means.train(rows)
    found: Ints = means.index.search(rows, 1)[1][:, 0].astype(np.int64)
    return found


def pair_f1(classes: Ints, clusters: Ints) -> float:
    """F1 over pairs of items; 1 where neither side joins any pair.

    >>> pair_f1(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    from sklearn.metrics.cluster import pair_confusion_matrix

    (_, wrong), (missed, right) = pair_confusion_matrix(classes, clusters)
    return float(2 * right / (2 * right + wrong + missed)) if right + wrong + missed else 1.0


def _mean_distance(points: Tensor) -> float:
    """Mean Euclidean distance of two different points."""
    if len(points) <= BLOCK:
        return float(torch.nn.functional.pdist(points).mean())  # 0 where all are equal
    blocks = pair_distances(points)
    total = math.fsum(float(distances[counted].sum()) for _, _, distances, counted in blocks)
    return total / (len(points) * (len(points) - 1) / 2)


class Mixes(NamedTuple):
    """Mixed examples, ``share`` of an item of one class and the rest of an item of another.

    Attributes:
        embeddings: One row per mix.
        first: The class of the first item of each.
        second: The class of the second.
        share: How much of the first is in each, from 0 to 1.
    """

    embeddings: ArrayLike
    first: ArrayLike
    second: ArrayLike
    share: ArrayLike


@dataclass(frozen=True, eq=False)
class DistanceHistogram:
    """How many positive and negative pairs have which distance.

    Attributes:
        edges: [bins + 1], from 0 to 2.
        positive: [bins], the total weight of the positive pairs in each bin.
        negative: [bins], that of the negative pairs.
    """

    edges: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]

    def densities(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both histograms with an area of 1, or 0 where there are no pairs."""
        width = self.edges[1] - self.edges[0]
        positive, negative = (
            counts / (max(counts.sum(), np.finfo(np.float64).tiny) * width)
            for counts in (self.positive, self.negative)
        )
        return positive, negative


def distance_histogram(
    embeddings: ArrayLike, labels: ArrayLike, mixes: Mixes | None = None, *, bins: int = 100
) -> DistanceHistogram:
    """Count the Euclidean distances of unit vectors by positive and negative pairs, in blocks.

    Args:
        embeddings: One row per item; its length does not matter.
        labels: One label per item.
        mixes: None: all pairs of two items are counted, each once. Otherwise all pairs of an item
            and a mix that contains its class: a mix with the share y of that class counts y as
            a positive and 1 - y as a negative of the item, as in the mixed loss.
        bins: Number of bins of equal width between 0 and 2.

    Returns:
        Both histograms.

    Raises:
        BadInput: The embeddings, labels or mixes do not fit together.

    >>> distance_histogram([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 0], bins=2).positive
    array([1., 0.])
    """
    if bins < 1:
        raise BadInput(f"bins must be at least 1, not {bins}")
    items = embeddings_of(embeddings, "embeddings")
    names = _classes(labels, "labels", len(items))
    others, first, second, share = None, names, names, np.ones(len(names))
    if mixes is not None:
        others = embeddings_of(mixes.embeddings, "mixed embeddings").to(items.device)
        first = _classes(mixes.first, "labels of the first", len(others))
        second = _classes(mixes.second, "labels of the second", len(others))
        share = _shares(mixes.share, len(others))
        if others.shape[1] != items.shape[1]:
            raise BadInput(
                f"embeddings have {items.shape[1]} columns and mixed ones {others.shape[1]}"
            )
    codes = np.unique(np.concatenate([names, first, second]), return_inverse=True)[1]
    own, one, two, of_first = (
        torch.from_numpy(part).to(items.device)
        for part in (*np.split(codes, [len(names), len(names) + len(first)]), share)
    )
    counts = torch.zeros(2, bins, dtype=torch.float64, device=items.device)
    for rows, columns, distances, counted in pair_distances(items, others):
        in_first = own[rows, None] == one[columns]
        in_second = own[rows, None] == two[columns]
        positive = in_first * of_first[columns]
        if mixes is not None:
            positive += in_second * (1 - of_first[columns])
            counted &= in_first | in_second
        places = (distances[counted] * (bins / FARTHEST)).long().clamp_max_(bins - 1)
        counts[0] += torch.bincount(places, positive[counted], bins)
        counts[1] += torch.bincount(places, 1 - positive[counted], bins)
    return DistanceHistogram(np.linspace(0, FARTHEST, bins + 1), *counts.cpu().numpy())


def _classes(values: ArrayLike, what: str, number: int) -> NDArray[np.generic]:
    found = labels_of(values, what)
    if found.ndim == 2:
        raise BadInput(f"{what} must be one label per item, not a multi-hot table")
    if len(found) != number:
        raise BadInput(f"there are {number} embeddings but {len(found)} {what}")
    return found


def _shares(values: ArrayLike, number: int) -> NDArray[np.float64]:
    found = np.asarray(values.cpu() if isinstance(values, Tensor) else values, np.float64)
    if found.shape != (number,) or not ((found >= 0) & (found <= 1)).all():
        raise BadInput(f"the shares of mixes must be {number} numbers from 0 to 1")
    return found
