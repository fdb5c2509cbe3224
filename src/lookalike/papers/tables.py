"""The tables of a reproduction: published numbers beside ours, and the lists of the documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lookalike.evaluation.metrics import more_is_better
from lookalike.papers.catalogue import Listing
from lookalike.papers.outcome import Outcome
from lookalike.papers.selection import Row, joined_scores_of, quoted, scores_of
from lookalike.published import Published, read_table
from lookalike.report.formatting import NOTHING, metric_label, percent, signed
from lookalike.report.scores import BASELINE
from lookalike.report.tables import Cell, Column, Table
from lookalike.report.tables import Row as TableRow
from lookalike.study.intervals import Interval

__all__ = ["list_table", "result_table"]

SMALL_MARK = "SMALL SCALE"
NEGLIGIBLE = 1e-9
"""Rounding of values that are the same."""
RANKED = ("published", "ours", "concatenated", "published validation", "our validation")
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
        Its rows in the order of the document, then the study's baselines; for each metric that the
        document prints, the published number, ours and, of the same images and network, the
        difference.
    """
    axes = tuple(dict.fromkeys(axis for row in outcome.rows for axis in row.axes))
    quotes = _quotes(outcome)
    places = list(_columns(outcome, quotes))
    found = []
    for row in outcome.rows:
        names = [Cell(row.method), *(Cell(row.axes.get(axis, "")) for axis in axes)]
        cells = [_cell(row, metric, what, quotes) for metric, what in places]
        told = Cell(values={"": row.recipe}), Cell(values={"": outcome.scale})
        found.append(TableRow((*names, *cells, *told)))
    if not axes and len(found) > 1:
        found = _with_best(found, places)
    for one in outcome.baselines:
        ours, joined = scores_of(one), joined_scores_of(one)
        sources = {"": ours, "ours": ours, "concatenated": joined}
        names = [Cell(one.name), *(Cell(one.axes.get(axis, "")) for axis in axes)]
        cells = [_ours(metric, sources.get(what, {}).get(metric)) for metric, what in places]
        blank = Cell(values={"": None}), Cell(values={"": outcome.scale})
        found.append(TableRow((*names, *cells, *blank), kind=BASELINE))
    columns = [Column("method"), *(Column(axis, words=True) for axis in axes)]
    columns += [
        Column(what, metric_label(metric), f"{metric} {what or 'ours'}", kind=_kind(what))
        for metric, what in places
    ]
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


def _kind(what: str) -> str:
    """The style of a column: ours stands out."""
    return "ours" if what in ("", "ours", "our validation", "concatenated") else "published"


def _about(outcome: Outcome) -> str:
    trainings = sum(len(row.trainings) for row in outcome.rows)
    trials = sum(len(row.trials) for row in outcome.rows)
    models = [one for row in outcome.rows if row.contender for one in row.contender.models]
    classes = max((len(one.classes.classes) for one in models if one.classes), default=0)
    counts = ((trainings, "training runs"), (trials, "trials"), (classes, "test classes"))
    return ", ".join(f"{count:,} {what}" for count, what in counts if count)


def _columns(outcome: Outcome, quotes: Quotes) -> Iterator[tuple[str, str]]:
    """The metric of each column, and what of it: published, ours, difference, ..."""
    rows = outcome.rows
    validated = {
        row.validation_metric
        for row in rows
        if row.validation is not None and (row.published_validation or "ratio" in row.axes)
    }
    printed = {m for row in rows for m, one in row.published.items() if one.value is not None}
    joined = {metric for row in rows for metric in row.concatenated}
    for metric in outcome.metrics:
        several = metric in printed | joined | validated | {of for _, of in quotes}
        yield from ((metric, place) for place, of in quotes if of == metric)
        if metric in printed:
            yield metric, "published"
        yield metric, "ours" if several else ""
        if any(row.difference(metric) is not None for row in rows):
            yield metric, "difference"
        if metric in joined:
            yield metric, "concatenated"
        if metric in validated:
            if any(metric in row.published_validation for row in rows):
                yield metric, "published validation"
            yield metric, "our validation"


def _quotes(outcome: Outcome) -> Quotes:
    found: dict[tuple[str, str], dict[str, Published]] = {}
    for one in quoted(outcome.entry):
        place = one.source.rpartition(", ")[2]
        found.setdefault((place, one.metric), {})[one.method] = one
    return found


def _cell(row: Row, metric: str, what: str, quotes: Quotes) -> Cell:
    if (what, metric) in quotes:
        return _published(quotes[what, metric].get(row.method))
    match what:
        case "published":
            return _published(row.published.get(metric))
        case "difference":
            difference = row.difference(metric)
            return Cell(signed(difference), values={"": difference})
        case "concatenated":
            return _ours(metric, row.concatenated.get(metric))
        case "published validation":
            return _published(row.published_validation.get(metric))
        case "our validation":
            return _ours(metric, row.validation if row.validation_metric == metric else None)
    return _ours(metric, row.ours.get(metric))


def _published(found: Published | None) -> Cell:
    if found is None or found.value is None:
        return Cell(values={"": None})
    spread = "" if found.spread is None else f"{found.spread:.1f}"
    values: dict[str, float] = {"": found.value / 100}
    values |= {} if found.spread is None else {" deviation": found.spread / 100}
    return Cell(f"{found.value:.1f}", spread, values=values)


def _ours(metric: str, found: Interval | None) -> Cell:
    """Scores in per cent with one decimal, other measures with three."""
    if found is None:
        return Cell(values={"": None})
    own = found.as_mapping()
    values = {ending: own[part] for ending, part in zip(ENDINGS, PARTS, strict=True)}
    if more_is_better(metric):
        return Cell(percent(found.mean), _half(found, 100, 1), values=values)
    return Cell(f"{found.mean:.3f}", _half(found, 1, 3), values=values)


def _half(found: Interval, factor: float, digits: int) -> str:
    """What stands after ±: of values that do not vary nothing, and never a zero."""
    if found.half is None or found.half < NEGLIGIBLE:
        return ""
    text = f"{factor * found.half:.{digits}f}"
    return text if float(text) else f"< {10**-digits:.{digits}f}"


def _with_best(rows: Sequence[TableRow], places: Sequence[tuple[str, str]]) -> list[TableRow]:
    """The rows with the highest score of each column emphasized."""
    found = [list(row.cells) for row in rows]
    for at, (metric, what) in enumerate(places, 1):
        if not more_is_better(metric) or what not in ("", *RANKED):
            continue
        shown = [float(cells[at].text) for cells in found if cells[at].text != NOTHING]
        for cells in found:
            if cells[at].text != NOTHING and float(cells[at].text) == max(shown):
                cells[at] = replace(cells[at], best=True)
    return [replace(row, cells=tuple(cells)) for row, cells in zip(rows, found, strict=True)]


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
