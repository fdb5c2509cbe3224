"""The table of scores, as text, CSV, Markdown, HTML and LaTeX."""

import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from lookalike.compare.audit import Audit, listed
from lookalike.compare.comparison import OnDataset, Ranking
from lookalike.compare.contenders import MethodResult
from lookalike.compare.sampling import class_bounds
from lookalike.compare.uncertainty import Bounds
from lookalike.report.formatting import (
    NOTHING,
    metric_label,
    models_spread,
    percent,
    plus_minus,
    signed,
)
from lookalike.study.intervals import Interval
from lookalike.study.results import Which


@dataclass(frozen=True)
class ScoreRow:
    """One method: its scores between 0 and 1, its cost, and the flaws that concern it."""

    name: str
    scores: Mapping[str, Interval]
    trainings: int
    trials: int
    failed: int
    seconds: float | None
    epochs: int
    chosen_epoch: int | None
    run: str
    apart: bool
    """A baseline: not trained, not ranked."""
    untouched: bool = False
    """The network as it was before any training."""
    studies: int = 1
    """How many whole studies its repeats are; 1: repeats are those of one study."""
    marks: tuple[int, ...] = ()
    """Numbers of the audit's sentences below the table."""
    classes: Mapping[str, Bounds] = field(default_factory=dict)
    """By metric: the interval over trainings x test classes, where it is known."""

    @property
    def spread_over(self) -> str | None:
        """Over what ± is taken, repeats or folds; None where there is none."""
        return next((one.over for one in self.scores.values() if one.half is not None), None)


@dataclass(frozen=True)
class ScoreTable:
    """The methods on one data set, ordered by score where that is fair; baselines are apart."""

    dataset: str
    """Its name, with the values of axes where there are any."""
    metrics: tuple[str, ...]
    trained: tuple[ScoreRow, ...]
    apart: tuple[ScoreRow, ...]
    ranking: Ranking
    """Whether rows are ranked: "fair", "refused", or "anyway" although it is not fair."""
    flaws: tuple[str, ...]
    """The audit's sentences; marks of rows count them from 1."""
    best: tuple[str, str] | None = None
    """The row that is shown to be better than every other one, and by which metric."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """In which settings rows of one name differ, where they are numbered."""
    chosen: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The hyper-parameters that tuning chose, by row."""

    @property
    def rows(self) -> tuple[ScoreRow, ...]:
        """All rows, baselines last."""
        return (*self.trained, *self.apart)

    @property
    def reference(self) -> ScoreRow | None:
        """What gains refer to: the network before any training."""
        return next((row for row in self.apart if row.untouched), None)

    @property
    def spread(self) -> str:
        """What ± means here; empty where no score has one."""
        of_folds = [row.name for row in self.trained if row.spread_over == "folds"]
        of_repeats = any(row.spread_over == "repeats" for row in self.rows)
        folds = "the standard deviation over the models of the folds, not a confidence interval"
        repeats = (
            f"± half the 95 % t-interval of the mean of {self._times}, on these test classes; "
            "(sd) the standard deviation of single models"
        )
        if not of_folds:
            return repeats if of_repeats else ""
        if not of_repeats:
            return f"± {folds}"
        return f"{repeats}; of {listed(of_folds)} ± is {folds}"

    @property
    def _times(self) -> str:
        """What a mean is of: "10 repeats of 4 folds"."""
        rows = [row for row in self.trained if row.spread_over == "repeats"]
        counts = {one.count for row in rows for one in row.scores.values()}
        unit = "whole studies" if any(row.studies > 1 for row in rows) else "repeats"
        if len(counts) != 1:
            return f"all {unit}"
        (count,) = counts
        models = {row.trainings // count for row in rows}
        if len(models) == 1 and models != {1}:
            what = "models" if unit == "whole studies" else "folds"
            return f"{count} {unit} of {models.pop()} {what}"
        return f"{count} {unit}"

    @property
    def brackets(self) -> str:
        """What an interval in brackets means here; empty where no score has one."""
        if not any(row.classes for row in self.rows):
            return ""
        several = any(row.spread_over == "repeats" for row in self.trained)
        over = "trainings x test classes" if several else "test classes"
        if any(row.studies > 1 for row in self.trained):
            over = "whole studies x test classes"
        return f"in brackets the 95 % interval over {over}, searched in this gallery"

    @property
    def legend(self) -> str:
        """What ± and brackets mean here; empty where there are none."""
        return "; ".join(part for part in (self.spread, self.brackets) if part)

    @property
    def unbeaten(self) -> list[str]:
        """The baselines that score higher than every trained row, by the first metric."""
        metric = self.metrics[0]
        trained = [row.scores[metric].mean for row in self.trained if metric in row.scores]
        known = [row for row in self.apart if metric in row.scores]
        return [row.name for row in known if trained and row.scores[metric].mean > max(trained)]

    @property
    def facts(self) -> tuple[str, ...]:
        """The columns after the scores that have values."""
        several = any(row.trainings > 1 for row in self.trained)
        tuned = any(row.trials for row in self.trained)
        one_epoch = any(row.epochs for row in self.trained) and not several
        return (
            *(("trials",) if tuned else ()),
            *(("trainings",) if several else ()),
            "seconds",
            *(("epoch",) if one_epoch else ()),
        )

    def fact(self, row: ScoreRow, name: str) -> str:
        """The text of one of the columns after the scores."""
        if row.apart:
            return NOTHING
        if name == "trials":
            return f"{row.trials} ({row.failed} failed)" if row.failed else str(row.trials)
        if name == "epoch":
            chosen = row.epochs if row.chosen_epoch is None else row.chosen_epoch
            return f"{chosen} of {row.epochs}" if row.epochs else NOTHING
        if name == "trainings":
            return str(row.trainings)
        if row.seconds is None:
            return NOTHING
        return f"{row.seconds:.1f}" if row.seconds < 1000 else f"{row.seconds:,.0f}"

    def is_best(self, row: ScoreRow, metric: str) -> bool:
        """Whether the row is shown to be better than every other one, baselines too.

        That is tested for the metric that ranks. Nothing is best where a ranking was refused.
        """
        return self.ranking != "refused" and self.best == (row.name, metric)

    def gain(self, row: ScoreRow, metric: str) -> float | None:
        """The difference to the untrained network, where there is one."""
        bare = self.reference
        if row.apart or bare is None or metric not in row.scores or metric not in bare.scores:
            return None
        return row.scores[metric].mean - bare.scores[metric].mean


def score_table(part: OnDataset, metrics: Sequence[str], which: Which = "separate") -> ScoreTable:
    """The table of a comparison on one data set, with ``metrics`` as columns.

    ``which``: scores of single models, or of the concatenated embeddings of all folds.
    """
    bounds = {metric: class_bounds(part.contenders, metric, which) for metric in metrics}
    rows = [_row(one, part, metrics, which, bounds) for one in part.contenders]
    return ScoreTable(
        dataset=part.label,
        metrics=tuple(metrics),
        trained=tuple(row for row in rows if not row.apart),
        apart=tuple(row for row in rows if row.apart),
        ranking=part.ranking,
        flaws=tuple(flaw.sentence for flaw in part.audit.flaws),
        best=_shown_best(part),
        settings={one.name: one.settings for one in part.contenders if one.settings},
        chosen={
            one.name: {key: _short(value) for key, value in one.row.tuned.items()}
            for one in part.contenders
            if one.row and one.row.tuned
        },
    )


def _shown_best(part: OnDataset) -> tuple[str, str] | None:
    """The method whose differences to all others hold, and the metric of the comparison."""
    worse: dict[str, set[str]] = {}
    for one in part.differences:
        if one.holds:
            worse.setdefault(one.better, set()).add(one.worse)
    everyone = {one.name for one in part.contenders}
    found = [one.name for one in part.trained if worse.get(one.name) == everyone - {one.name}]
    return (found[0], part.metric) if found and len(everyone) > 1 else None


def _short(value: Any) -> str:
    """A value of a hyper-parameter with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main_table(part: OnDataset, metric: str, which: Which = "separate") -> ScoreTable:
    """The metric that ranks, Recall@1 and MAP@R as columns, where all rows have them.

    Args:
        part: The comparison on one data set.
        metric: What ranks.
        which: Scores of single models, or of the concatenated embeddings of all folds.

    Returns:
        The table.
    """
    names = dict.fromkeys([metric, "recall@1", "map@r"])
    known = [name for name in names if all(name in one.metrics for one in part.contenders)]
    return score_table(part, known, which)


def _row(
    one: MethodResult,
    part: OnDataset,
    metrics: Sequence[str],
    which: Which,
    bounds: Mapping[str, Mapping[str, Bounds]],
) -> ScoreRow:
    found = {metric: one.interval(metric, which) for metric in metrics}
    result = one.runs[0].result if len(one.runs) == 1 else {}
    seconds = sum(run.seconds for run in one.runs) if one.runs else None
    return ScoreRow(
        name=one.name,
        scores={metric: value for metric, value in found.items() if value is not None},
        trainings=len(one.cells),
        trials=len(one.row.trials) if one.row else 0,
        failed=one.row.failed if one.row else 0,
        seconds=one.row.seconds if one.row else seconds,
        epochs=int(result.get("epochs", 0)),
        chosen_epoch=result.get("chosen_epoch"),
        run=" ".join(run.folder.name for run in one.runs) or one.source.name,
        apart=one.baseline,
        untouched=one.untouched,
        studies=one.studies,
        marks=telling_marks(one.name, part.audit, [other.name for other in part.trained]),
        classes={m: found[one.name] for m, found in bounds.items() if one.name in found},
    )


def telling_marks(row: str, audit: Audit, everyone: Iterable[str]) -> tuple[int, ...]:
    """Marks of the flaws of a row that do not concern every row."""
    every, flaws = set(everyone), audit.flaws
    return tuple(mark for mark in audit.marks(row) if not every <= set(flaws[mark - 1].rows))


def as_text(table: ScoreTable) -> Table:
    """For a terminal of 80 columns, by :mod:`rich`: the best in bold, the first metric's gain.

    The interval over classes is that of the first metric; it takes the place of the cost.
    """
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("method", overflow="fold")
    metrics = [metric_label(metric).replace("Recall@", "R@") for metric in table.metrics]
    columns = table.facts
    if table.brackets:
        metrics.insert(1, "[95 %]")
        columns = tuple(fact for fact in table.facts if fact not in ("trainings", "seconds"))
    for header in [*metrics, "gain", *columns]:
        shown.add_column(header, justify="right", no_wrap=True)
    for row in table.rows:
        cells = [
            _bold(table, row, metric, "[bold]", "[/bold]", " ± ", models=number == 0)
            for number, metric in enumerate(table.metrics)
        ]
        if table.brackets:
            cells.insert(1, escape(_bracket(row, table.metrics[0]).strip()) or NOTHING)
        gain = signed(table.gain(row, table.metrics[0]))
        if table.apart and row is table.apart[0]:
            shown.add_section()
        facts = [table.fact(row, fact) for fact in columns]
        shown.add_row(escape(row.name + _marks(row)), *cells, gain, *facts)
    notes = [table.spread] if table.spread else []
    if table.brackets:
        notes.append(f"[95 %]: {table.brackets.removeprefix('in brackets the ')}")
    if table.reference:
        notes.append(f"gain: {metric_label(table.metrics[0])} over {table.reference.name}")
    shown.caption = escape("\n".join(notes)) or None
    return shown


def as_csv(tables: Sequence[ScoreTable]) -> str:
    """For programs: a row per method with scores from 0 to 1 in all digits, cost, run, flaws."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    metrics = list(dict.fromkeys(metric for table in tables for metric in table.metrics))
    parts = ("mean", "sd", "low", "high", "models")
    ends = ("", " sd", " low", " high", " models sd", " classes low", " classes high")
    scores = [f"{metric}{end}" for metric in metrics for end in ends]
    facts = ["deviation over", "trainings", "trials", "seconds", "chosen_epoch", "epochs", "run"]
    writer.writerow(["data", "method", *scores, *facts, "ranking", "flaws"])
    for table in tables:
        for row in table.rows:
            cells: list[float | None] = []  # csv: None is empty
            for metric in metrics:
                one, bounds = row.scores.get(metric), row.classes.get(metric)
                values = one.as_mapping() if one else {}
                cells += [values.get(part) for part in parts]
                cells += [bounds.low, bounds.high] if bounds else [None, None]
            flaws = " ".join(table.flaws[mark - 1] for mark in row.marks)
            cost = [row.trainings, row.trials, row.seconds, row.chosen_epoch, row.epochs or None]
            start = [table.dataset, row.name, *cells, row.spread_over]
            writer.writerow([*start, *cost, row.run, table.ranking, flaws])
    return text.getvalue()


def as_markdown(tables: Sequence[ScoreTable]) -> str:
    """For a README or an issue: per cent with one decimal, what is shown best in bold."""
    return "\n".join(_markdown(table, heading=len(tables) > 1) for table in tables)


def _markdown(table: ScoreTable, heading: bool) -> str:
    headers = ["method", *map(metric_label, table.metrics), *table.facts]
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)]]
    for row in table.rows:
        cells = [
            _bold(table, row, metric, "**", "**", " ± ") + _bracket(row, metric)
            for metric in table.metrics
        ]
        facts = [table.fact(row, fact) for fact in table.facts]
        lines.append([row.name.replace("|", "\\|") + _marks(row), *cells, *facts])
    top = f"### {table.dataset}\n\n" if heading else ""
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    spread = [f"{table.legend[:1].upper()}{table.legend[1:]}."] if table.legend else []
    notes = "".join(f"{line}\n" for line in [*spread, *_notes(table)])
    return top + body + (f"\n{notes}" if notes else "") + _markdown_settings(table)


def _markdown_settings(table: ScoreTable) -> str:
    """The chosen hyper-parameters and the settings of numbered rows, where there are any."""
    text = ""
    for title, rows in (("chosen by tuning", table.chosen), ("settings", table.settings)):
        if rows:
            keys = setting_keys(rows)
            lines = [["method", *keys], ["---"] * (len(keys) + 1)]
            lines += [[name, *(one.get(key, "") for key in keys)] for name, one in rows.items()]
            body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
            text += f"\n{title[:1].upper()}{title[1:]}:\n\n{body}"
    return text


def setting_keys(rows: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The columns of a table of settings, in order of appearance."""
    return list(dict.fromkeys(key for one in rows.values() for key in one))


def as_html(tables: Sequence[ScoreTable]) -> str:
    """For a notebook: per cent with one decimal, the best in bold."""
    return "".join(map(_html, tables))


def _html(table: ScoreTable) -> str:
    head = "".join(f"<th>{html.escape(metric_label(metric))}</th>" for metric in table.metrics)
    lines = [f"<tr><th>method</th>{head}</tr>"]
    for row in table.rows:
        cells = [
            _bold(table, row, m, "<b>", "</b>", " ± ") + _bracket(row, m) for m in table.metrics
        ]
        name = html.escape(row.name + _marks(row))
        lines.append(f"<tr><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    notes = [table.legend] if table.legend else []
    below = "".join(f"<div>{html.escape(note)}</div>" for note in [*notes, *_notes(table)])
    caption = f"<caption>{html.escape(table.dataset)}</caption>"
    return f"<table>{caption}{''.join(lines)}</table>{below}"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$", "–": "--",
}  # fmt: skip


def as_latex(tables: Sequence[ScoreTable]) -> str:
    """For a paper: one ``table`` with booktabs rules per data set."""
    return "\n".join(map(_latex, tables))


def _latex(table: ScoreTable) -> str:
    headers = ["Method", *map(metric_label, table.metrics)]
    spread = f", {table.legend}" if table.legend else ""
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.dataset)}: per cent{escape_latex(spread)}.}}",
        rf"  \begin{{tabular}}{{l{'r' * len(table.metrics)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escape_latex, headers))} " + r"\\",
        r"    \midrule",
    ]
    for row in table.rows:
        if table.apart and table.trained and row is table.apart[0]:
            lines.append(r"    \midrule")
        cells = [
            _bold(table, row, m, r"\textbf{", "}", r" $\pm$ ") + _bracket(row, m)
            for m in table.metrics
        ]
        marks = "".join(rf"\textsuperscript{{{mark}}}" for mark in row.marks)
        shown = " & ".join(cells).replace(NOTHING, "--")
        lines.append(f"    {escape_latex(row.name)}{marks} & {shown} " + r"\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\footnotesize {escape_latex(note)}" for note in _notes(table)]
    return "\n".join([*lines, r"\end{table}", *_latex_settings(table), ""])


def _latex_settings(table: ScoreTable) -> list[str]:
    """A table of the chosen hyper-parameters, one row per method and key; keys differ much."""
    if not table.chosen:
        return []
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.dataset)}: hyper-parameters chosen by tuning.}}",
        r"  \begin{tabular}{llr}",
        r"    \toprule",
        r"    Method & Hyper-parameter & Value \\",
        r"    \midrule",
    ]
    for name, values in table.chosen.items():
        shown = [name, *[""] * (len(values) - 1)]
        for first, (key, value) in zip(shown, values.items(), strict=True):
            cells = " & ".join(map(escape_latex, (first, key, value)))
            lines.append(rf"    {cells} \\")
    return [*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]


def _notes(table: ScoreTable) -> list[str]:
    notes = [f"[{number}] {sentence}" for number, sentence in enumerate(table.flaws, 1)]
    if table.ranking != "fair":
        start = "Ranked although" if table.ranking == "anyway" else "Not ranked:"
        notes.append(f"{start} the comparison is not fair.")
    return notes


def _bold(
    table: ScoreTable,
    row: ScoreRow,
    metric: str,
    start: str,
    end: str,
    between: str,
    *,
    models: bool = True,
) -> str:
    score = row.scores.get(metric)
    shown = percent(None if score is None else score.mean)
    half = plus_minus(score)
    if table.is_best(row, metric):
        shown = f"{start}{shown}{end}"
    if not half:
        return shown
    return f"{shown}{between}{half}{models_spread(score) if models else ''}"


def _bracket(row: ScoreRow, metric: str) -> str:
    """The interval over trainings x test classes, where it is known."""
    bounds = row.classes.get(metric)
    return "" if bounds is None else f" [{percent(bounds.low)}, {percent(bounds.high)}]"


def _marks(row: ScoreRow) -> str:
    return f" [{','.join(map(str, row.marks))}]" if row.marks else ""


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in text)
