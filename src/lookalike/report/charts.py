"""The data of the page's charts: training curves, recall by k, score against other properties."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lookalike.compare.contenders import MethodResult
from lookalike.report.formatting import metric_label

COLOURS = 6
SCATTERS = {
    "size": (
        "embedding size",
        "numbers in an embedding",
        "More numbers cost memory and time; a method should not win by size alone.",
    ),
    "pi-ratio": (
        "embedding density",
        "density: distance inside / between classes",
        "Roth et al. (ICML 2020) find that packing classes too tightly generalises worse.",
    ),
    "rho": (
        "spectral decay",
        "spectral decay: low uses many directions",
        "Roth et al. (ICML 2020) find that low decay goes with better unseen classes.",
    ),
}


@dataclass(frozen=True)
class Method:
    """The style of a method: colour (None: grey, for baselines), and line where colours repeat."""

    name: str
    colour: int | None
    line: int


def method_styles(contenders: Iterable[MethodResult]) -> list[Method]:
    """One style for each name, the same on every data set; baselines come last."""
    everyone = sorted(contenders, key=lambda one: one.baseline)
    trained = styles(one.name for one in everyone if not one.baseline)
    names = {method.name for method in trained}
    bare = dict.fromkeys(one.name for one in everyone if one.baseline)
    return trained + [Method(name, None, at) for at, name in enumerate(bare) if name not in names]


def styles(names: Iterable[str]) -> list[Method]:
    """One style for each name, in their order."""
    found = enumerate(dict.fromkeys(names))
    return [Method(name, at % COLOURS, at // COLOURS) for at, name in found]


@dataclass(frozen=True)
class Curve:
    """One method by epoch. Not every epoch need be validated, so the two lists of epochs differ."""

    name: str
    epochs: list[int]
    loss: list[float]
    validated: list[int]
    scores: list[float]
    chosen_epoch: int | None


def validation_metric(contenders: Sequence[MethodResult]) -> str:
    """The metric that chose the epoch of the first trained run."""
    trained = [one for one in contenders if not one.baseline and one.config is not None]
    return trained[0].config.train.metric if trained and trained[0].config else "map@r"


def curves(contenders: Sequence[MethodResult]) -> list[Curve]:
    """The curves of the runs that were trained (a method's first), by one validation metric."""
    key = f"validation {validation_metric(contenders)}"
    found = [_curve(one, key) for one in contenders if one.runs and not one.baseline]
    return [curve for curve in found if curve.epochs]


def _curve(one: MethodResult, key: str) -> Curve:
    run = one.runs[0]
    log = run.epochs()
    trained = [entry for entry in log if "loss" in entry]  # all but the state before training
    validated = [entry for entry in log if key in entry]
    return Curve(
        name=one.name,
        epochs=[int(entry["epoch"]) for entry in trained],
        loss=[float(entry["loss"]) for entry in trained],
        validated=[int(entry["epoch"]) for entry in validated],
        scores=[float(entry[key]) for entry in validated],
        chosen_epoch=run.result.get("chosen_epoch"),
    )


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


def recall_curves(contenders: Sequence[MethodResult]) -> list[RecallCurve]:
    """The curves of methods that were measured at two or more k."""
    found = []
    for one in contenders:
        named = [metric for metric in one.metrics if metric.startswith("recall@")]
        ks = sorted(int(metric.partition("@")[2]) for metric in named)
        kept = [score for k in ks if (score := one.interval(f"recall@{k}")) is not None]
        if len(kept) == len(ks) > 1:
            means, halves = [score.mean for score in kept], [score.half for score in kept]
            found.append(RecallCurve(one.name, ks, means, halves))
    return found


def scatters(
    contenders: Sequence[MethodResult], metric: str, structure: Mapping[str, Mapping[str, float]]
) -> list[Scatter]:
    """Score against size, density and spectral decay, where at least two values differ.

    ``structure`` has these measures, by name, for methods whose results do not include them.
    """
    charts = []
    for key, (by, label, note) in SCATTERS.items():
        points = []
        for one in contenders:
            score, told = one.interval(metric), one.interval(key)
            value = told.mean if told else structure.get(one.name, {}).get(key)
            value = one.dim or None if key == "size" else value
            if score is not None and value is not None:
                points.append(Point(one.name, float(value), score.mean, score.half))
        title = f"{metric_label(metric)} by {by}"
        charts.append(Scatter(key, title, label, note, key == "size", points))
    return [chart for chart in charts if len({point.x for point in chart.points}) > 1]
