"""What a reproduction would train, counted before anything runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lookalike import published
from lookalike.papers.catalogue import Entry
from lookalike.papers.deviations import deviations, open_questions
from lookalike.papers.scale import Scale
from lookalike.papers.selection import Row, heading, rows, trainings_of
from lookalike.report.tables import aligned
from lookalike.study.tuning import TunerConfig, trials_asked


@dataclass(frozen=True)
class Plan:
    """The trainings of one table or figure."""

    entry: Entry
    scale: Scale
    rows: tuple[Row, ...]
    tuner: TunerConfig
    repeats: int
    deviations: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of the results below ``results/``."""
        return f"reproduce/{self.entry.study}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What folders and files are named by at small scale: the scale, and other images."""
        if self.scale == "paper":
            return ""
        images = {row.config.data.name for row in self.rows} - {"glyphs"}
        return "-".join(["-small", *sorted(images)])

    @property
    def trainings(self) -> int:
        """How many models are trained: trials and repeats of every row, on every fold."""
        return sum(map(self.trainings_of, self.rows))

    def trainings_of(self, row: Row) -> int:
        """How many models one row trains."""
        return trainings_of(row.config, row.search, self.tuner, self.repeats)

    def as_mapping(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "name": self.entry.name,
            "title": heading(self.entry, self.rows),
            "paper": published.papers()[self.entry.paper].title,
            "source": self.entry.source,
            "scale": self.scale,
            "results": f"results/{self.folder}",
            "trainings": self.trainings,
            "repeats": self.repeats,
            "deviations": list(self.deviations),
            "rows": [
                {
                    "method": row.method,
                    "axes": row.axes,
                    "recipe": row.recipe,
                    "folds": row.folds,
                    "trials": trials_asked(self.tuner, row.search),
                    "trainings": self.trainings_of(row),
                    "published": {m: number.value for m, number in row.published.items()},
                }
                for row in self.rows
            ],
        }

    def as_text(self) -> str:
        """The plan for a terminal: each row with its trainings and what the document prints."""
        paper = published.papers()[self.entry.paper]
        scale = ", small scale" if self.scale == "small" else ""
        axes = dict.fromkeys(axis for row in self.rows for axis in row.axes)
        table = [["method", *axes, "trainings", "published", "recipe"]]
        for row in self.rows:
            values = [row.axes.get(axis, "") for axis in axes]
            count = f"{self.trainings_of(row):,}"
            table.append([row.method, *values, count, _numbers(row), row.recipe])
        lines = [
            f"{self.entry.name}{scale}: {heading(self.entry, self.rows)}",
            f"{paper.authors}: {paper.title}, {paper.venue} {paper.year}; {self.entry.source}",
            *("", *aligned(table), "", f"{self.trainings:,} trainings: {self._counted()}."),
        ]
        lines[-1] += f" Results: results/{self.folder}"
        lines.append("The time left is estimated after the first training.")
        for title, sentences in (
            ("What differs from the paper:", self.deviations),
            ("What the document leaves open:", open_questions(self.entry, self.rows)),
        ):
            if sentences:
                lines += ["", title, *(f"- {sentence}" for sentence in sentences)]
        return "\n".join(lines)

    def _counted(self) -> str:
        trials = sum(trials_asked(self.tuner, row.search) for row in self.rows)
        folds = max(row.folds for row in self.rows)
        times = "once" if self.repeats == 1 else f"{self.repeats} times"
        rows = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows, each"
        searched = [f"{trials:,} trials"] if trials else []
        return ", ".join([f"{rows} {times}", *searched, *([f"{folds} folds"] if folds > 1 else [])])


def _numbers(row: Row) -> str:
    """The first published number of a row."""
    for metric, number in row.published.items():
        if number.value is not None:
            spread = f" ± {number.spread:g}" if number.spread is not None else ""
            return f"{metric} {number.value:g}{spread}"
    return ""


def make_plan(
    entry: Entry,
    scale: Scale = "paper",
    overrides: Iterable[str] = (),
    repeats: int | None = None,
    trials: int | None = None,
) -> Plan:
    """What an entry would train.

    Args:
        entry: The table or figure.
        scale: ``paper`` or ``small``.
        overrides: ``key=value`` settings of every run.
        repeats: Trainings of each row with new seeds; None: the entry's.
        trials: Trials of a search; None: the entry's.

    Returns:
        The rows, and how many trainings they are.

    Raises:
        BadInput: A setting is invalid.
    """
    found = rows(entry, scale, overrides)
    tuner = TunerConfig(
        name=entry.tuner.name,
        trials=trials or (entry.tuner.small_trials if scale == "small" else entry.tuner.trials),
        prune=False,
    )
    return Plan(
        entry,
        scale,
        tuple(found),
        tuner,
        repeats or entry.repeats,
        tuple(deviations(entry, scale, found, repeats or entry.repeats, tuner)),
    )
