"""The tables of a reproduction: published numbers beside ours, and the lists of the documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lookalike.evaluation.metrics import more_is_better
from lookalike.papers.catalogue import Listing
from lookalike.papers.run import Outcome
from lookalike.papers.selection import Row, joined_scores_of, quoted, scores_of
from lookalike.published import Published, read_table
from lookalike.report.formatting import (
    NOTHING,
    ROUNDING,
    metric_label,
    percent,
    plus_minus,
    signed,
    work,
)
from lookalike.report.scores import BASELINE
from lookalike.report.tables import Cell, Column, Table
from lookalike.report.tables import Row as TableRow
from lookalike.study.intervals import Interval

SMALL_MARK = "SMALL SCALE"
BLANK = Cell(values={"": None})
OURS, JOINED, VALIDATED = "ours", "concatenated", "our validation"
RANKED = ("published", OURS, JOINED, "published validation", VALIDATED)
"""Columns whose highest score is emphasized."""
PARTS = ("mean", "sd", "low", "high", "count", "over")
ENDINGS = ("", " sd", " low", " high", " count", " over")

Quotes = Mapping[tuple[str, str], Mapping[str, Published]]
"""Numbers that the document quotes: by where they stand and metric, then by method."""


def result_table(outcome: Outcome) -> Table:
    """The table of an outcome.

    Args:
        outcome: What came out of a reproduction.

    Returns:
        Its rows in the order of the document, then the study's baselines; for each metric the
        numbers that the document prints, ours and, of the same images and network, the difference.
    """
    axes = tuple(dict.fromkeys(axis for row in outcome.rows for axis in row.axes))
    quotes = _quotes(outcome)
    cells = [{m: _cells(row, m, quotes) for m in outcome.metrics} for row in outcome.rows]
    places = [
        (metric, what)
        for metric in outcome.metrics
        for what in dict.fromkeys(what for of_row in cells for what in of_row[metric])
        if what == OURS or any(one[metric].get(what, BLANK).text != NOTHING for one in cells)
    ]
    if not axes and len(cells) > 1:
        for metric, what in places:
            _emphasize([of_row[metric] for of_row in cells], metric, what)
    found = []
    for row, of_row in zip(outcome.rows, cells, strict=True):
        names = [Cell(row.method), *(Cell(row.axes.get(axis, "")) for axis in axes)]
        shown = [of_row[metric].get(what, BLANK) for metric, what in places]
        hidden = (Cell(values={"": row.recipe}), Cell(values={"": outcome.scale}))
        found.append(TableRow((*names, *shown, *hidden)))
    for one in outcome.baselines:
        names = [Cell(one.name), *(Cell(one.axes.get(axis, "")) for axis in axes)]
        scores = {OURS: scores_of(one), JOINED: joined_scores_of(one)}
        shown = [_ours(metric, scores.get(what, {}).get(metric)) for metric, what in places]
        hidden = (BLANK, Cell(values={"": outcome.scale}))
        found.append(TableRow((*names, *shown, *hidden), kind=BASELINE))
    columns = [Column("method"), *(Column(axis, words=True) for axis in axes)]
    for metric, what in places:
        alone = [of for of, _ in places].count(metric) == 1
        kind = "ours" if what in (OURS, JOINED, VALIDATED) else "published"
        label = "" if alone else what
        columns.append(Column(label, metric_label(metric), f"{metric} {what}", kind=kind))
    columns += [Column(name, shown=False) for name in ("recipe", "scale")]
    mark = f" ({SMALL_MARK})" if outcome.scale == "small" else ""
    return Table(
        f"{outcome.entry.name}: {outcome.heading}{mark}",
        tuple(columns),
        tuple(found),
        tuple(_notes(outcome, quotes)),
        about=_about(outcome),
        kind="results",
    )


def _cells(row: Row, metric: str, quotes: Quotes) -> dict[str, Cell]:
    """What stands in the columns of a metric; columns without anything are left out."""
    found = {
        place: _published(numbers.get(row.method))
        for (place, of), numbers in quotes.items()
        if of == metric
    }
    found["published"] = _published(row.published.get(metric))
    found[OURS] = _ours(metric, row.ours.get(metric))
    difference = row.difference(metric)
    found["difference"] = Cell(signed(difference), values={"": difference})
    found[JOINED] = _ours(metric, row.concatenated.get(metric))
    if row.validation_metric == metric and (row.published_validation or "ratio" in row.axes):
        found["published validation"] = _published(row.published_validation.get(metric))
        found[VALIDATED] = _ours(metric, row.validation)
    return found


def _emphasize(cells: Sequence[dict[str, Cell]], metric: str, what: str) -> None:
    """Mark the highest score of a column."""
    known = [one for one in cells if one.get(what, BLANK).text != NOTHING]
    if more_is_better(metric) and what in RANKED:
        highest = max((float(one[what].text) for one in known), default=0.0)
        for one in known:
            one[what] = replace(one[what], best=float(one[what].text) == highest)


def _about(outcome: Outcome) -> str:
    trainings = sum(len(row.trainings) for row in outcome.rows)
    trials = sum(len(row.trials) for row in outcome.rows)
    models = [one for row in outcome.rows if row.contender for one in row.contender.models]
    classes = max((len(one.classes.classes) for one in models if one.classes), default=0)
    return work(trainings, trials, classes)


def _quotes(outcome: Outcome) -> Quotes:
    found: dict[tuple[str, str], dict[str, Published]] = {}
    for one in quoted(outcome.entry):
        place = one.source.rpartition(", ")[2]
        found.setdefault((place, one.metric), {})[one.method] = one
    return found


def _published(found: Published | None) -> Cell:
    if found is None or found.value is None:
        return BLANK
    spread = "" if found.spread is None else f"{found.spread:.1f}"
    values: dict[str, float] = {"": found.value / 100}
    values |= {} if found.spread is None else {" deviation": found.spread / 100}
    return Cell(f"{found.value:.1f}", spread, values=values)


def _ours(metric: str, found: Interval | None) -> Cell:
    """Scores in per cent with one decimal, other measures with three; ± is never a zero."""
    if found is None:
        return BLANK
    own = found.as_mapping()
    values = {ending: own[part] for ending, part in zip(ENDINGS, PARTS, strict=True)}
    if more_is_better(metric):
        return Cell(percent(found.mean), plus_minus(found), values=values)
    half = found.half or 0.0
    width = f"{half:.3f}" if half >= 0.0005 else f"{half:.1g}"
    return Cell(f"{found.mean:.3f}", width if half >= ROUNDING else "", values=values)


def _notes(outcome: Outcome, quotes: Quotes) -> Iterator[str]:
    if outcome.scale == "small":
        yield (
            f"{SMALL_MARK}: the same experiment with another network, other or smaller images "
            "and a short training. Published numbers stand beside for orientation only."
        )
    kinds = {one.over for row in outcome.rows for one in row.ours.values() if one.half is not None}
    if "repeats" in kinds:
        yield "Ours: mean ± half the 95 % t-interval over repeats, per cent."
    if "folds" in kinds:
        yield (
            "Ours: mean ± standard deviation over the models of the folds (not a confidence "
            "interval), per cent."
        )
    if not kinds:
        yield "Ours: one training each, per cent."
    if any(row.concatenated for row in outcome.rows):
        yield "Concatenated: one embedding of all folds' models side by side."
    if outcome.baselines:
        starts = any(row.config.model.head_init == "pca" for row in outcome.rows)
        yield (
            "Raw features: the untrained network; PCA: reduced to the size of the embedding"
            + (", where every head starts." if starts else ".")
        )
    yield from outcome.unbeaten
    if not any(one.value is not None for row in outcome.rows for one in row.published.values()):
        yield "No published numbers of these rows are stored."
    for (place, metric), by_method in quotes.items():
        networks = {one.network for one in by_method.values()}
        if metric in outcome.metrics and len(networks) > 1:
            told = ", ".join(f"{method} {one.network}" for method, one in by_method.items())
            yield f"{place[0].upper()}{place[1:]}, by network: {told}."
    flagged = [row for row in outcome.rows if row.config.protocol.name == "paper"]
    if flagged:
        yield (
            f"No validation classes in {len(flagged)} of {len(outcome.rows)} rows: the last epoch "
            "is tested. Papers without validation test it too, or the best epoch on test classes."
        )


def list_table(listing: Listing) -> Table:
    """A list of a document, which needs no training: rows and columns of a CSV file.

    Args:
        listing: Which rows and columns.

    Returns:
        The table; an empty cell is something that the document does not say.

    >>> len(list_table(Listing(table="unfair", columns={"paper": "title"})).rows)
    19
    """
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for number, row in enumerate(read_table(listing.table)):
        if all(row[key] in values for key, values in listing.where.items()) and not any(
            row[key] in values for key, values in listing.without.items()
        ):
            place = " ".join(filter(None, (row[key] for key in listing.across)))
            own = tuple(row[key] for key in listing.columns.values())
            key = own if listing.across else (*own, str(number))
            cells.setdefault(key, {})[place] = row["value"] if listing.across else ""
            columns |= {place: None} if listing.across else {}
    names = [*listing.columns, *columns]
    rows = [
        [*key[: len(listing.columns)], *(found.get(place, "") for place in columns)]
        for key, found in cells.items()
    ]
    return Table.of_texts("", names, sorted(rows) if listing.sort else rows, kind="list")
