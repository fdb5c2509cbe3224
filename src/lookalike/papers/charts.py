"""The charts of a reproduction: each is a list of points of ours and of the document."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from lookalike.compare.statistics import Standing, tournament
from lookalike.evaluation.metrics import more_is_better
from lookalike.evaluation.space import Mixes, distance_histogram
from lookalike.mixing.pairs import random_pairs
from lookalike.ops.rows import normalize_rows
from lookalike.papers.claims import CONFIDENCE, METRIC, correlation
from lookalike.papers.selection import Row
from lookalike.published import Published, read_table
from lookalike.report.charts import SCORES, Chart, Point, Style, chart, escaped, year_axis
from lookalike.report.formatting import NOTHING, metric_label, signed
from lookalike.report.tables import Column, Table
from lookalike.runs.run import TestEmbeddings

OURS, PUBLISHED = "ours", "published"
SIDES = {OURS: Style(OURS, 0), PUBLISHED: Style(PUBLISHED, None, hollow=True)}
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

Score = tuple[float, float | None]
"""A score and what is drawn as ±, in the unit of the chart."""


def unit(metric: str) -> float:
    """By what a metric is multiplied to be shown: scores are shown in per cent."""
    return 100.0 if more_is_better(metric) else 1.0


def limits(metric: str) -> tuple[float, float] | None:
    """What a metric can be at least and at most, as it is shown."""
    return SCORES if more_is_better(metric) else None


def score_of(row: Row, metric: str, side: str = OURS, part: str = "test") -> Score | None:
    """The score of a row on test or validation classes, ours or the document's, to be shown."""
    if side == PUBLISHED:
        printed = row.published if part == "test" else row.published_validation
        number = printed.get(metric)
        return (number.value, number.spread) if number and number.value is not None else None
    found = row.ours.get(metric)
    if part == "validation":
        found = row.validation if row.validation_metric == metric else None
    factor = unit(metric)
    return (factor * found.mean, found.half and factor * found.half) if found else None


def place_of(row: Row, side: str = OURS) -> Mapping[str, str]:
    """The values of all axes; at small scale the document has another data set and network."""
    place = {"method": row.method} | dict(row.axes)
    if side == PUBLISHED:
        original = row.as_published or row.config
        theirs = {"dataset": original.data.name, "network": original.model.network}
        place |= {axis: value for axis, value in theirs.items() if axis in place}
    return place


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
    for side in SIDES:
        values = _values(rows, x, side)
        cells: dict[tuple[str, str], list[Score]] = {}
        for row in rows:
            place, score = place_of(row, side), score_of(row, metric, side)
            if score is not None and x in place:
                cells.setdefault((place.get(line, OURS), place[x]), []).append(score)
        if x == "ratio" and len({name for name, _ in cells}) == 1:
            cells = {("test classes", value): scores for (_, value), scores in cells.items()}
            for row in rows:
                if score := score_of(row, metric, side, "validation"):
                    cells["validation classes", row.axes[x]] = [score]
        kind = _scale(values)
        points = [
            Point(
                name,
                value if kind == "category" else float(value),
                fmean(score for score, _ in scores),
                scores[0][1] if len(scores) == 1 else None,
                f"mean of {len(scores)}" if len(scores) > 1 else "",
            )
            for name in dict.fromkeys(name for name, _ in cells)
            for value in values
            if (scores := cells.get((name, value)))
        ]
        if not points:
            continue
        ticks: dict[str, Any] = {"categoryorder": "array", "categoryarray": [*map(escaped, values)]}
        if kind != "category":
            ticks = {"tickvals": [*map(float, values)], "ticktext": values}
        title, label = f"{metric_label(metric)} by {x}, {side}", metric_label(metric)
        found.append(
            chart("lines", title, points, x=x, y=label, xaxis={"type": kind} | ticks,
                  note=_averaged(rows, x, line), limits=limits(metric))
        )  # fmt: skip
    return found


def by_year(rows: Sequence[Row], metric: str) -> list[Chart]:
    """The score of each method in chronological order, ours and the document's."""
    points = [
        Point(side, score[0], f"{year} {row.label}", score[1])
        for row, year in _dated(rows)
        for side in SIDES
        if (score := score_of(row, metric, side))
    ]
    label = metric_label(metric)
    title = f"{label} in chronological order of the methods"
    made = chart("rows", title, points, x=label, styles_of=SIDES, limits=limits(metric),
                 hover="%{x:.4~g}")  # fmt: skip
    return [made] if points else []


def _dated(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """The rows that were trained, with the year of their method, the oldest first."""
    known = [(row, row.year) for row in rows if row.year and row.config.train.epochs]
    return sorted(known, key=lambda one: one[1])


def tested_by_year(rows: Sequence[Row], metric: str) -> Chart | None:
    """What was found for each method, at the year of its paper; None where no year is known."""
    points = [
        Point(row.label, year, *score)
        for row, year in _dated(rows)
        if (score := score_of(row, metric))
    ]
    if not points:
        return None
    data = ", ".join(sorted({row.config.data.name for row, _ in _dated(rows)}))
    return chart(
        "dots",
        f"What this test finds on {data}",
        points,
        x="year of the paper",
        y=metric_label(metric),
        xaxis=year_axis(points),
        limits=limits(metric),
    )


def claims_by_year(dataset: str) -> Chart | None:
    """Each paper's own claimed gain: from what it reports for an older method to its own.

    None where no document prints both numbers of a paper.
    """
    points = []
    for one in read_table("gains"):
        if one["dataset"] == dataset and one["gain"]:
            over, year = f"over {one['over']}", int(one["year"])
            for value, method in ((one["baseline"], one["over"]), (one["own"], one["method"])):
                points.append(Point(over, year, float(value), text=f"{one['title']}: {method}"))
            points.append(Point(over, None, None))
    if not points:
        return None
    return chart(
        "lines",
        f"What papers claim to gain on {dataset}",
        points,
        x="year of the paper",
        y="Recall@1",
        xaxis=year_axis(points),
        note="A line goes from what a paper reports for the older method to what it reports for "
        "its own; papers of which the documents print one number only are left out.",
        hover="%{y:.1f}",
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
    before, after = Style("before the arrow", None), Style("after the arrow", 0)
    found = []
    for side in SIDES:
        points = []
        for row, base in known:
            first, second = score_of(base, metric, side), score_of(row, metric, side)
            if first and second:
                gain = signed((second[0] - first[0]) / 100)
                label = f"{base.method} → {row.method}  {gain}"
                points += [Point(before.name, first[0], label, first[1])]
                points += [Point(after.name, second[0], label, second[1])]
        if points:
            label, title = metric_label(metric), f"{metric_label(metric)} in pairs, {side}"
            note = "The figure is the method after the arrow minus the one before, in points."
            both = {before.name: before, after.name: after}
            found.append(
                chart("rows", title, points, x=label, note=note, styles_of=both, hover="%{x:.1f}")
            )
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
    points = [Point(OURS, one.rank, one.name, one.deviation) for one in standings]
    points += [
        Point(PUBLISHED, rank, one.name, printed.get((one.name, "rank-std")))
        for one in standings
        if (rank := printed.get((one.name, "rank-mean"))) is not None
    ]
    return chart(
        "rows",
        f"Average rank by {metric_label(metric)} over {len(standings[0].ranks)} cells",
        points,
        x="average rank, 1 is best",
        note="± one standard deviation over cells.",
        styles_of=SIDES,
        limits=(1.0, float(len(standings))),
        hover="%{x:.2f}",
    )


def rank_table(rows: Sequence[Row], quoted: Sequence[Published], metric: str) -> Table | None:
    """The tournament as a table: total, mean and deviation of ranks, best first."""
    printed = {(row.method, row.metric): row.value for row in quoted}
    shown = []
    for one in ranking(rows, metric):
        theirs = [printed.get((one.name, f"rank-{what}")) for what in ("total", "mean", "std")]
        texts = [
            NOTHING if value is None else format(value, form)
            for values in ((one.total, one.rank, one.deviation), theirs)
            for value, form in zip(values, ("g", ".2f", ".2f"), strict=True)
        ]
        shown.append([one.name, *texts])
    names = ("total", "mean rank", "deviation")
    columns = [Column("method"), *(Column(name, side) for side in SIDES for name in names)]
    table = Table.of_texts("The tournament as a table", columns, shown, kind="results")
    return table if shown else None


def correlations(rows: Sequence[Row], of: Sequence[str]) -> list[Chart]:
    """The score of every training against a property of its embeddings.

    One chart for each metric that at least two trainings have, its correlation in the note.
    """
    several = len({row.method for row in rows}) > 1 or not rows[0].axes
    found = []
    for name in of:
        points = [
            Point(
                row.method if several else next(iter(row.axes.values())),
                one[name],
                unit(METRIC) * one[METRIC],
                text=row.label,
            )
            for row in rows
            for one in row.trainings
            if name in one and METRIC in one
        ]
        if len(points) < 2:
            continue
        told = correlation(rows, name)
        note = "Too few rows for a correlation."
        if told is not None:
            note = (
                f"Pearson's r = {told.r:+.2f}, {CONFIDENCE:.0%} interval {told.low:+.2f} to "
                f"{told.high:+.2f} (Fisher's), of {told.rows} rows, each the mean of its trainings."
            )
        label = STRUCTURE.get(name, metric_label(name))
        title = f"{metric_label(METRIC)} against {metric_label(name)}"
        found.append(chart("dots", title, points, x=label, y=metric_label(METRIC), note=note))
    return found


def distance_charts(name: str, tested: TestEmbeddings, seed: int = 0) -> list[Chart]:
    """Distances of clean pairs, and of images to mixes that contain their class, as densities."""
    step = -(-len(tested.labels) // MOST_ITEMS)
    embeddings = normalize_rows(tested.embeddings[::step].float())
    labels = torch.from_numpy(tested.labels[::step].copy())
    pairs = random_pairs(labels, min(MIXES, 10 * len(labels)), ALPHA, seed)
    mixed = normalize_rows(pairs.of(embeddings))
    mixes = Mixes(mixed, labels[pairs.first], labels[pairs.second], pairs.share)
    found = []
    for kind, partners in (("clean", None), ("mixed", mixes)):
        histogram = distance_histogram(embeddings, labels, partners, bins=BINS)
        middles = ((histogram.edges[:-1] + histogram.edges[1:]) / 2).tolist()
        points = [
            Point(sign, x, round(float(y), 5))
            for sign, density in zip(("positive", "negative"), histogram.densities(), strict=True)
            for x, y in zip(middles, density, strict=True)
        ]
        title, zero = f"{name}: {kind} pairs", {"rangemode": "tozero"}
        found.append(chart("areas", title, points, x="distance", y="density", yaxis=zero))
    return found


def _values(rows: Sequence[Row], axis: str, side: str = OURS) -> list[str]:
    """The values of an axis, or methods: numbers by size, others in the order of rows."""
    places = [place_of(row, side) for row in rows]
    found = list(dict.fromkeys(place[axis] for place in places if axis in place))
    return sorted(found, key=float) if all(map(_is_number, found)) else found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _scale(values: Sequence[str]) -> str:
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
