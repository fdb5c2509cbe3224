"""The data of a reproduction's charts: score by an axis, by year, in pairs, by rank."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from lookalike.compare.statistics import Standing, tournament
from lookalike.evaluation.metrics import more_is_better
from lookalike.papers.claims import CONFIDENCE, METRIC, correlation
from lookalike.papers.outcome import OutcomeRow
from lookalike.published import Published
from lookalike.report.charts import Method, styles
from lookalike.report.formatting import metric_label, signed

__all__ = [
    "Chart",
    "Series",
    "by_axis",
    "by_year",
    "correlations",
    "in_pairs",
    "ranking",
    "ranks",
    "side_by_side",
    "tested_by_year",
]

Mark = Literal["lines", "points", "bars", "areas", "spans", "rows"]
Kind = Literal["category", "log", "linear", "year"]

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


@dataclass(frozen=True)
class Series:
    """Points of one colour; scores in per cent."""

    name: str
    x: list[float | str]
    y: list[float | str]
    half: list[float | None]
    """What is drawn as ±: half an interval, or a deviation."""
    texts: list[str]
    """What a point is, besides its values."""
    style: Method
    hollow: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart of the page."""

    title: str
    mark: Mark
    x: str
    y: str
    series: list[Series]
    kind: Kind = "category"
    """Of the horizontal axis."""
    values: tuple[str, ...] = ()
    """The ticks, in order, where only these values exist."""
    note: str = ""
    span: tuple[float, float] | None = None
    """What the vertical axis shows, where charts side by side share it."""
    bounds: tuple[float, float] | None = None
    """What a score can be at least and at most; ± ends there."""

    @property
    def legend(self) -> list[Method]:
        """The styles to explain; none where there is one series."""
        return [one.style for one in self.series] if len(self.series) > 1 else []


Score = tuple[float, float | None]
"""A score and what is drawn as ±, in the unit of the chart."""


def points(metric: str) -> float:
    """By what a metric is multiplied to be shown: scores are shown in per cent."""
    return 100.0 if more_is_better(metric) else 1.0


def bounds(metric: str) -> tuple[float, float] | None:
    """What a metric can be at least and at most, as it is shown."""
    return (0.0, 100.0) if more_is_better(metric) else None


def our_score(row: OutcomeRow, metric: str) -> Score | None:
    """The score of a row with half its interval, to be shown."""
    found = row.ours.get(metric)
    if found is None:
        return None
    factor = points(metric)
    return factor * found.mean, None if found.half is None else factor * found.half


def published_score(row: OutcomeRow, metric: str) -> Score | None:
    """The published score of a row with its deviation."""
    found = row.published.get(metric)
    return None if found is None or found.value is None else (found.value, found.spread)


SIDES: tuple[tuple[str, Callable[[OutcomeRow, str], Score | None]], ...] = (
    (OURS, our_score),
    (PUBLISHED, published_score),
)


def by_axis(rows: Sequence[OutcomeRow], x: str, line: str, metric: str) -> list[Chart]:
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
    for title, score_of in SIDES:
        place = PLACES[title]
        values, lines = _values(rows, x, place), _values(rows, line, place) or [""]
        style = {one.name: one for one in styles(lines)}
        scored = [(place(row), score_of(row, metric)) for row in rows]
        series = [_line(scored, x, values, line, name, style) for name in lines]
        if x == "ratio" and len(series) == 1:
            test = replace(series[0].style, name="test classes")
            series = [replace(series[0], name=test.name, style=test)]
            series.append(_on_validation(rows, values, metric, title))
        series = [one for one in series if one.x]
        if series:
            found.append(
                Chart(
                    title=f"{metric_label(metric)} by {x}, {title}",
                    mark="lines",
                    x=x,
                    y=metric_label(metric),
                    series=series,
                    kind=_kind(values),
                    values=tuple(values),
                    note=_averaged(rows, x, line),
                    bounds=bounds(metric),
                )
            )
    return found


def by_year(rows: Sequence[OutcomeRow], metric: str) -> list[Chart]:
    """The score of each method in chronological order, ours and the document's.

    Args:
        rows: What was trained.
        metric: The score.

    Returns:
        One chart, the year of each method's paper before its name; none where no year is known.
    """
    dated = [(row.year, row) for row in rows if row.year and row.planned.config.train.epochs]
    dated.sort(key=lambda one: one[0])
    names = {id(row): f"{year} {row.label}" for year, row in dated}
    series = []
    for at, (title, score_of) in enumerate(SIDES):
        found = [(names[id(row)], score_of(row, metric)) for _, row in dated]
        known = [(name, score) for name, score in found if score is not None]
        if known:
            style = Method(title, None if at else 0, 0)
            x: list[float | str] = [score[0] for _, score in known]
            y: list[float | str] = [name for name, _ in known]
            halves = [score[1] for _, score in known]
            series.append(Series(title, x, y, halves, [""] * len(x), style, hollow=at == 1))
    if not series:
        return []
    label = metric_label(metric)
    title = f"{label} in chronological order of the methods"
    values = tuple(names.values())
    return [Chart(title, "rows", label, "", series, "linear", values, bounds=bounds(metric))]


def tested_by_year(rows: Sequence[OutcomeRow], metric: str) -> Chart | None:
    """What was found for each method, at the year of its paper.

    Args:
        rows: What was trained.
        metric: The score.

    Returns:
        The chart, a colour for each row; None where no year is known.
    """
    dated = [row for row in rows if row.year and row.planned.config.train.epochs]
    style = {one.name: one for one in styles(row.label for row in dated)}
    series = [
        Series(row.label, [row.year or 0], [found[0]], [found[1]], [""], style[row.label])
        for row in dated
        if (found := our_score(row, metric)) is not None
    ]
    if not series:
        return None
    title = f"What this test finds on {', '.join(sorted({r.result.dataset for r in dated}))}"
    label = metric_label(metric)
    return Chart(title, "points", "year of the paper", label, series, "year", bounds=bounds(metric))


def side_by_side(shown: Sequence[Chart]) -> list[Chart]:
    """Charts whose vertical axes show the same span, so that they can be compared.

    Args:
        shown: Charts of scores.

    Returns:
        The same charts with the span of all their points and intervals.
    """
    low, high = math.inf, -math.inf
    for one in (series for chart in shown for series in chart.series):
        for value, half in zip(one.y, one.half, strict=True):
            low = min(low, float(value) - (half or 0))
            high = max(high, float(value) + (half or 0))
    room = 0.05 * (high - low) + 0.5
    return [replace(one, span=(low - room, high + room)) for one in shown]


def in_pairs(
    rows: Sequence[OutcomeRow], pairs: Iterable[tuple[str, str]], metric: str
) -> list[Chart]:
    """Methods in the pairs of which claims say that the first is better.

    Args:
        rows: What was trained.
        pairs: A method, and what it is said to be better than: its plain form, or another one.
        metric: The score.

    Returns:
        Bars of ours, and of published numbers where there are any.
    """
    by_method = {row.method: row for row in rows}
    sides = (Method("before the arrow", None, 0), Method("after the arrow", 0, 0))
    found = []
    for title, score_of in SIDES:
        columns: dict[str, tuple[Score, Score]] = {}
        for name, base in pairs:
            both = (by_method.get(base), by_method.get(name))
            scores = [None if row is None else score_of(row, metric) for row in both]
            if scores[0] is not None and scores[1] is not None:
                columns[f"{base} → {name}"] = (scores[0], scores[1])
        if not columns:
            continue
        names: list[float | str] = list(columns)
        series = [
            Series(
                style.name,
                names,
                [one[at][0] for one in columns.values()],
                [one[at][1] for one in columns.values()],
                [signed((one[1][0] - one[0][0]) / 100) if at else "" for one in columns.values()],
                style,
            )
            for at, style in enumerate(sides)
        ]
        heading = f"{metric_label(metric)} in pairs, {title}"
        note = "The figure in a bar is the method after the arrow minus the one before, in points."
        label = metric_label(metric)
        found.append(Chart(heading, "bars", "", label, series, note=note, bounds=bounds(metric)))
    return found


def ranks(
    rows: Sequence[OutcomeRow], quoted: Sequence[Published], metric: str = "recall@1"
) -> Chart | None:
    """Average ranks of methods over all cells, that is over all values of the axes.

    Args:
        rows: What was trained.
        quoted: The published ranks.
        metric: What ranks.

    Returns:
        Ranks with their deviation over cells, beside those of the document; None where fewer than
        two methods are in every cell, or there are fewer than two cells.
    """
    standings = ranking(rows, metric)
    if not standings:
        return None
    cells, methods = standings[0].ranks, standings
    order: list[float | str] = [one.name for one in standings]
    ours = Series(
        OURS,
        [one.rank for one in standings],
        order,
        [one.deviation for one in standings],
        [f"{len(cells)} cells"] * len(standings),
        Method(OURS, 0, 0),
    )
    printed = {(row.method, row.metric): row.value for row in quoted}
    theirs = [(name, printed.get((str(name), "rank-mean"))) for name in order]
    shown = [(name, rank) for name, rank in theirs if rank is not None]
    published = Series(
        PUBLISHED,
        [rank for _, rank in shown],
        [name for name, _ in shown],
        [printed.get((str(name), "rank-std")) for name, _ in shown],
        [""] * len(shown),
        Method(PUBLISHED, None, 0),
        hollow=True,
    )
    return Chart(
        title=f"Average rank by {metric_label(metric)} over {len(cells)} cells",
        mark="rows",
        x="average rank, 1 is best",
        y="",
        series=[ours, published] if shown else [ours],
        kind="linear",
        values=tuple(map(str, order)),
        note="± one standard deviation over cells.",
        bounds=(1.0, float(len(methods))),
    )


def ranking(rows: Sequence[OutcomeRow], metric: str = "recall@1") -> list[Standing]:
    """The standings of methods over all cells, the best first.

    Args:
        rows: What was trained.
        metric: What ranks.

    Returns:
        Total, mean and deviation of each method's ranks; none where fewer than two methods are in
        every cell, or there are fewer than two cells.
    """
    cells: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if metric in row.ours:
            place = tuple(row.axes.values())
            cells.setdefault(place, {})[row.method] = row.ours[metric].mean
    methods = [m for m in _values(rows, "method") if all(m in cell for cell in cells.values())]
    if len(methods) < 2 or len(cells) < 2:
        return []
    scores = np.array([[cell[method] for method in methods] for cell in cells.values()])
    return tournament(scores, methods)


def correlations(rows: Sequence[OutcomeRow], of: Sequence[str]) -> list[Chart]:
    """The score of every training against a property of its embeddings.

    Args:
        rows: What was trained.
        of: Metrics of structure.

    Returns:
        One chart for each metric that at least two rows have, its correlation in the note.
    """
    by, metric = _shown_by(rows), METRIC
    style = {one.name: one for one in styles(map(by, rows))}
    found = []
    for name in of:
        series = []
        for group, same in itertools.groupby(sorted(rows, key=by), by):
            known = [
                (one[name], one[metric], row.label)
                for row in same
                for one in row.trainings
                if name in one and metric in one
            ]
            if known:
                x, y, texts = (list(column) for column in zip(*known, strict=True))
                scores = [points(metric) * value for value in y]
                series.append(Series(group, x, scores, [None] * len(x), texts, style[group]))
        if sum(len(one.x) for one in series) < 2:
            continue
        told = correlation(rows, name)
        note = "Too few rows for a correlation."
        if told is not None:
            note = (
                f"Pearson's r = {told.r:+.2f}, {CONFIDENCE:.0%} interval {told.low:+.2f} to "
                f"{told.high:+.2f} (Fisher's), of {told.rows} rows, each the mean of its trainings."
            )
        label = STRUCTURE.get(name, metric_label(name))
        heading = f"{metric_label(metric)} against {metric_label(name)}"
        chart = Chart(heading, "points", label, metric_label(metric), series, "linear", note=note)
        found.append(chart)
    return found


def _shown_by(rows: Sequence[OutcomeRow]) -> Callable[[OutcomeRow], str]:
    """What a training's colour tells: its method or, of one method, the first axis."""
    if len({row.method for row in rows}) > 1 or not rows[0].axes:
        return lambda row: row.method
    return lambda row: next(iter(row.axes.values()))


Place = Callable[[OutcomeRow], Mapping[str, str]]


def _place(row: OutcomeRow) -> Mapping[str, str]:
    return {"method": row.method} | dict(row.axes)


def _published_place(row: OutcomeRow) -> Mapping[str, str]:
    """Where the document has the row: at small scale, data set and network are others."""
    place, original = _place(row), row.planned.as_published or row.planned.config
    theirs = {"dataset": original.data.name, "network": original.model.network}
    return {axis: theirs.get(axis, value) for axis, value in place.items()}


PLACES: dict[str, Place] = {OURS: _place, PUBLISHED: _published_place}


def _values(rows: Sequence[OutcomeRow], axis: str, place: Place = _place) -> list[str]:
    """The values of an axis, or methods: numbers by size, others in the order of rows."""
    found = list(dict.fromkeys(v for row in rows if (v := place(row).get(axis)) is not None))
    return sorted(found, key=float) if all(map(_is_number, found)) else found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(values: Sequence[str]) -> Kind:
    """Numbers that grow by factors are drawn by their logarithm."""
    if not all(map(_is_number, values)):
        return "category"
    low, high = float(values[0]), float(values[-1])
    return "log" if low > 0 and high / low >= 4 else "linear" if low >= 0.01 else "category"


def _line(
    scored: Sequence[tuple[Mapping[str, str], Score | None]],
    x: str,
    values: Sequence[str],
    line: str,
    name: str,
    style: Mapping[str, Method],
) -> Series:
    """The mean over everything but the two axes, at each value."""
    found: dict[str, list[Score]] = {value: [] for value in values}
    for place, score in scored:
        if place.get(line, "") == name and x in place and score is not None:
            found[place[x]].append(score)
    known = {value: scores for value, scores in found.items() if scores}
    return Series(
        name or OURS,
        list(known),
        [fmean(score for score, _ in scores) for scores in known.values()],
        [scores[0][1] if len(scores) == 1 else None for scores in known.values()],
        ["" if len(scores) == 1 else f"mean of {len(scores)}" for scores in known.values()],
        style[name],
    )


def _on_validation(
    rows: Sequence[OutcomeRow], values: Sequence[str], metric: str, side: str
) -> Series:
    """The score on validation classes by the split ratio, beside the one on test classes."""
    scores: dict[str, Score] = {}
    for row in rows:
        told, printed = row.validation, row.planned.published_validation.get(metric)
        if side == PUBLISHED and printed is not None and printed.value is not None:
            scores[row.axes["ratio"]] = (printed.value, printed.spread)
        elif side == OURS and told is not None and row.result.metric == metric:
            half = None if told.half is None else points(metric) * told.half
            scores[row.axes["ratio"]] = (points(metric) * told.mean, half)
    known = [(value, *scores[value]) for value in values if value in scores]
    name = "validation classes"
    return Series(
        name,
        [value for value, _, _ in known],
        [score for _, score, _ in known],
        [half for _, _, half in known],
        [""] * len(known),
        Method(name, 1, 1),
    )


def _averaged(rows: Sequence[OutcomeRow], x: str, line: str) -> str:
    """What a point is the mean of."""
    others = [axis for axis in ("method", *rows[0].axes) if axis not in (x, line)]
    varied = [axis for axis in others if len(_values(rows, axis)) > 1]
    return f"Each point is the mean over {' and '.join(varied)}." if varied else ""
