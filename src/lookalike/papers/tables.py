"""The table of a reproduction: published, ours, difference; as text, CSV, Markdown and LaTeX."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rich import box
from rich.markup import escape
from rich.table import Table

from lookalike.evaluation.metrics import more_is_better
from lookalike.papers.outcome import Baseline, Outcome, OutcomeRow
from lookalike.papers.selection import quoted
from lookalike.published import Published
from lookalike.report.formatting import NOTHING, metric_label, percent, signed
from lookalike.report.tables import escape_latex
from lookalike.study.intervals import Interval

__all__ = ["ResultTable", "as_csv", "as_latex", "as_markdown", "as_text", "result_table"]

SMALL_MARK = "SMALL SCALE"
NEGLIGIBLE = 1e-9
"""Rounding of values that are the same."""
TERMINAL = 80
"""Columns of a terminal."""


@dataclass(frozen=True)
class Column:
    """One column of numbers."""

    metric: str
    what: str
    """published, ours, difference, concatenated, validation, or where a quoted number stands;
    empty: the only one of its metric."""
    quoted: Mapping[str, Published] = field(default_factory=dict)
    """Numbers that the document quotes, by method."""


@dataclass(frozen=True)
class ResultRow:
    """One row as text, a cell for each column."""

    method: str
    axes: tuple[str, ...]
    cells: tuple[tuple[str, str], ...]
    """What is shown, and what is shown after ±."""
    best: frozenset[int] = field(default_factory=frozenset)
    """The columns in which no other row is higher."""
    trained: bool = True
    """False: a baseline."""


@dataclass(frozen=True)
class ResultTable:
    """Everything that the table shows."""

    title: str
    axes: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The metrics, and how many columns each has."""
        names = dict.fromkeys(column.metric for column in self.columns)
        return [(name, sum(c.metric == name for c in self.columns)) for name in names]

    @property
    def heads(self) -> list[str]:
        """One line of column titles."""
        numbers = [f"{metric_label(c.metric)} {c.what}".strip() for c in self.columns]
        return ["method", *self.axes, *numbers]

    def parts(self, room: int) -> "list[ResultTable]":
        """Tables below each other that are not wider, each with the metrics that fit, one at least.

        Args:
            room: Characters of a line, with one space between columns.

        Returns:
            Tables of the same rows, whose columns are those of this one in their order.
        """
        first = 1 + len(self.axes)
        heads = [max(metric_label(c.metric), c.what, key=len) for c in self.columns]
        widths = [len(text) for text in ("method", *self.axes, *heads)]
        for row in self.rows:
            widths = [max(w, len(text)) for w, text in zip(widths, self.line(row), strict=True)]
        taken = sum(widths[:first]) + first
        cuts, end, width = [0], 0, taken
        for _, count in self.groups:
            own = sum(widths[first + end : first + end + count]) + count
            if end > cuts[-1] and width + own > room:
                cuts.append(end)
                width = taken
            end, width = end + count, width + own
        return [self._cut(start, stop) for start, stop in pairwise((*cuts, end))]

    def _cut(self, start: int, end: int) -> "ResultTable":
        rows = [
            replace(
                row,
                cells=row.cells[start:end],
                best=frozenset(at - start for at in row.best if start <= at < end),
            )
            for row in self.rows
        ]
        return replace(self, columns=self.columns[start:end], rows=tuple(rows))

    def line(self, row: ResultRow, between: str = " ± ") -> list[str]:
        """A row as text."""
        return [row.method, *row.axes, *(between.join(filter(None, cell)) for cell in row.cells)]


def result_table(outcome: Outcome) -> ResultTable:
    """The table of an outcome.

    Args:
        outcome: What came out of a reproduction.

    Returns:
        Its rows in the order of the document, then the study's baselines; for each metric that the
        document prints, the published number, ours and, of the same images and network, the
        difference.
    """
    axes = tuple(dict.fromkeys(axis for row in outcome.rows for axis in row.axes))
    columns = tuple(_columns(outcome))
    rows = [
        ResultRow(
            row.method,
            tuple(row.axes.get(axis, "") for axis in axes),
            tuple(_cell(row, column) for column in columns),
        )
        for row in outcome.rows
    ]
    if not axes and len(rows) > 1:
        rows = [
            ResultRow(row.method, row.axes, row.cells, _best(row, rows, columns)) for row in rows
        ]
    rows += [
        ResultRow(
            one.method,
            tuple(one.axes.get(axis, "") for axis in axes),
            tuple(_baseline_cell(one, column) for column in columns),
            trained=False,
        )
        for one in outcome.baselines
    ]
    return ResultTable(_title(outcome), axes, columns, tuple(rows), tuple(_notes(outcome)))


def _title(outcome: Outcome) -> str:
    mark = f" ({SMALL_MARK})" if outcome.scale == "small" else ""
    return f"{outcome.entry.name}: {outcome.heading}{mark}"


def _columns(outcome: Outcome) -> Iterator[Column]:
    rows = outcome.rows
    validated = {
        row.result.metric
        for row in rows
        if row.validation is not None and (row.planned.published_validation or "ratio" in row.axes)
    }
    printed = {m for row in rows for m, one in row.published.items() if one.value is not None}
    joined = {metric for row in rows for metric in row.concatenated}
    quotes = _quotes(outcome)
    for metric in outcome.metrics:
        several = metric in printed | joined | validated | {of for _, of in quotes}
        for (place, of), by_method in quotes.items():
            if of == metric:
                yield Column(metric, place, by_method)
        if metric in printed:
            yield Column(metric, "published")
        yield Column(metric, "ours" if several else "")
        if any(row.difference(metric) is not None for row in rows):
            yield Column(metric, "difference")
        if metric in joined:
            yield Column(metric, "concatenated")
        if metric in validated:
            if any(metric in row.planned.published_validation for row in rows):
                yield Column(metric, "published validation")
            yield Column(metric, "our validation")


def _quotes(outcome: Outcome) -> dict[tuple[str, str], dict[str, Published]]:
    """Numbers that the document quotes: by where they stand and metric, then by method."""
    found: dict[tuple[str, str], dict[str, Published]] = {}
    for one in quoted(outcome.entry):
        place = one.source.rpartition(", ")[2]
        found.setdefault((place, one.metric), {})[one.method] = one
    return found


def _cell(row: OutcomeRow, column: Column) -> tuple[str, str]:
    metric = column.metric
    if column.quoted:
        return _published(column.quoted.get(row.method))
    match column.what:
        case "published":
            return _published(row.published.get(metric))
        case "difference":
            return signed(row.difference(metric)), ""
        case "concatenated":
            return _ours(metric, row.concatenated.get(metric))
        case "published validation":
            return _published(row.planned.published_validation.get(metric))
        case "our validation":
            return _ours(metric, row.validation if row.result.metric == metric else None)
    return _ours(metric, row.ours.get(metric))


def _baseline_cell(one: Baseline, column: Column) -> tuple[str, str]:
    if column.what in ("", "ours"):
        return _ours(column.metric, one.ours.get(column.metric))
    joined = one.concatenated.get(column.metric) if column.what == "concatenated" else None
    return _ours(column.metric, joined)


def _published(found: Published | None) -> tuple[str, str]:
    if found is None or found.value is None:
        return NOTHING, ""
    return f"{found.value:.1f}", "" if found.spread is None else f"{found.spread:.1f}"


def _ours(metric: str, found: Interval | None) -> tuple[str, str]:
    """Scores in per cent with one decimal, other measures with three."""
    if found is None:
        return NOTHING, ""
    if more_is_better(metric):
        return percent(found.mean), _half(found, 100, 1)
    return f"{found.mean:.3f}", _half(found, 1, 3)


def _half(found: Interval, factor: float, digits: int) -> str:
    """What stands after ±: of values that do not vary nothing, and never a zero."""
    if found.half is None or found.half < NEGLIGIBLE:
        return ""
    text = f"{factor * found.half:.{digits}f}"
    return text if float(text) else f"< {10**-digits:.{digits}f}"


def _best(row: ResultRow, rows: Sequence[ResultRow], columns: Sequence[Column]) -> frozenset[int]:
    found = set()
    for at, column in enumerate(columns):
        shown = [float(one.cells[at][0]) for one in rows if _is_score(one.cells[at][0])]
        ranks = more_is_better(column.metric) and column.what != "difference"
        ranks = ranks and not column.quoted
        own = row.cells[at][0]
        if ranks and _is_score(own) and float(own) == max(shown):
            found.add(at)
    return frozenset(found)


def _is_score(text: str) -> bool:
    return text != NOTHING and not text.startswith(("+", "−", "±"))


def _notes(outcome: Outcome) -> Iterator[str]:
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
        starts = any(row.planned.config.model.head_init == "pca" for row in outcome.rows)
        yield (
            "Untrained network: its features, raw and reduced to the size of the embedding"
            + (", where every head starts (PCA)." if starts else ".")
        )
    yield from outcome.unbeaten
    if not any(one.value is not None for row in outcome.rows for one in row.published.values()):
        yield "No published numbers of these rows are stored."
    for (place, metric), by_method in _quotes(outcome).items():
        networks = {one.network for one in by_method.values()}
        if metric in outcome.metrics and len(networks) > 1:
            told = ", ".join(f"{method} {one.network}" for method, one in by_method.items())
            yield f"{place[0].upper()}{place[1:]}, by network: {told}."
    flagged = [row for row in outcome.rows if row.planned.config.protocol.name == "paper"]
    if flagged:
        yield (
            f"No validation classes in {len(flagged)} of {len(outcome.rows)} rows: the last epoch "
            "is tested. Papers without validation test it too, or the best epoch on test classes."
        )


def as_text(table: ResultTable) -> Table:
    """For a terminal of 80 columns: as many metrics as fit.

    Args:
        table: The table.

    Returns:
        A table of :mod:`rich`, the best of each column in bold.
    """
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.title = escape(table.title)
    part, *more = table.parts(TERMINAL)
    numbers = [f"{metric_label(c.metric)}\n{c.what}".rstrip() for c in part.columns]
    for at, head in enumerate(["method", *part.axes, *numbers]):
        shown.add_column(escape(head), justify="right" if at else "left", overflow="fold")
    for row in part.rows:
        cells = [escape(text) for text in part.line(row)]
        for at in row.best:
            place = 1 + len(part.axes) + at
            cells[place] = f"[bold]{cells[place]}[/bold]"
        shown.add_row(*cells)
    left = [metric_label(metric) for one in more for metric, _ in one.groups]
    notes = [*table.notes, *([f"In the files: {', '.join(left)}."] if left else [])]
    shown.caption = escape("\n".join(notes)) or None
    return shown


def as_csv(outcome: Outcome) -> str:
    """For programs: one line per row and metric, scores as fractions in all digits.

    Args:
        outcome: What came out of a reproduction.

    Returns:
        The text of the file.
    """
    axes = list(dict.fromkeys(axis for row in outcome.rows for axis in row.axes))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = ["published", "published deviation", "ours", "sd", "low", "high", "count", "over"]
    tail = ["difference", "concatenated", "recipe", "scale"]
    writer.writerow(["method", *axes, "metric", *numbers, *tail])
    for row in outcome.rows:
        for metric, found in row.ours.items():
            printed = row.published.get(metric)
            value = printed.value if printed else None
            spread = printed.spread if printed else None
            own = found.as_mapping()
            joined = row.concatenated.get(metric)
            writer.writerow(
                [
                    row.method,
                    *(row.axes.get(axis) for axis in axes),
                    metric,
                    None if value is None else value / 100,
                    None if spread is None else spread / 100,
                    *(own[key] for key in ("mean", "sd", "low", "high", "count", "over")),
                    row.difference(metric),
                    None if joined is None else joined.mean,
                    row.planned.recipe,
                    outcome.scale,
                ]
            )
    for base in outcome.baselines:
        for metric, found in base.ours.items():
            own = found.as_mapping()
            joined = base.concatenated.get(metric)
            writer.writerow(
                [
                    base.method,
                    *(base.axes.get(axis) for axis in axes),
                    metric,
                    *(None, None),
                    *(own[key] for key in ("mean", "sd", "low", "high", "count", "over")),
                    None,
                    None if joined is None else joined.mean,
                    None,
                    outcome.scale,
                ]
            )
    return text.getvalue()


def as_markdown(table: ResultTable) -> str:
    """For a README or an issue.

    Args:
        table: The table.

    Returns:
        The text, the best of each column in bold.
    """
    lines = [table.heads, ["---", *["---:"] * (len(table.heads) - 1)]]
    first = 1 + len(table.axes)
    for row in table.rows:
        cells = [text.replace("|", "\\|") for text in table.line(row)]
        for at in row.best:
            cells[first + at] = f"**{cells[first + at]}**"
        lines.append(cells)
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = "".join(f"\n{note}\n" for note in table.notes)
    return f"### {table.title}\n\n{body}{notes}"


def as_latex(table: ResultTable) -> str:
    """For a paper: one ``table`` with booktabs rules.

    Args:
        table: The table.

    Returns:
        The text.
    """
    first = 1 + len(table.axes)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.title)}.}}",
        rf"  \begin{{tabular}}{{{'l' * first}{'r' * len(table.columns)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escape_latex, table.heads))} " + r"\\",
        r"    \midrule",
    ]
    for row in table.rows:
        cells = [escape_latex(text).replace("−", "$-$") for text in table.line(row)]
        for at in row.best:
            cells[first + at] = rf"\textbf{{{cells[first + at]}}}"
        lines.append(f"    {' & '.join(cells)} " + r"\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\footnotesize {escape_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])
