"""One table for scores, settings, published numbers and lists: as text, CSV, Markdown, LaTeX, HTML.

A :class:`Table` has columns, which may be grouped, rows, and notes below. A cell has what is shown
and, for programs, its values in all digits. :mod:`lookalike.report.scores` makes those of scores.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Self

import rich.table
from markupsafe import Markup
from rich import box
from rich.markup import escape

from lookalike.errors import escaped
from lookalike.report.formatting import NOTHING, template

TERMINAL = 80
"""Columns of a terminal."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Its title.
        group: The title that it shares with its neighbours.
        key: What programs call it; empty: the group and the name.
        words: Whether it has text, which starts at the left.
        kind: A class of the style sheet.
        shown: False: for programs only.
    """

    name: str
    group: str = ""
    key: str = ""
    words: bool = False
    kind: str = ""
    shown: bool = True

    @property
    def title(self) -> str:
        """The title on one line."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class Cell:
    """What stands at a row and a column.

    Attributes:
        text: What is shown.
        spread: What stands after ±.
        bounds: An interval.
        gain: What stands below, where there is room.
        values: For programs: by the ending of the column's key. Without: the text.
        best: Whether it is emphasized.
        kind: A class of the style sheet.
        title: What a page says of it under the pointer.
        more: Lines that can be unfolded.
    """

    text: str = NOTHING
    spread: str = ""
    bounds: str = ""
    gain: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    best: bool = False
    kind: str = ""
    title: str = ""
    more: tuple[str, ...] = ()

    def line(self, start: str = "", end: str = "", between: str = " ± ") -> str:
        """Everything on one line, the emphasized part between ``start`` and ``end``."""
        text = f"{start}{self.text}{end}" if self.best else self.text
        text += f"{between}{self.spread}" if self.spread else ""
        return text + (f" [{self.bounds}]" if self.bounds else "")

    def width(self, page: bool) -> int:
        """How many characters wide it is; on a page intervals stand below, and ± is set smaller."""
        if not page:
            return len(self.line())
        first = 2 + len(self.text) + (round(0.8 * len(self.spread)) + 2 if self.spread else 0)
        return max(first, round(0.8 * len(self.bounds)), len(self.gain))


@dataclass(frozen=True)
class Row:
    """One row, a cell for each column; ``marks`` are numbers of notes, ``kind`` a class."""

    cells: tuple[Cell, ...]
    marks: tuple[int, ...] = ()
    kind: str = ""

    @property
    def name(self) -> str:
        """What the row is called."""
        return self.cells[0].text


@dataclass(frozen=True)
class Table:
    """Columns, rows, and what stands below.

    Attributes:
        title: The heading.
        columns: The first one has the names of the rows.
        rows: From the top.
        notes: Sentences about all of it.
        flaws: Numbered sentences, to which marks refer.
        about: How much work is behind it: runs, trials, classes.
        kind: A class of the style sheet.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()
    about: str = ""
    kind: str = ""

    @classmethod
    def of_texts(
        cls, title: str, columns: Sequence[str | Column], rows: Sequence[Sequence[str]], **more: Any
    ) -> Self:
        """A table of texts; a column that is only a name has words."""
        made = [Column(one, words=True) if isinstance(one, str) else one for one in columns]
        return cls(title, tuple(made), tuple(Row(tuple(map(Cell, row))) for row in rows), **more)

    @property
    def shown(self) -> "Table":
        """The table without the columns that are for programs only."""
        return self._of_columns([at for at, one in enumerate(self.columns) if one.shown])

    @property
    def lines(self) -> tuple[str, ...]:
        """What stands below, flaws with their numbers."""
        return (*(f"[{n}] {flaw}" for n, flaw in enumerate(self.flaws, 1)), *self.notes)

    @property
    def groups(self) -> list[tuple[str, list[int]]]:
        """Neighbouring columns of one group, each with their places; of no group: one by one."""
        keys = [one.group or str(at) for at, one in enumerate(self.columns)]
        runs = groupby(range(len(keys)), key=keys.__getitem__)
        found = [list(places) for _, places in runs]
        return [(self.columns[places[0]].group, places) for places in found]

    @property
    def starts(self) -> set[int]:
        """The places of columns that begin a group."""
        first = {places[0] for group, places in self.groups if group}
        return {at for at in first if self.columns[at].name}

    def row(self, name: str) -> Row:
        """The row of a name."""
        return next(row for row in self.rows if row.name == name)

    def cell(self, name: str, column: str) -> Cell:
        """The cell of a row in the column with this key or title."""
        known = [column in (one.key, one.title) for one in self.columns]
        return self.row(name).cells[known.index(True)]

    def _of_columns(self, chosen: Sequence[int]) -> "Table":
        return replace(
            self,
            columns=tuple(self.columns[at] for at in chosen),
            rows=tuple(replace(r, cells=tuple(r.cells[at] for at in chosen)) for r in self.rows),
        )

    def parts(self, room: int, *, page: bool = False) -> "list[Table]":
        """Tables of at most ``room`` characters a line, cut between groups; one group at least.

        Columns without a group are in each of them. On a page intervals stand below scores.
        """
        table = self.shown
        heads = [one.name or one.group for one in table.columns]
        widths = [
            1 + max(len(head), *(row.cells[at].width(page) for row in table.rows), 0)
            for at, head in enumerate(heads)
        ]
        fixed = [at for group, places in table.groups if not group for at in places]
        left = room - sum(widths[at] for at in fixed)
        parts: list[list[int]] = []
        used = 0
        for group, places in table.groups:
            own = sum(widths[at] for at in places)
            if not group:
                continue
            if not parts or used + own > left:
                parts.append([])
                used = 0
            parts[-1] += places
            used += own
        return [table._of_columns(sorted([*fixed, *part])) for part in parts] or [table]


def _marks(row: Row) -> str:
    return f" [{','.join(map(str, row.marks))}]" if row.marks else ""


def as_text(table: Table, width: int = TERMINAL) -> rich.table.Table:
    """For a terminal: as many groups of columns as fit, the best in bold."""
    shown = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.title = escape(table.title) or None
    part, *more = table.parts(width - 2)  # both edges
    for at, one in enumerate(part.columns):
        head = "\n".join(filter(None, (one.group, one.name)))
        if at == 0 or one.words:
            shown.add_column(escape(head), overflow="fold")
        else:
            shown.add_column(escape(head), justify="right", no_wrap=True)
    for before, row in zip((None, *part.rows), part.rows, strict=False):
        if before and row.kind != before.kind:
            shown.add_section()
        name, *cells = row.cells
        lines = [
            re.sub("^\0(.*)\1", r"[bold]\1[/bold]", escape(one.line("\0", "\1"))) for one in cells
        ]
        shown.add_row(escape(name.text + _marks(row)), *lines)
    left_out = dict.fromkeys(one.group for cut in more for one in cut.columns if one.group)
    notes = [*table.notes, *([f"In the files: {', '.join(left_out)}."] if left_out else [])]
    shown.caption = escape("\n".join(notes)) or None
    return shown


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of texts in columns, for a terminal of any width.

    >>> aligned([["loss", "trials"], ["triplet", "20"]])
    ['loss     trials', 'triplet  20']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def as_csv(tables: Sequence[Table]) -> str:
    """For programs: a line for each row, all columns of all tables, numbers in all digits."""
    lines: list[dict[str, Any]] = []
    for table in tables:
        for row in table.rows:
            line: dict[str, Any] = {}
            for column, cell in zip(table.columns, row.cells, strict=True):
                key = column.key or column.title
                values = cell.values or {"": None if cell.text == NOTHING else cell.text}
                line |= {key + ending: value for ending, value in values.items()}
            lines.append(line)
    text = io.StringIO()
    columns = dict.fromkeys(key for line in lines for key in line)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def as_markdown(tables: Sequence[Table]) -> str:
    """For a README or an issue; the best in bold."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: Table) -> str:
    shown = table.shown
    numbers = ["---" if one.words else "---:" for one in shown.columns[1:]]
    lines = [[escape_markdown(one.title) for one in shown.columns], ["---", *numbers]]
    for row in shown.rows:
        cells = [replace(one, text=escape_markdown(one.text)) for one in row.cells]
        name, *texts = (one.line("**", "**") for one in cells)
        lines.append([name + _marks(row), *texts])
    top = f"### {escape_markdown(table.title)}\n\n" if table.title else ""
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    flaws = [f"[{n}] {escape_markdown(flaw)}" for n, flaw in enumerate(table.flaws, 1)]
    notes = map(escape_markdown, table.notes)
    return top + body + "".join(f"\n{one}\n" for one in (*flaws, *notes))


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is: no markup of HTML, no link, and one line.

    >>> print(escape_markdown("a|b\\n<script>"))
    a\\|b \\<script>
    """
    return re.sub(r"[\\`|<\[]", r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    """Text without ends of lines, in which other control characters are shown."""
    return escaped(" ".join(text.splitlines()))


def as_html(
    tables: Sequence[Table], before: Mapping[str, Markup] | None = None, anchor: str = ""
) -> Markup:
    """For a page or a notebook, everything escaped.

    Args:
        tables: They stand below each other.
        before: By name of a row: what stands before it.
        anchor: Marks link to ``#{anchor}-{number}``; empty: they are no links.

    Returns:
        The markup; notes are left out where ``anchor`` is given, as the page has them elsewhere.
    """
    shown = [table.shown for table in tables]
    text = template("table.html.j2").render(tables=shown, before=before or {}, anchor=anchor)
    return Markup(text)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "–": "--",
    "−": "$-$",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(text))


def as_latex(tables: Sequence[Table]) -> str:
    """For a paper: a ``table`` with booktabs rules each, its caption and its label."""
    return "\n".join(map(_latex, tables))


def _latex(table: Table) -> str:
    shown = table.shown
    caption = ": ".join(filter(None, (table.title, table.about))).rstrip(".")
    label = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
    sides = "".join("l" if at == 0 or one.words else "r" for at, one in enumerate(shown.columns))
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}.}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{sides}}}",
        r"    \toprule",
        f"    {' & '.join(escape_latex(one.title) for one in shown.columns)} " + r"\\",
        r"    \midrule",
    ]
    for before, row in zip((None, *shown.rows), shown.rows, strict=False):
        if before and row.kind != before.kind:
            lines.append(r"    \midrule")
        marks = "".join(rf"\textsuperscript{{{mark}}}" for mark in row.marks)
        first = escape_latex(row.name) + marks
        first = "{}" * first.startswith(("[", "*")) + first  # "\\\\" would take them for its own
        lines.append(f"    {' & '.join([first, *map(_latex_cell, row.cells[1:])])} " + r"\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\footnotesize {escape_latex(line)}" for line in table.lines]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_cell(cell: Cell) -> str:
    """A cell; what is emphasized in bold."""
    text, rest = escape_latex(cell.text), escape_latex(replace(cell, text="").line())
    return (rf"\textbf{{{text}}}" if cell.best else text) + rest
