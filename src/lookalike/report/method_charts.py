"""Charts of methods: training, Recall by k, score against a property, differences, power, ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import plotly.graph_objects as go

from lookalike.compare.comparison import OnDataset, Tournament
from lookalike.compare.contenders import MethodResult
from lookalike.compare.uncertainty import Bounds, Difference, Scope
from lookalike.compare.variance import POWER, detectable
from lookalike.report.charts import (
    Chart,
    Style,
    chart,
    colour,
    labelled_rows,
    points,
    styles,
)
from lookalike.report.formatting import metric_label, signed

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


def validation_metric(contenders: Sequence[MethodResult]) -> str:
    """The metric that chose the epoch of the first trained run."""
    trained = [one for one in contenders if not one.baseline and one.config is not None]
    return trained[0].config.train.metric if trained and trained[0].config else "map@r"


def training_charts(contenders: Sequence[MethodResult], by_name: Styles) -> list[Chart]:
    """The validation score of the methods that have runs (of each the first), and each loss."""
    key = f"validation {validation_metric(contenders)}"
    told = [(one.name, one.runs[0]) for one in contenders if one.runs and not one.baseline]
    logs = [(name, run, run.epochs()) for name, run in told]
    logs = [(name, run, log) for name, run, log in logs if any("loss" in epoch for epoch in log)]
    if not logs:
        return []
    epochs = {"rangemode": "tozero", "tickformat": "d"}
    lines, ring_x, ring_y, losses = [], [], [], []
    for name, run, log in logs:
        scores = {int(epoch["epoch"]): 100 * epoch[key] for epoch in log if key in epoch}
        style = by_name[name]
        told_hover = "epoch %{x}: %{y:.4~g}"
        lines.append(points([*scores], [*scores.values()], style, lines=True, hover=told_hover))
        chosen = run.result.get("chosen_epoch")
        if chosen in scores:
            ring_x.append(chosen)
            ring_y.append(scores[chosen])
        loss = {int(epoch["epoch"]): epoch["loss"] for epoch in log if "loss" in epoch}
        line = points([*loss], [*loss.values()], style, lines=True, hover=told_hover)
        losses.append(
            chart(name, [line], x="epoch", y="loss", xaxis=epochs, legend=(style,), height=190)
        )
    ring = {"symbol": "circle-open", "size": 15, "color": colour("ink"), "line": {"width": 1.5}}
    lines.append(go.Scatter(x=ring_x, y=ring_y, mode="markers", hoverinfo="skip", marker=ring))
    label = metric_label(key.removeprefix("validation "))
    validation = chart(
        f"{label} on validation classes",
        lines,
        x="epoch",
        y="validation score, per cent",
        xaxis=epochs,
        note="Per cent, by epoch. A ring marks the epoch that was tested.",
        legend=[by_name[name] for name, _, _ in logs],
    )
    return [validation, *losses]


def recall_chart(contenders: Sequence[MethodResult], by_name: Styles) -> Chart | None:
    """Recall@k by k of methods that were measured at two or more, as points above the median."""
    curves: dict[str, dict[int, tuple[float, float | None]]] = {}
    for one in contenders:
        ks = sorted(int(m.partition("@")[2]) for m in one.metrics if m.startswith("recall@"))
        found = {k: score for k in ks if (score := one.interval(f"recall@{k}")) is not None}
        if len(found) == len(ks) > 1:
            curves[one.name] = {k: (100 * s.mean, s.half) for k, s in found.items()}
    if not curves:
        return None
    shown = dict(list(curves.items())[:MOST_LINES])
    every = sorted({k for curve in shown.values() for k in curve})
    middle = {k: median(curve[k][0] for curve in shown.values() if k in curve) for k in every}
    lines = []
    for name, curve in shown.items():
        trace = points(
            [*curve],
            [score - middle[k] for k, (score, _) in curve.items()],
            by_name[name],
            half=[half and 100 * half for _, half in curve.values()],
            lines=True,
            texts=[f"{score:.1f} per cent" for score, _ in curve.values()],
            limits=None,
            hover="Recall@%{x}: %{y:+.1f}",
        )
        lines.append(trace)
    ticks = {"type": "log", "tickvals": every, "ticktext": [str(k) for k in every]}
    note = (
        "Share of the queries with one of their class among the k nearest, in points above the "
        f"median of the rows shown: at most the first {MOST_LINES} of the table, which has all "
        "scores."
    )
    return chart("Recall@k by k", lines, x="k", y="points above the median", xaxis=ticks, note=note)


def property_charts(
    contenders: Sequence[MethodResult],
    metric: str,
    structure: Mapping[str, Mapping[str, float]],
    by_name: Styles,
) -> list[Chart]:
    """Score against size, density and spectral decay, where at least two values differ.

    ``structure`` has these measures, by name, for methods whose results do not include them.
    """
    charts = []
    for key, (by, label, note) in PROPERTIES.items():
        traces, values = [], set()
        for one in contenders:
            score, told = one.interval(metric), one.interval(key)
            value = told.mean if told else structure.get(one.name, {}).get(key)
            value = one.dim or None if key == "size" else value
            if score is not None and value is not None:
                half = [score.half and 100 * score.half]
                style = by_name[one.name]
                traces.append(points([float(value)], [100 * score.mean], style, half=half))
                values.add(float(value))
        if len(values) > 1:
            ticks = {"tickvals": sorted(values), "ticktext": [f"{v:g}" for v in sorted(values)]}
            across = {"type": "log", **ticks} if key == "size" else {"nticks": 6}
            title, up = f"{metric_label(metric)} by {by}", f"{metric_label(metric)}, per cent"
            charts.append(chart(title, traces, x=label, y=up, xaxis=across, note=note))
    return charts


# Differences to the best.

VERDICTS: dict[Scope, tuple[str, str, str]] = {
    "generalizes": ("wrong", "worse", "better"),
    "these training runs": (
        "c4",
        "lower, these training runs only",
        "higher, these training runs only",
    ),
    "this test set": ("c4", "lower, this test set only", "higher, this test set only"),
    "open": ("bare", "cannot be told apart", "cannot be told apart"),
}
"""By scope: the colour, and the words for a method below and above the best."""


@dataclass(frozen=True)
class DifferenceRow:
    """A method minus the best trained one, in units of the score."""

    name: str
    mean: float
    trainings: Bounds | None
    classes: Bounds | None
    colour: str
    verdict: str
    share: float | None
    """The share of bootstrap samples in which it scores higher than the best."""


def difference_rows(part: OnDataset) -> list[DifferenceRow]:
    """All methods but the best, from the nearest to it to the farthest."""
    return [_row(one, part.trained[0].name) for one in part.to_best]


def _row(one: Difference, best: str) -> DifferenceRow:
    below = one.better == best
    ink, worse, better = VERDICTS[one.scope]
    return DifferenceRow(
        name=one.worse if below else one.better,
        mean=-one.mean if below else one.mean,
        trainings=_turned(one.over_trainings, below),
        classes=_turned(one.over_classes, below),
        colour="right" if ink == "wrong" and not below else ink,
        verdict=worse if below else better,
        share=None if one.share is None else 1 - one.share if below else one.share,
    )


def _turned(bounds: Bounds | None, turn: bool) -> Bounds | None:
    return Bounds(-bounds.high, -bounds.low) if bounds and turn else bounds


def difference_chart(part: OnDataset, metric: str) -> Chart:
    """Every method minus the best. Thick: over trainings; thin: over trainings x test classes."""
    rows = difference_rows(part)
    traces = []
    for number, row in enumerate(rows):
        ink = colour(row.colour)
        for bounds, width, opacity in ((row.trainings, 9, 0.45), (row.classes, 2, 1)):
            if bounds is not None:
                ends = [100 * bounds.low, 100 * bounds.high]
                line = {"color": ink, "width": width}
                span = go.Scatter(
                    x=ends, y=[number] * 2, mode="lines", line=line, opacity=opacity, hoverinfo="x"
                )
                traces.append(span)
        dot = {"size": 9, "color": ink}
        traces.append(go.Scatter(x=[100 * row.mean], y=[number], mode="markers", marker=dot))
    best, unit = part.trained[0].name, "whole studies" if part.studies > 1 else "trainings"
    thick = f"thick: over {part.trainings} {unit}" if part.trainings > 1 else ""
    over = f"{unit} x " if part.trainings > 1 else ""
    thin = f"thin: over {over}{part.classes:,} test classes" if part.classes else ""
    zero = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    return labelled_rows(
        f"Differences to {best}",
        [f"{row.name}  {signed(row.mean)}  {row.verdict}" for row in rows],
        traces,
        inks=[colour(row.colour) for row in rows],
        x=f"points of {metric_label(metric)}; higher is better",
        note="; ".join(filter(None, (thick, thin))),
        shapes=[zero | {"line": {"color": colour("ink"), "width": 1}}],
        above=0.4,
    )


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
    classes = np.unique(np.geomspace(10, max(3000, 4 * part.classes), 60).round())
    counts = [1] if known[0].runs is None else sorted({*TRAININGS, part.trainings})
    curves = {n: 100 * detectable(known, n, classes, pairs) for n in counts}
    here = 100 * float(detectable(known, part.trainings, part.classes, pairs))
    if here == 0:  # the same scores on every class
        return None
    shown = [values for n, values in curves.items() if n >= min(part.trainings, 5)]
    top = 1.1 * max(here * 2, min(3 * here, float(np.max(shown))))
    names = {n: f"{n} training{'s' * (n != 1)}" for n in counts}
    inks = dict(zip(counts, styles(names.values()), strict=True))
    traces: list[go.Scatter] = []
    for n, values in curves.items():
        line = {"color": inks[n].ink, "width": 3 if n == part.trainings else 1.5}
        told = f"{names[n]}, %{{x:,}} classes: %{{y:.1f}}<extra></extra>"
        traces.append(go.Scatter(x=classes, y=values, mode="lines", line=line, hovertemplate=told))
    now = f"this study: {here:.1f}"
    mark = {
        "size": 11,
        "color": inks[part.trainings].ink if part.trainings in inks else colour("c0"),
    }
    traces.append(
        go.Scatter(
            x=[part.classes], y=[here], mode="markers+text", marker=mark, text=[now],
            textposition="top right", textfont={"color": colour("ink")}, hoverinfo="skip",
        )
    )  # fmt: skip
    return chart(
        "What a larger study would see",
        traces,
        x="test classes",
        y="points",
        xaxis={"type": "log", "dtick": 1},
        yaxis={"range": [0, top]},
        legend=[inks[n] for n in counts],
        wide=True,
        note=f"The smallest true difference, in points of {metric_label(metric)}, that would be "
        f"called better in {100 * POWER:.0f} % of studies with so many test classes and trainings "
        f"of each method; from the variances of the differences to {part.trained[0].name} (their "
        "medians).",
    )


def ranks_chart(tournament: Tournament) -> Chart:
    """Average ranks, with bars beside methods that cannot be told apart (Demšar, JMLR 2006)."""
    standings = tournament.standings
    rows = {one.name: number for number, one in enumerate(standings)}
    high = max(one.rank for one in standings)
    ranks = [one.rank for one in standings]
    half = [None if tournament.groups else one.deviation for one in standings]
    style = Style("average rank", 0)
    traces = [points(ranks, list(rows.values()), style, half=half, across=True, limits=None,
                     hover="%{x:.2f}")]  # fmt: skip
    bar = {"color": colour("ink"), "width": 5}
    for number, group in enumerate(tournament.groups, 1):
        ends = [rows[group[0]] - 0.15, rows[group[-1]] + 0.15]
        at = high + (high - 1) * 0.05 * number
        traces.append(go.Scatter(x=[at] * 2, y=ends, mode="lines", line=bar, hoverinfo="skip"))
    note = f"Blocks: {tournament.about}."
    if tournament.rule:
        note += f" A bar joins methods of which no two can be told apart by {tournament.rule}."
    else:
        note += " The ranks are not tested."
    if tournament.distance is not None:
        note += f" Critical difference: {tournament.distance:.2f}."
    labels = [f"{one.name}  {one.rank:.2f}" for one in standings]
    return labelled_rows(
        "Average ranks", labels, traces, x="average rank, 1 is best", note=note, above=0.4
    )
