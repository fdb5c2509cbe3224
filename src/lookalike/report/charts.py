"""The data of the page's small charts: recall by k, and the score against other properties."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lookalike.compare.contenders import Contender
from lookalike.report.tables import metric_label
from lookalike.study.results import Which

__all__ = ["Point", "RecallCurve", "Scatter", "recall_curves", "scatters"]


@dataclass(frozen=True)
class RecallCurve:
    """How often one of the k nearest is right."""

    name: str
    ks: list[int]
    scores: list[float]
    halves: list[float | None]


@dataclass(frozen=True)
class Point:
    """One method in a chart of two properties."""

    name: str
    x: float
    y: float
    half: float | None


@dataclass(frozen=True)
class Scatter:
    """The score against one property of the embedding."""

    key: str
    title: str
    label: str
    note: str
    log: bool
    points: list[Point]


def recall_curves(contenders: Sequence[Contender], which: Which) -> list[RecallCurve]:
    """The curves of those that were measured at two or more k."""
    found = []
    for one in contenders:
        metrics = [metric for metric in one.metrics if metric.startswith("recall@")]
        ks = sorted(int(metric.partition("@")[2]) for metric in metrics)
        scores = [one.interval(f"recall@{k}", which) for k in ks]
        kept = [score for score in scores if score is not None]
        if len(kept) == len(ks) > 1:
            means = [score.mean for score in kept]
            found.append(RecallCurve(one.name, ks, means, [score.half for score in kept]))
    return found


def scatters(
    contenders: Sequence[Contender],
    metric: str,
    which: Which,
    structure: Mapping[str, Mapping[str, float]],
) -> list[Scatter]:
    """Score against size, density and spectral decay, where at least two values differ.

    ``structure`` has the measures of embeddings whose results do not tell them, by name.
    """
    score = metric_label(metric)
    charts = [
        Scatter(
            "size",
            f"{score} by embedding size",
            "numbers in an embedding",
            "More numbers cost memory and time; a method should not win by size alone.",
            True,
            _points(contenders, metric, which, {c.name: c.dim for c in contenders if c.dim}),
        )
    ]
    words = {
        "pi-ratio": (
            f"{score} by embedding density",
            "density: distance inside / between classes",
            "Roth et al. (ICML 2020) find that packing classes too tightly generalises worse.",
        ),
        "rho": (
            f"{score} by spectral decay",
            "spectral decay: low uses many directions",
            "Roth et al. (ICML 2020) find that low decay goes with better unseen classes.",
        ),
    }
    for key, (title, label, note) in words.items():
        values = {c.name: _measure(c, key, which, structure) for c in contenders}
        known = {name: value for name, value in values.items() if value is not None}
        points = _points(contenders, metric, which, known)
        charts.append(Scatter(key, title, label, note, False, points))
    return [chart for chart in charts if len({point.x for point in chart.points}) > 1]


def _measure(
    one: Contender, key: str, which: Which, structure: Mapping[str, Mapping[str, float]]
) -> float | None:
    told = one.interval(key, which)
    return told.mean if told is not None else structure.get(one.name, {}).get(key)


def _points(
    contenders: Sequence[Contender], metric: str, which: Which, values: Mapping[str, float]
) -> list[Point]:
    found = []
    for one in contenders:
        score = one.interval(metric, which)
        if score is not None and one.name in values:
            found.append(Point(one.name, float(values[one.name]), score.mean, score.half))
    return found
