"""``pytorch_metric_learning.utils.accuracy_calculator``: scores by name, and by subclass."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput, Unsupported, did_you_mean
from lookalike.pml.utils.inference import FaissKMeans, FaissKNN

__all__ = ["AccuracyCalculator", "precision_at_k"]

Comparison: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Formula: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Hits [queries, neighbours], their places from 1, and R [queries, 1] in; a value per query out."""
Summary: TypeAlias = float | list[float]

LOGGER = logging.getLogger("lookalike.pml")
PREFIX = "calculate_"


def precision_at_k(
    knn_labels: Tensor,
    gt_labels: Tensor,
    k: int,
    avg_of_avgs: bool = False,
    return_per_class: bool = False,
    label_comparison_fn: Comparison = torch.eq,
) -> Summary:
    """``#{relevant among the first k} / k``.

    Args:
        knn_labels: [queries, neighbours, ...], the labels of the nearest.
        gt_labels: [queries, 1, ...], those of the queries.
        k: How many neighbours count.
        avg_of_avgs: Whether every class weighs the same.
        return_per_class: Whether the means of the classes are returned.
        label_comparison_fn: Whether two labels agree.

    Returns:
        A number, or a list in order of the classes.

    >>> precision_at_k(torch.tensor([[7, 8], [7, 8]]), torch.tensor([[7], [8]]), 1)
    0.5
    """
    hits = label_comparison_fn(gt_labels, knn_labels)[:, :k].double()
    return summarize(hits.sum(1) / k, gt_labels, avg_of_avgs, return_per_class)


def summarize(values: Tensor, labels: Tensor, avg_of_avgs: bool, return_per_class: bool) -> Summary:
    """The mean over queries, the mean over classes of their means, or those means themselves."""
    if not (avg_of_avgs or return_per_class):
        return values.mean().item()
    codes = torch.unique(labels.reshape(len(labels), -1), dim=0, return_inverse=True)[1]
    means = torch.stack([values[codes == code].mean() for code in range(int(codes.max()) + 1)])
    return means.tolist() if return_per_class else means.mean().item()


def _precision_of_hits(hits: Tensor, place: Tensor, relevant: Tensor) -> Tensor:
    return (hits.cumsum(1) * hits / place / relevant).sum(1)


@dataclass(eq=False, repr=False)
class AccuracyCalculator:
    """Scores of embeddings by PML's names; a subclass adds its own as ``calculate_name``.

    ``calculate_name(**kwargs)`` of a subclass gets ``query``, ``reference``, ``query_labels``,
    ``reference_labels``, ``ref_includes_query``, ``label_comparison_fn``, and, if ``requires_knn``
    names it, ``knn_labels``, ``knn_distances``, ``not_lone_query_mask`` and ``label_counts`` (the
    different labels of the queries, and how many references agree with each); if
    ``requires_clustering`` names it, ``cluster_labels``. The distance is Euclidean, as PML's.

    Args:
        include: Names of scores; none: all.
        exclude: Names of scores to leave out.
        avg_of_avgs: Whether every class weighs the same.
        return_per_class: Whether to return the scores of every class.
        k: How many neighbours count; None: all; ``max_bin_count``: the size of the largest class.
        label_comparison_fn: Whether two labels agree; None: equality.
        device: Where to compute; None: where the embeddings are.
        knn_func: ``(query, k, reference, ref_includes_query) -> distances, indices``; None: FAISS.
        kmeans_func: ``(rows, number) -> clusters``; None: FAISS.

    >>> rows, labels = torch.eye(4)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 1])
    >>> AccuracyCalculator(include=("precision_at_1",)).get_accuracy(rows, labels)
    {'precision_at_1': 1.0}
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    avg_of_avgs: bool = False
    return_per_class: bool = False
    k: int | Literal["max_bin_count"] | None = None
    label_comparison_fn: Any = None
    device: torch.device | None = None
    knn_func: Any = None
    kmeans_func: Any = None

    def __post_init__(self) -> None:
        if self.avg_of_avgs and self.return_per_class:
            raise BadInput("avg_of_avgs and return_per_class exclude each other")
        k = self.k
        if not (k is None or k == "max_bin_count" or (isinstance(k, int) and k > 0)):
            raise BadInput(f"k = {k!r} is invalid: a number from 1, None or 'max_bin_count'")
        names = [name.removeprefix(PREFIX) for name in dir(self) if name.startswith(PREFIX)]
        self.names = self._chosen(names, self.include, self.exclude)
        self.knn_func = self.knn_func or FaissKNN()
        self.kmeans_func = self.kmeans_func or FaissKMeans(niter=20)
        if self.label_comparison_fn and set(self.names) & set(self.requires_clustering()):
            raise Unsupported("clustering knows no comparison of labels; exclude NMI and AMI")
        self.label_comparison_fn = self.label_comparison_fn or torch.eq

    @staticmethod
    def _chosen(names: list[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
        for given in (*include, *exclude):
            if given not in names:
                raise BadInput(f"there is no score '{given}'; {did_you_mean(given, names)}")
        return [n for n in names if (not include or n in include) and n not in exclude]

    def get_curr_metrics(self) -> list[str]:
        """The names of the scores."""
        return list(self.names)

    def requires_clustering(self) -> list[str]:
        """The scores that get ``cluster_labels``."""
        return ["NMI", "AMI"]

    def requires_knn(self) -> list[str]:
        """The scores that get ``knn_labels``."""
        ranked = ["precision_at_1", "r_precision", "mean_reciprocal_rank"]
        return [*ranked, "mean_average_precision", "mean_average_precision_at_r"]

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The scores of queries against references, or against one another.

        Args:
            query: One row per query, a tensor or an array.
            query_labels: The class of each; rows where ``label_comparison_fn`` compares them.
            reference: One row per item; None: the queries themselves.
            reference_labels: The class of each.
            ref_includes_query: Whether the first references are the queries.
            include: Names of scores; none: all of this calculator.
            exclude: Names of scores to leave out.

        Returns:
            A number for each name, or with ``return_per_class`` a list in order of the classes.
        """
        names = self._chosen(self.names, include, exclude)
        if reference is None:
            reference, reference_labels, ref_includes_query = query, query_labels, True
        rows, labels, others, of_others = (
            torch.as_tensor(each).to(self.device)
            for each in (query, query_labels, reference, reference_labels)
        )
        if len(rows) != len(labels) or len(others) != len(of_others):
            raise BadInput("embeddings and labels must have the same length")
        if ref_includes_query and not torch.equal(rows, others[: len(rows)]):
            raise BadInput("with ref_includes_query the first references must be the queries")
        known: dict[str, Any] = {
            "query": rows.float(),
            "query_labels": labels,
            "reference": others.float(),
            "reference_labels": of_others,
            "ref_includes_query": ref_includes_query,
            "label_comparison_fn": self.label_comparison_fn,
        }
        if set(names) & set(self.requires_knn()):
            known |= self._neighbours(known)
        if set(names) & set(self.requires_clustering()):
            number = len(torch.unique(labels.flatten()))
            known["cluster_labels"] = self.kmeans_func(known["query"], number)
        return self._get_accuracy(self.get_function_dict(names) if names else {}, **known)

    def get_function_dict(
        self, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> dict[str, Callable[..., Any]]:
        """The ``calculate_`` methods by the names of their scores.

        Args:
            include: Names of scores; none: all of this calculator.
            exclude: Names of scores to leave out.

        Returns:
            Methods that take the arguments which the class describes.
        """
        names = self._chosen(self.names, include, exclude)
        return {name: getattr(self, PREFIX + name) for name in names}

    def _get_accuracy(
        self, function_dict: dict[str, Callable[..., Any]], **kwargs: Any
    ) -> dict[str, Any]:
        """What the methods say of these arguments, as PML calls them."""
        return {name: function(**kwargs) for name, function in function_dict.items()}

    def _relevant(self, arguments: dict[str, Any]) -> Tensor:
        """How many references are relevant to each query, by PML's ``label_counts``."""
        labels: Tensor = arguments["query_labels"]
        unique, counts = (
            torch.as_tensor(x, device=labels.device) for x in arguments["label_counts"]
        )
        same = (labels.unsqueeze(1) == unique).reshape(len(labels), len(unique), -1).all(2)
        found = (same * counts).sum(1)
        if arguments["ref_includes_query"]:
            found = found - _agree(self.label_comparison_fn(labels, labels)).long()
        return found

    def _neighbours(self, known: dict[str, Any]) -> dict[str, Any]:
        """What scores of neighbours get."""
        query, reference, others = known["query"], known["reference"], known["reference_labels"]
        unique, itself = torch.unique(known["query_labels"], dim=0), known["ref_includes_query"]
        same = self.label_comparison_fn
        matches = torch.stack([_agree(same(one.unsqueeze(0), others)).sum() for one in unique])
        most, largest = len(reference) - itself, int(matches.max()) - itself
        wanted = most if self.k is None else largest
        k = max(1, min(self.k if isinstance(self.k, int) else wanted, most))
        LOGGER.info("searching %d neighbours of %d queries", k, len(query))
        if k < largest:
            LOGGER.warning(
                f"k = {k} is less than the {largest} items that may be relevant to a query: "
                f"r_precision and mean_average_precision_at_r are of the first {k} neighbours only"
            )
        distances, indices = self.knn_func(query, k, reference, itself)
        found = {"label_counts": (unique, matches), "knn_distances": distances}
        some = self._relevant(known | found) > 0
        return found | {"knn_labels": others[indices], "not_lone_query_mask": some}

    def _score(self, formula: Formula, arguments: dict[str, Any]) -> Summary:
        """The formula over the queries that have a relevant item, R the number of these."""
        some, labels = arguments["not_lone_query_mask"], arguments["query_labels"]
        if not some.any():
            nothing = float("nan")
            return (
                [nothing] * len(torch.unique(labels, dim=0)) if self.return_per_class else nothing
            )
        labels, of_neighbours = labels[some], arguments["knn_labels"][some]
        hits = self.label_comparison_fn(labels[:, None], of_neighbours).double()
        place = torch.arange(1, hits.shape[1] + 1, device=hits.device)
        values = formula(hits, place, self._relevant(arguments)[some].unsqueeze(1))
        return summarize(values, labels, self.avg_of_avgs, self.return_per_class)

    def calculate_precision_at_1(self, **kwargs: Any) -> Summary:
        """Whether the nearest neighbour is relevant."""
        return self._score(lambda hits, *_: hits[:, 0], kwargs)

    def calculate_r_precision(self, **kwargs: Any) -> Summary:
        """``#{relevant among the first R} / R``, of those that were looked at."""
        return self._score(
            lambda hits, place, r: (hits * (place <= r)).sum(1) / (place <= r).sum(1), kwargs
        )

    def calculate_mean_average_precision(self, **kwargs: Any) -> Summary:
        """``1/R sum over relevant neighbours of the precision at their place``."""
        return self._score(_precision_of_hits, kwargs)

    def calculate_mean_average_precision_at_r(self, **kwargs: Any) -> Summary:
        """The same of relevant neighbours among the first R."""
        return self._score(
            lambda hits, place, r: _precision_of_hits(hits * (place <= r), place, r), kwargs
        )

    def calculate_mean_reciprocal_rank(self, **kwargs: Any) -> Summary:
        """``1 / rank of the first relevant neighbour``; 0 where there is none."""
        return self._score(lambda hits, place, _: (hits / place).amax(1), kwargs)

    def calculate_NMI(self, query_labels: Tensor, cluster_labels: Any, **_: Any) -> float:  # noqa: N802
        """Normalised mutual information of classes and clusters."""
        from sklearn.metrics import normalized_mutual_info_score as score

        return float(score(query_labels.cpu(), torch.as_tensor(cluster_labels).cpu()))

    def calculate_AMI(self, query_labels: Tensor, cluster_labels: Any, **_: Any) -> float:  # noqa: N802
        """Adjusted mutual information of classes and clusters."""
        from sklearn.metrics import adjusted_mutual_info_score as score

        return float(score(query_labels.cpu(), torch.as_tensor(cluster_labels).cpu()))


def _agree(found: Tensor) -> Tensor:
    """One truth value per label; all numbers of a row must agree."""
    return found.reshape(len(found), -1).all(1)
