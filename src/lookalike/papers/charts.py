"""The charts of a reproduction: score by an axis, by year, in pairs, by rank, over trials."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch

from lookalike.compare.statistics import Standing, tournament
from lookalike.evaluation.metrics import more_is_better
from lookalike.evaluation.space import Mixes, distance_histogram
from lookalike.mixing.pairs import random_pairs
from lookalike.ops.rows import normalize_rows
from lookalike.papers.claims import CONFIDENCE, METRIC, correlation
from lookalike.papers.selection import Row
from lookalike.published import Published, claimed_gains
from lookalike.report.charts import (
    SCORES,
    Chart,
    Style,
    chart,
    escaped,
    labelled_rows,
    points,
    styles,
    year_axis,
)
from lookalike.report.formatting import NOTHING, metric_label, signed
from lookalike.report.tables import Cell, Column, Table
from lookalike.report.tables import Row as TableRow
from lookalike.runs.run import TestEmbeddings

OURS, PUBLISHED = "ours", "published"
STRUCTURE = {
    "pi-ratio": "density: distance inside / between classes",
    "rho": "spectral decay: low uses many directions",
    "pi-intra": "distance inside classes",
    "pi-inter": "distance between classes",
    "train-pi-ratio-cosine": "density of training embeddings, by 1 - cosine",
    "train-rho-spectrum@2": "spectral decay of training embeddings",
    "train-pi-intra-cosine": "1 - cosine inside training classes",
    "train-pi-inter-cosine": "1 - cosine between training classes",
}
BINS = 60
MIXES = 20_000
ALPHA = 2.0
MOST_ITEMS = 4_000
MOST_MAPS = 3
SHARED = 2
"""A value of a grid is tried at least as often on average."""

Score = tuple[float, float | None]
"""A score and what is drawn as ±, in the unit of the chart."""
Place = Callable[[Row], Mapping[str, str]]


def unit(metric: str) -> float:
    """By what a metric is multiplied to be shown: scores are shown in per cent."""
    return 100.0 if more_is_better(metric) else 1.0


def limits(metric: str) -> tuple[float, float] | None:
    """What a metric can be at least and at most, as it is shown."""
    return SCORES if more_is_better(metric) else None


def our_score(row: Row, metric: str) -> Score | None:
    """The score of a row with half its interval, to be shown."""
    found, factor = row.ours.get(metric), unit(metric)
    return (factor * found.mean, found.half and factor * found.half) if found else None


def published_score(row: Row, metric: str) -> Score | None:
    """The published score of a row with its deviation."""
    found = row.published.get(metric)
    return None if found is None or found.value is None else (found.value, found.spread)


def _place(row: Row) -> Mapping[str, str]:
    return {"method": row.method} | dict(row.axes)


def _published_place(row: Row) -> Mapping[str, str]:
    """Where the document has the row: at small scale, data set and network are others."""
    place, original = _place(row), row.as_published or row.config
    theirs = {"dataset": original.data.name, "network": original.model.network}
    return {axis: theirs.get(axis, value) for axis, value in place.items()}


SIDES: dict[str, tuple[Callable[[Row, str], Score | None], Place]] = {
    OURS: (our_score, _place),
    PUBLISHED: (published_score, _published_place),
}


def by_axis(rows: Sequence[Row], x: str, line: str, metric: str) -> list[Chart]:
    """The score by the values of an axis, ours and the document's.

    Args:
        rows: What was trained.
        x: The axis from left to right.
        line: The axis, or ``method``, of which each value has a line.
        metric: The score.

    Returns:
        One chart of ours, and one of published numbers where there are any; none where the axis
        has one value.
    """
    if len(_values(rows, x)) < 2:
        return []
    found = []
    for side, (score_of, place) in SIDES.items():
        values, lines = _values(rows, x, place), _values(rows, line, place) or [OURS]
        scored = [(place(row), score_of(row, metric)) for row in rows]
        series = {name: _line(scored, x, values, line, name) for name in lines}
        if x == "ratio" and len(series) == 1:
            on_test, on_validation = "test classes", _on_validation(rows, metric, side)
            series = {on_test: next(iter(series.values())), "validation classes": on_validation}
        series = {name: scores for name, scores in series.items() if scores}
        if not series:
            continue
        legend = styles(series)
        kind = _kind(values)
        number: Callable[[str], Any] = str if kind == "category" else float
        ticks: dict[str, Any] = {"type": kind}
        ticks |= (
            {"categoryorder": "array", "categoryarray": list(map(escaped, values))}
            if kind == "category"
            else {"tickvals": list(map(float, values)), "ticktext": values}
        )
        traces = []
        for style, scores in zip(legend, series.values(), strict=True):
            means = {value: fmean(score for score, _ in own) for value, own in scores.items()}
            half = [own[0][1] if len(own) == 1 else None for own in scores.values()]
            texts = [f"mean of {len(own)}" if len(own) > 1 else "" for own in scores.values()]
            at = [escaped(v) if kind == "category" else number(v) for v in means]
            made = points(
                at,
                [*means.values()],
                style,
                half=half,
                lines=True,
                texts=texts,
                limits=limits(metric),
            )
            traces.append(made)
        title, label = f"{metric_label(metric)} by {x}, {side}", metric_label(metric)
        note = _averaged(rows, x, line)
        found.append(chart(title, traces, x=x, y=label, xaxis=ticks, note=note, legend=legend))
    return found


def _line(
    scored: Sequence[tuple[Mapping[str, str], Score | None]],
    x: str,
    values: Sequence[str],
    line: str,
    name: str,
) -> dict[str, list[Score]]:
    """The scores of one line at each value; several where something else varies."""
    found: dict[str, list[Score]] = {value: [] for value in values}
    for place, score in scored:
        if place.get(line, OURS) == name and x in place and score is not None:
            found[place[x]].append(score)
    return {value: scores for value, scores in found.items() if scores}


def _on_validation(rows: Sequence[Row], metric: str, side: str) -> dict[str, list[Score]]:
    """The score on validation classes by the split ratio, beside the one on test classes."""
    scores: dict[str, list[Score]] = {}
    for row in rows:
        told, printed = row.validation, row.published_validation.get(metric)
        if side == PUBLISHED and printed is not None and printed.value is not None:
            scores[row.axes["ratio"]] = [(printed.value, printed.spread)]
        elif side == OURS and told is not None and row.validation_metric == metric:
            half = told.half and unit(metric) * told.half
            scores[row.axes["ratio"]] = [(unit(metric) * told.mean, half)]
    return scores


def by_year(rows: Sequence[Row], metric: str) -> list[Chart]:
    """The score of each method in chronological order, ours and the document's."""
    dated = sorted(
        ((row.year, row) for row in rows if row.year and row.config.train.epochs),
        key=lambda one: one[0],
    )
    traces, legend = [], []
    for at, (side, (score_of, _)) in enumerate(SIDES.items()):
        found = [(n, score) for n, (_, row) in enumerate(dated) if (score := score_of(row, metric))]
        if found:
            legend.append(Style(side, None if at else 0))
            x, half = zip(*(score for _, score in found), strict=True)
            at_rows = [number for number, _ in found]
            trace = points(x, at_rows, legend[-1], half=half, across=True, hollow=at == 1,
                           limits=limits(metric), hover="%{x:.4~g}")  # fmt: skip
            traces.append(trace)
    if not traces:
        return []
    label = metric_label(metric)
    title = f"{label} in chronological order of the methods"
    names = [f"{year} {row.label}" for year, row in dated]
    return [labelled_rows(title, names, traces, x=label, legend=legend, above=0.4)]


def tested_by_year(rows: Sequence[Row], metric: str) -> Chart | None:
    """What was found for each method, at the year of its paper; None where no year is known."""
    dated = [(row, row.year) for row in rows if row.year and row.config.train.epochs]
    known = [(row, year, s) for row, year in dated if (s := our_score(row, metric))]
    if not known:
        return None
    legend = styles(row.label for row, _, _ in known)
    traces = [
        points([year], [score], style, half=[half], limits=limits(metric))
        for style, (_, year, (score, half)) in zip(legend, known, strict=True)
    ]
    data = ", ".join(sorted({row.config.data.name for row, _, _ in known}))
    return chart(
        f"What this test finds on {data}",
        traces,
        x="year of the paper",
        y=metric_label(metric),
        xaxis=year_axis(year for _, year, _ in known),
        legend=legend,
    )


def claims_by_year(dataset: str) -> Chart | None:
    """Each paper's own claimed gain: from what it reports for an older method to its own.

    None where no document prints both numbers of a paper.
    """
    gains = [
        (one, one.baseline, one.own)
        for one in claimed_gains()
        if one.dataset == dataset and one.own is not None and one.baseline is not None
    ]
    if not gains:
        return None
    legend = styles(f"over {one.over}" for one, _, _ in gains)
    traces = []
    for style in legend:
        x: list[Any] = []
        y: list[Any] = []
        texts: list[str] = []
        for one, base, own in gains:
            if f"over {one.over}" == style.name:
                x += [one.year, one.year, None]
                y += [base, own, None]
                texts += [f"{one.title}: {one.over}", f"{one.title}: {one.method}", ""]
        traces.append(points(x, y, style, lines=True, texts=texts, hover="%{y:.1f}"))
    return chart(
        f"What papers claim to gain on {dataset}",
        traces,
        x="year of the paper",
        y="Recall@1",
        xaxis=year_axis(one.year for one, _, _ in gains),
        legend=legend,
        note="A line goes from what a paper reports for the older method to what it reports for "
        "its own; papers of which the documents print one number only are left out.",
    )


def in_pairs(rows: Sequence[Row], pairs: Iterable[tuple[str, str]], metric: str) -> list[Chart]:
    """Methods in the pairs of which claims say that the first is better.

    Args:
        rows: What was trained.
        pairs: A method, and what it is said to be better than: its plain form, or another one.
        metric: The score.

    Returns:
        A chart of ours, and of published numbers where there are any.
    """
    by_method = {row.method: row for row in rows}
    known = [(by_method[a], by_method[b]) for a, b in pairs if a in by_method and b in by_method]
    legend = (Style("before the arrow", None), Style("after the arrow", 0))
    found = []
    for side, (score_of, _) in SIDES.items():
        labels, before, after = [], [], []
        for row, base in known:
            first, second = score_of(base, metric), score_of(row, metric)
            if first and second:
                gain = signed((second[0] - first[0]) / 100)
                labels.append(f"{base.method} → {row.method}  {gain}")
                before.append(first)
                after.append(second)
        if not labels:
            continue
        traces = [
            points([score for score, _ in scores], range(len(labels)), style,
                   half=[half for _, half in scores], across=True, hover="%{x:.1f}")
            for style, scores in zip(legend, (before, after), strict=True)
        ]  # fmt: skip
        title = f"{metric_label(metric)} in pairs, {side}"
        note = "The figure is the method after the arrow minus the one before, in points."
        label = metric_label(metric)
        found.append(labelled_rows(title, labels, traces, x=label, note=note, legend=legend))
    return found


def ranking(rows: Sequence[Row], metric: str = METRIC) -> list[Standing]:
    """The standings of methods over all cells, that is over all values of axes, the best first.

    None where fewer than two methods are in every cell, or there are fewer than two cells.
    """
    cells: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if metric in row.ours:
            cells.setdefault(tuple(row.axes.values()), {})[row.method] = row.ours[metric].mean
    methods = [m for m in _values(rows, "method") if all(m in cell for cell in cells.values())]
    if len(methods) < 2 or len(cells) < 2:
        return []
    scores = np.array([[cell[method] for method in methods] for cell in cells.values()])
    return tournament(scores, methods)


def ranks(rows: Sequence[Row], quoted: Sequence[Published], metric: str = METRIC) -> Chart | None:
    """Average ranks with their deviation over cells, beside those of the document."""
    standings = ranking(rows, metric)
    if not standings:
        return None
    printed = {(row.method, row.metric): row.value for row in quoted}
    ours = [(n, one.rank, one.deviation) for n, one in enumerate(standings)]
    theirs = [
        (n, rank, printed.get((one.name, "rank-std")))
        for n, one in enumerate(standings)
        if (rank := printed.get((one.name, "rank-mean"))) is not None
    ]
    legend = [Style(OURS, 0), *([Style(PUBLISHED, None)] if theirs else [])]
    span = (1.0, float(len(standings)))
    traces = []
    for style, series in zip(legend, (ours, theirs), strict=False):
        at_rows, x, half = zip(*series, strict=True)
        hollow = style.name == PUBLISHED
        trace = points(x, at_rows, style, half=half, across=True, hollow=hollow, limits=span,
                       hover="%{x:.2f}")  # fmt: skip
        traces.append(trace)
    title = f"Average rank by {metric_label(metric)} over {len(standings[0].ranks)} cells"
    return labelled_rows(
        title,
        [one.name for one in standings],
        traces,
        x="average rank, 1 is best",
        note="± one standard deviation over cells.",
        legend=legend,
        above=0.4,
    )


def rank_table(rows: Sequence[Row], quoted: Sequence[Published], metric: str) -> Table | None:
    """The tournament as a table: total, mean and deviation of ranks, best first."""
    standings = ranking(rows, metric)
    names = ("total", "mean rank", "deviation")
    printed = {(row.method, row.metric): row.value for row in quoted}
    shown = []
    for one in standings:
        theirs = [printed.get((one.name, f"rank-{what}")) for what in ("total", "mean", "std")]
        values = (one.total, one.rank, one.deviation, *theirs)
        texts = [_rank_text(at % 3, value) for at, value in enumerate(values)]
        shown.append(TableRow((Cell(one.name), *map(Cell, texts))))
    columns = [Column("method"), *(Column(name, side) for side in SIDES for name in names)]
    title = "The tournament as a table"
    return Table(title, tuple(columns), tuple(shown), kind="results") if shown else None


def _rank_text(at: int, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.2f}" if at else f"{value:g}"


def correlations(rows: Sequence[Row], of: Sequence[str]) -> list[Chart]:
    """The score of every training against a property of its embeddings.

    One chart for each metric that at least two trainings have, its correlation in the note.
    """
    several = len({row.method for row in rows}) > 1 or not rows[0].axes
    groups = {row.label: row.method if several else next(iter(row.axes.values())) for row in rows}
    legend = styles(groups[row.label] for row in rows)
    found = []
    for name in of:
        traces = []
        for style in legend:
            known = [
                (one[name], unit(METRIC) * one[METRIC], row.label)
                for row in rows
                if groups[row.label] == style.name
                for one in row.trainings
                if name in one and METRIC in one
            ]
            if known:
                x, y, texts = zip(*known, strict=True)
                traces.append(points(x, y, style, texts=texts))
        if sum(len(trace.x) for trace in traces) < 2:
            continue
        told = correlation(rows, name)
        note = "Too few rows for a correlation."
        if told is not None:
            note = (
                f"Pearson's r = {told.r:+.2f}, {CONFIDENCE:.0%} interval {told.low:+.2f} to "
                f"{told.high:+.2f} (Fisher's), of {told.rows} rows, each the mean of its trainings."
            )
        label = STRUCTURE.get(name, metric_label(name))
        heading = f"{metric_label(METRIC)} against {metric_label(name)}"
        y_label = metric_label(METRIC)
        found.append(chart(heading, traces, x=label, y=y_label, note=note, legend=legend))
    return found


def heat_maps(row: Row) -> list[Chart]:
    """The best validation score of each pair of values that a search on a grid tried.

    Three at most; none where values do not repeat, that is where no grid was searched.
    """
    done = [trial for trial in row.trials if trial.value is not None]
    keys = dict.fromkeys(key for trial in done for key in trial.parameters)
    values = {key: {_shown(trial.parameters.get(key)) for trial in done} for key in keys}
    varied = [key for key, there in values.items() if 1 < len(there) <= len(done) / SHARED]
    found = []
    for x, y in list(itertools.combinations(varied, 2))[:MOST_MAPS]:
        best: dict[tuple[str, str], float] = {}
        for trial in done:
            place = (_shown(trial.parameters.get(x)), _shown(trial.parameters.get(y)))
            best[place] = max(best.get(place, 0.0), 100 * (trial.value or 0.0))
        xs, ys = (sorted({place[side] for place in best}, key=_by_size) for side in (0, 1))
        grid = [[best.get((a, b)) for a in xs] for b in ys]
        told = f"{escaped(x)} %{{x}}<br>{escaped(y)} %{{y}}: %{{z:.1f}}<extra></extra>"
        bar = {"thickness": 10, "outlinewidth": 0}
        heat = go.Heatmap(x=list(map(escaped, xs)), y=list(map(escaped, ys)), z=grid, xgap=1,
                          ygap=1, hoverongaps=False, colorbar=bar, hovertemplate=told)  # fmt: skip
        kind = {"type": "category", "showgrid": False}
        title = f"{row.label}: {x} and {y}"
        found.append(chart(title, [heat], x=x, y=y, xaxis=kind, yaxis=kind))
    return found


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _by_size(text: str) -> tuple[bool, float, str]:
    return (False, float(text), "") if _is_number(text) else (True, 0.0, text)


def distance_charts(name: str, tested: TestEmbeddings, seed: int = 0) -> list[Chart]:
    """Distances of clean pairs, and of images to mixes that contain their class, as densities."""
    step = -(-len(tested.labels) // MOST_ITEMS)
    embeddings = normalize_rows(tested.embeddings[::step].float())
    labels = torch.from_numpy(tested.labels[::step].copy())
    pairs = random_pairs(labels, min(MIXES, 10 * len(labels)), ALPHA, seed)
    mixed = normalize_rows(pairs.of(embeddings))
    mixes = Mixes(mixed, labels[pairs.first], labels[pairs.second], pairs.share)
    legend = styles(("positive", "negative"))
    found = []
    for kind, partners in (("clean", None), ("mixed", mixes)):
        histogram = distance_histogram(embeddings, labels, partners, bins=BINS)
        middles = ((histogram.edges[:-1] + histogram.edges[1:]) / 2).tolist()
        traces = []
        for style, density in zip(legend, histogram.densities(), strict=True):
            y = [round(float(value), 5) for value in density]
            area = points(middles, y, style, lines=True, limits=None)
            traces.append(area.update(mode="lines", fill="tozeroy", opacity=0.7))
        title, zero = f"{name}: {kind} pairs", {"rangemode": "tozero"}
        found.append(chart(title, traces, x="distance", y="density", yaxis=zero, legend=legend))
    return found


def _values(rows: Sequence[Row], axis: str, place: Place = _place) -> list[str]:
    """The values of an axis, or methods: numbers by size, others in the order of rows."""
    found = list(dict.fromkeys(v for row in rows if (v := place(row).get(axis)) is not None))
    return sorted(found, key=float) if all(map(_is_number, found)) else found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(values: Sequence[str]) -> str:
    """Numbers that grow by factors are drawn by their logarithm."""
    if not all(map(_is_number, values)):
        return "category"
    low, high = float(values[0]), float(values[-1])
    return "log" if low > 0 and high / low >= 4 else "linear" if low >= 0.01 else "category"


def _averaged(rows: Sequence[Row], x: str, line: str) -> str:
    """What a point is the mean of."""
    others = [axis for axis in ("method", *rows[0].axes) if axis not in (x, line)]
    varied = [axis for axis in others if len(_values(rows, axis)) > 1]
    return f"Each point is the mean over {' and '.join(varied)}." if varied else ""
