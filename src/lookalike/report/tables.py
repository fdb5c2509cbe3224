"""The table of scores: one value, shown as text in the terminal, as CSV and as Markdown."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lookalike.errors import BadInput
from lookalike.evaluation.metrics import STRUCTURE
from lookalike.report.run_data import ReportRun

__all__ = [
    "ScoreRow",
    "ScoreTable",
    "as_csv",
    "as_markdown",
    "as_text",
    "metric_label",
    "percent",
    "print_scores",
    "score_table",
    "signed",
]

_INITIALS = {"map", "mrr", "ndcg", "nmi", "ami"}
NOTHING = "–"


@dataclass(frozen=True)
class ScoreRow:
    """One method: its scores between 0 and 1, what it cost, and which epoch was tested."""

    name: str
    scores: Mapping[str, float]
    seconds: float
    epochs: int
    chosen_epoch: int | None
    run: str
    untrained: bool

    @property
    def epoch(self) -> str:
        """Which epoch was tested, of how many."""
        if self.untrained:
            return NOTHING
        return f"{self.chosen_epoch or self.epochs} of {self.epochs}"

    @property
    def time(self) -> str:
        """Seconds of training."""
        return NOTHING if self.untrained else f"{self.seconds:.1f}"


@dataclass(frozen=True)
class ScoreTable:
    """Trained methods in the order given; the untrained network stands apart."""

    metrics: tuple[str, ...]
    trained: tuple[ScoreRow, ...]
    untrained: ScoreRow | None

    @property
    def rows(self) -> tuple[ScoreRow, ...]:
        """All rows, the untrained network last."""
        return (*self.trained, self.untrained) if self.untrained else self.trained

    def is_best(self, row: ScoreRow, metric: str) -> bool:
        """Whether no trained method shows a higher score; equal to the shown digit is a tie."""
        if row.untrained or metric not in row.scores:
            return False
        shown = [round(100 * other.scores.get(metric, 0), 1) for other in self.trained]
        return round(100 * row.scores[metric], 1) == max(shown)

    def gain(self, row: ScoreRow, metric: str) -> float | None:
        """The difference to the untrained network, where there is one."""
        if row.untrained or self.untrained is None:
            return None
        if metric not in row.scores or metric not in self.untrained.scores:
            return None
        return row.scores[metric] - self.untrained.scores[metric]


def score_table(runs: Sequence[ReportRun]) -> ScoreTable:
    """The table of ``runs``; the columns are the metrics of the first that are shares of 1.

    Measures of structure are left out: they are no shares, and of some the lower is the better.
    """
    if not runs:
        raise BadInput("a report needs at least one run")
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"two runs of the report are called '{twice[0]}'; names must differ")
    bare = [run.name for run in runs if run.untrained]
    if len(bare) > 1:
        raise BadInput(f"a report has one untrained network, not {len(bare)}: {', '.join(bare)}")
    metrics = tuple(metric for metric in runs[0].result["test"] if metric not in STRUCTURE)
    if not metrics:
        raise BadInput(f"the run '{runs[0].name}' has no ranking metric; see protocol.metrics")
    rows = [_row(run) for run in runs]
    return ScoreTable(
        metrics=metrics,
        trained=tuple(row for row in rows if not row.untrained),
        untrained=next((row for row in rows if row.untrained), None),
    )


def _row(run: ReportRun) -> ScoreRow:
    return ScoreRow(
        name=run.name,
        scores=run.result["test"],
        seconds=run.run.seconds,
        epochs=int(run.result["epochs"]),
        chosen_epoch=run.result.get("chosen_epoch"),
        run=run.run.folder.name,
        untrained=run.untrained,
    )


def metric_label(metric: str) -> str:
    """The name of a metric as papers print it.

    >>> metric_label("recall@1"), metric_label("map@r"), metric_label("r-precision")
    ('Recall@1', 'MAP@R', 'R-precision')
    """
    name, at, cut = metric.partition("@")
    shown = name.upper() if name in _INITIALS else name[:1].upper() + name[1:]
    return shown + at + cut.upper()


def percent(score: float | None) -> str:
    """A score between 0 and 1 in per cent with one decimal.

    >>> percent(0.8349)
    '83.5'
    """
    return NOTHING if score is None else f"{100 * score:.1f}"


def signed(difference: float | None) -> str:
    """A difference of scores in points, always with its sign.

    >>> signed(0.4), signed(-0.001), signed(0.0)
    ('+40.0', '−0.1', '±0.0')
    """
    if difference is None:
        return NOTHING
    points = round(100 * difference, 1)
    sign = "+" if points > 0 else "−" if points < 0 else "±"
    return f"{sign}{abs(points):.1f}"


def as_text(table: ScoreTable) -> Table:
    """For a terminal, within 80 columns: the best in bold, the gain of the first metric."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("method", overflow="fold")
    metrics = [metric_label(metric).replace("Recall@", "R@") for metric in table.metrics]
    for header in [*metrics, "gain", "seconds", "epoch"]:
        shown.add_column(header, justify="right", no_wrap=True)
    for row in table.rows:
        cells = [
            f"[bold]{percent(row.scores.get(m))}[/bold]"
            if table.is_best(row, m)
            else percent(row.scores.get(m))
            for m in table.metrics
        ]
        gain = signed(table.gain(row, table.metrics[0]))
        if row is table.untrained:
            shown.add_section()
        shown.add_row(escape(row.name), *cells, gain, row.time, row.epoch)
    if table.untrained:
        shown.caption = f"gain: {metric_label(table.metrics[0])} over {table.untrained.name}"
    return shown


def print_scores(runs: Sequence[ReportRun]) -> None:
    """Print the table of ``runs`` to standard output."""
    Console().print(as_text(score_table(runs)))


def as_csv(table: ScoreTable) -> str:
    """For programs: full digits between 0 and 1, one row a method, with its run folder."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", *table.metrics, "seconds", "chosen_epoch", "epochs", "run"])
    for row in table.rows:
        scores = [row.scores.get(metric, "") for metric in table.metrics]
        chosen = "" if row.chosen_epoch is None else row.chosen_epoch
        writer.writerow([row.name, *scores, row.seconds, chosen, row.epochs, row.run])
    return text.getvalue()


def as_markdown(table: ScoreTable) -> str:
    """For a README or an issue: per cent with one decimal, the best in bold."""
    headers = ["method", *map(metric_label, table.metrics), "seconds", "epoch"]
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)]]
    for row in table.rows:
        cells = [
            f"**{percent(row.scores.get(m))}**"
            if table.is_best(row, m)
            else percent(row.scores.get(m))
            for m in table.metrics
        ]
        lines.append([row.name.replace("|", "\\|"), *cells, row.time, row.epoch])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
