"""Charts of methods: training, Recall by k, score against a property, differences, power, ranks."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from lookalike.compare.comparison import OnDataset, Tournament
from lookalike.compare.contenders import MethodResult
from lookalike.compare.uncertainty import Bounds, Difference, Scope
from lookalike.compare.variance import POWER, detectable
from lookalike.report.charts import Chart, Point, Style, chart, colour
from lookalike.report.formatting import metric_label, signed
from lookalike.study.intervals import Interval

PROPERTIES = {
    "size": (
        "embedding size",
        "dimensions of an embedding",
        "More dimensions cost memory and time; a method should not win by size alone.",
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
MOST_LINES = 8
"""Lines of more methods would lie on one another."""
TRAININGS = (2, 5, 10, 50)

Styles = Mapping[str, Style]


def percents(score: Interval) -> tuple[float, float | None]:
    """A score with half its interval, as charts show them."""
    return 100 * score.mean, None if score.half is None else 100 * score.half


def training_charts(contenders: Sequence[MethodResult], styles_of: Styles) -> list[Chart]:
    """The validation score of the methods that have runs (of each the first), and each loss."""
    runs = [(one, one.runs[0]) for one in contenders if one.runs and not one.baseline]
    logs = [(one, run, run.epochs()) for one, run in runs]
    logs = [(one, run, log) for one, run, log in logs if any("loss" in epoch for epoch in log)]
    if not logs:
        return []
    configs = [one.config for one, _, _ in logs if one.config]
    metric = configs[0].train.metric if configs else "map@r"
    shape: dict[str, Any] = {"xaxis": {"rangemode": "tozero", "tickformat": "d"}, "x": "epoch"}
    hover = "epoch %{x}: %{y:.4~g}"
    scores, tested, losses = [], [], []
    for one, run, log in logs:
        key = f"validation {metric}"
        own = [Point(one.name, e["epoch"], 100 * e[key]) for e in log if key in e]
        scores += own
        tested += [point for point in own if point.x == run.result.get("chosen_epoch")]
        curve = [Point(one.name, e["epoch"], e["loss"]) for e in log if "loss" in e]
        losses.append(
            chart("lines", one.name, curve, y="loss", height=190, styles_of=styles_of, hover=hover,
                  **shape)
        )  # fmt: skip
    ring = {"symbol": "circle-open", "size": 15, "color": colour("ink"), "line": {"width": 1.5}}
    rings = go.Scatter(
        x=[point.x for point in tested], y=[point.y for point in tested],
        mode="markers", hoverinfo="skip", marker=ring,
    )  # fmt: skip
    validation = chart(
        "lines",
        f"{metric_label(metric)} on validation classes",
        scores,
        y="validation score, per cent",
        note="Per cent, by epoch. A ring marks the epoch that was tested.",
        styles_of=styles_of,
        hover=hover,
        extra=[rings],
        **shape,
    )
    return [validation, *losses]


def recall_chart(contenders: Sequence[MethodResult], styles_of: Styles) -> Chart | None:
    """Recall@k by k of methods that were measured at two or more, as points above the median."""
    curves: dict[str, dict[int, Interval]] = {}
    for one in contenders:
        ks = sorted(int(m.partition("@")[2]) for m in one.metrics if m.startswith("recall@"))
        scores = {k: score for k in ks if (score := one.interval(f"recall@{k}"))}
        if len(ks) > 1 and len(curves) < MOST_LINES:
            curves[one.name] = scores
    if not curves:
        return None
    every = sorted({k for curve in curves.values() for k in curve})
    middle = {k: median(c[k].mean for c in curves.values() if k in c) for k in every}
    points = [
        Point(name, k, score - 100 * middle[k], half, f"{score:.1f} per cent")
        for name, curve in curves.items()
        for k, (score, half) in zip(curve, map(percents, curve.values()), strict=True)
    ]
    return chart(
        "lines",
        "Recall@k by k",
        points,
        x="k",
        y="points above the median",
        xaxis={"type": "log", "tickvals": every, "ticktext": [str(k) for k in every]},
        note="Share of the queries with one of their class among the k nearest, in points above "
        f"the median of the rows shown: at most the first {MOST_LINES} of the table, which has all "
        "scores.",
        styles_of=styles_of,
        limits=None,
        hover="Recall@%{x}: %{y:+.1f}",
        legend=False,
    )


def property_charts(
    contenders: Sequence[MethodResult],
    metric: str,
    structure: Mapping[str, Mapping[str, float]],
    styles_of: Styles,
) -> list[Chart]:
    """Score against size, density and spectral decay, where at least two values differ.

    ``structure`` has these measures, by name, for methods whose results do not include them.
    """
    charts = []
    for key, (by, label, note) in PROPERTIES.items():
        points = []
        for one in contenders:
            score, measured = one.interval(metric), one.interval(key)
            value = measured.mean if measured else structure.get(one.name, {}).get(key)
            value = one.dim or None if key == "size" else value
            if score is not None and value is not None:
                points.append(Point(one.name, float(value), *percents(score)))
        values = sorted({point.x for point in points})
        if len(values) > 1:
            ticks = {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
            across = {"type": "log", **ticks} if key == "size" else {"nticks": 6}
            title, up = f"{metric_label(metric)} by {by}", f"{metric_label(metric)}, per cent"
            charts.append(
                chart("dots", title, points, x=label, y=up, xaxis=across, note=note,
                      styles_of=styles_of, legend=False)
            )  # fmt: skip
    return charts


# Differences to the best.

VERDICTS: dict[Scope, tuple[str, str, str]] = {
    "generalizes": ("wrong", "worse", "better"),
    "these training runs": (
        "c4",
        "lower, these runs only",
        "higher, these runs only",
    ),
    "this test set": ("c4", "lower, this test set only", "higher, this test set only"),
    "open": ("bare", "cannot be told apart", "cannot be told apart"),
}
"""By scope: the colour, and the words for a method below and above the best."""


class DifferenceRow(NamedTuple):
    """A method minus the best trained one, in units of the score.

    Attributes:
        name: The method.
        mean: The difference.
        trainings: Its interval over trainings.
        classes: Its interval over trainings and test classes.
        colour: By the verdict.
        verdict: In words.
        share: The share of bootstrap samples in which it scores higher than the best.
    """

    name: str
    mean: float
    trainings: Bounds | None
    classes: Bounds | None
    colour: str
    verdict: str
    share: float | None


def difference_rows(part: OnDataset) -> list[DifferenceRow]:
    """All methods but the best, from the nearest to it to the farthest."""
    return [_row(one, part.trained[0].name) for one in part.to_best]


def _row(one: Difference, best: str) -> DifferenceRow:
    ink, worse, better = VERDICTS[one.scope]
    if one.worse == best:
        ink = "right" if ink == "wrong" else ink
        bounds = (one.over_trainings, one.over_classes)
        return DifferenceRow(one.better, one.mean, *bounds, ink, better, one.share)
    trainings, classes = (
        Bounds(-bounds.high, -bounds.low) if bounds else None
        for bounds in (one.over_trainings, one.over_classes)
    )
    share = None if one.share is None else 1 - one.share
    return DifferenceRow(one.worse, -one.mean, trainings, classes, ink, worse, share)


def difference_chart(part: OnDataset, metric: str) -> Chart:
    """Every method minus the best. Thick: over trainings; thin: over trainings x test classes."""
    rows = difference_rows(part)
    best = part.trained[0].name
    labels = [f"{row.name}  {signed(row.mean)}  {row.verdict}" for row in rows]
    inks = {label: colour(row.colour) for label, row in zip(labels, rows, strict=True)}
    spans = []
    for number, row in enumerate(rows):
        for bounds, width, opacity in ((row.trainings, 9, 0.45), (row.classes, 2, 1)):
            if bounds is not None:
                line = {"color": colour(row.colour), "width": width}
                ends = [100 * bounds.low, 100 * bounds.high]
                spans.append(
                    go.Scatter(x=ends, y=[number] * 2, mode="lines", line=line, opacity=opacity,
                               hoverinfo="x")
                )  # fmt: skip
    points = [Point(best, 100 * r.mean, label) for r, label in zip(rows, labels, strict=True)]
    unit = "whole studies" if part.studies > 1 else "training runs"
    thick = f"thick: over {part.trainings} {unit}" if part.trainings > 1 else ""
    over = f"{unit} x " if part.trainings > 1 else ""
    thin = f"thin: over {over}{part.classes:,} test classes" if part.classes else ""
    zero = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    made = chart(
        "rows",
        f"Differences to {best}",
        points,
        x=f"points of {metric_label(metric)}; higher is better",
        note="; ".join(filter(None, (thick, thin))),
        shapes=[zero | {"line": {"color": colour("ink"), "width": 1}}],
        inks=inks,
        extra=spans,
        hover="%{x:.2f}",
    )
    made.figure.data[0].marker.color = [colour(row.colour) for row in rows]
    return made


# What a larger study would see.


def power_sentence(part: OnDataset) -> str:
    """The smallest true difference that a study like this one sees; empty where it is unknown."""
    if not part.variances:
        return ""
    pairs = len(part.differences)
    least = 100 * float(detectable(part.variances, part.trainings, part.classes, pairs))
    return (
        f"A study like this one tells a true difference of {least:.1f} points in "
        f"{100 * POWER:.0f} % of cases (by the median variance of the differences to the best)."
    )


def power_chart(part: OnDataset, metric: str) -> Chart | None:
    """The smallest difference that would be told, by the number of test classes and trainings.

    None where scores per class were not kept or do not vary, or one method was trained.
    """
    known = part.variances
    if not known:
        return None
    pairs = len(part.differences)
    here = 100 * float(detectable(known, part.trainings, part.classes, pairs))
    if here == 0:  # the same scores on every class
        return None
    classes = np.unique(np.geomspace(10, max(3000, 4 * part.classes), 60).round())
    counts = [1] if known[0].runs is None else sorted({*TRAININGS, part.trainings})
    curves = {n: 100 * detectable(known, n, classes, pairs) for n in counts}
    points = [
        Point(f"{n} training{'s' * (n != 1)}", float(number), float(value))
        for n, curve in curves.items()
        for number, value in zip(classes, curve, strict=True)
    ]
    shown = [curve for n, curve in curves.items() if n >= min(part.trainings, 5)]
    top = 1.1 * max(here * 2, min(3 * here, float(np.max(shown))))
    mark = go.Scatter(
        x=[part.classes], y=[here], mode="markers+text", text=[f"this study: {here:.1f}"],
        marker={"size": 11, "color": colour("ink")}, textposition="top right",
        textfont={"color": colour("ink")}, hoverinfo="skip",
    )  # fmt: skip
    return chart(
        "curves",
        "What a larger study would see",
        points,
        x="test classes",
        y="points",
        xaxis={"type": "log", "dtick": 1},
        yaxis={"range": [0, top]},
        wide=True,
        note=f"The smallest true difference, in points of {metric_label(metric)}, that would be "
        f"called better in {100 * POWER:.0f} % of studies with so many test classes and training "
        f"runs of each method; from the variances of the differences to {part.trained[0].name} "
        "(their medians).",
        hover="%{x:,} classes: %{y:.1f}",
        extra=[mark],
    )


def ranks_chart(tournament: Tournament) -> Chart:
    """Average ranks, with bars beside methods that cannot be told apart (Demšar, JMLR 2006)."""
    standings = tournament.standings
    names = [one.name for one in standings]
    high = max(one.rank for one in standings)
    points = [
        Point(
            "average rank",
            one.rank,
            f"{one.name}  {one.rank:.2f}",
            None if tournament.groups else one.deviation,
        )
        for one in standings
    ]
    bars = [
        go.Scatter(
            x=[high + (high - 1) * 0.05 * number] * 2,
            y=[names.index(group[0]) - 0.15, names.index(group[-1]) + 0.15],
            mode="lines",
            line={"color": colour("ink"), "width": 5},
            hoverinfo="skip",
        )
        for number, group in enumerate(tournament.groups, 1)
    ]
    notes = [f"Blocks: {tournament.about}.", "The ranks are not tested."]
    if tournament.rule:
        notes[1] = f"A bar joins methods of which no two can be told apart by {tournament.rule}."
    if tournament.distance is not None:
        notes.append(f"Critical difference: {tournament.distance:.2f}.")
    return chart(
        "rows",
        "Average ranks",
        points,
        x="average rank, 1 is best",
        note=" ".join(notes),
        limits=None,
        hover="%{x:.2f}",
        extra=bars,
    )
