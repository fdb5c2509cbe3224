"""Scores of a comparison, and the settings behind them, as tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lookalike.compare.audit import Audit, listed
from lookalike.compare.comparison import OnDataset
from lookalike.compare.contenders import MethodResult, class_bounds
from lookalike.compare.uncertainty import Bounds
from lookalike.report.formatting import (
    NOTHING,
    metric_label,
    models_spread,
    percent,
    plus_minus,
    signed,
    work,
)
from lookalike.report.tables import Cell, Column, Row, Table
from lookalike.study.intervals import Interval
from lookalike.study.results import Which

BASELINE = "baseline"
"""The kind of rows that were not trained."""
FACTS = {
    "trials": "trials",
    "trainings": "trainings",
    "seconds": "seconds",
    "chosen_epoch": "epoch",
}
INTERVAL = ("mean", "sd", "low", "high", "models")
ENDINGS = ("", " sd", " low", " high", " models sd")


def score_table(part: OnDataset, metrics: Sequence[str], which: Which = "separate") -> Table:
    """The scores of a comparison on one data set, the best first where that is fair.

    Args:
        part: The comparison.
        metrics: The columns.
        which: Scores of single models, or of the concatenated embeddings of all folds.

    Returns:
        The table, scores in per cent; baselines are its last rows.
    """
    bounds = {metric: class_bounds(part.contenders, metric, which) for metric in metrics}
    rows = [*part.trained, *part.baselines]
    scores = {one.name: {m: one.interval(m, which) for m in metrics} for one in rows}
    several = any(len(one.models) > 1 for one in part.trained)
    told = {
        "trials": any(one.row and one.row.trials for one in part.trained),
        "trainings": several,
        "seconds": True,
        "chosen_epoch": not several and any(map(_epochs, part.trained)),
    }
    hidden = ("data", "deviation over", "epochs", "run", "ranking", "flaws")
    columns = [Column("method"), *(Column("", metric_label(m), m) for m in metrics)]
    columns += [Column(FACTS[key], key=key, shown=shown) for key, shown in told.items()]
    columns += [Column(name, shown=False) for name in hidden]
    best, base = shown_best(part), reference(part)
    everyone = [one.name for one in part.trained]
    found = []
    for one in rows:
        cells = [Cell(one.name)]
        for metric in metrics:
            score, zero = scores[one.name][metric], base and scores[base][metric]
            gain = score.mean - zero.mean if score and zero and not one.baseline else None
            limits = bounds[metric].get(one.name)
            cells.append(_score(score, limits, gain, best == (one.name, metric)))
        marks = telling_marks(one.name, part.audit, everyone)
        flaws = " ".join(part.audit.flaws[mark - 1].sentence for mark in marks)
        over = next((s.over for s in scores[one.name].values() if s and s.half is not None), None)
        run = " ".join(run.folder.name for run in one.runs) or one.source.name
        values = (part.label, over, _epochs(one) or None, run, part.ranking, flaws)
        cells += _facts(one).values()
        cells += [Cell(values={"": value}) for value in values]
        found.append(Row(tuple(cells), marks, BASELINE if one.baseline else ""))
    notes = [legend(part, scores, any(bounds.values()))]
    if part.ranking != "fair":
        start = "Ranked although" if part.ranking == "anyway" else "Not ranked:"
        notes.append(f"{start} the comparison is not fair.")
    flaws_told = tuple(flaw.sentence for flaw in part.audit.flaws)
    return Table(
        part.label, tuple(columns), tuple(found), tuple(notes), flaws_told, _about(part), "scores"
    )


def main_table(part: OnDataset, metric: str, which: Which = "separate") -> Table:
    """The metric that ranks, Recall@1 and MAP@R as columns, where all rows have them."""
    names = dict.fromkeys([metric, "recall@1", "map@r"])
    known = [name for name in names if all(name in one.metrics for one in part.contenders)]
    return score_table(part, known, which)


def compact(table: Table) -> Table:
    """A table of scores for a terminal: one interval over classes and one gain, in columns."""
    metrics = [at for at, one in enumerate(table.columns) if at and "@" in one.key] or [1]
    first = metrics[0]
    ranged = any(row.cells[first].bounds for row in table.rows)
    dropped = ("trainings", "seconds") if ranged else ()
    facts = [at for at, c in enumerate(table.columns) if c.key in FACTS and c.key not in dropped]
    label = [replace(c, name=c.title.replace("Recall@", "R@"), group="") for c in table.columns]
    columns = [label[0], label[first], *([Column("[95 %]")] if ranged else [])]
    columns += [*(label[at] for at in metrics[1:]), Column("gain"), *(label[at] for at in facts)]
    rows = []
    for row in table.rows:
        score = row.cells[first]
        cells = [row.cells[0], replace(score, bounds="")]
        cells += [Cell(f"[{score.bounds}]" if score.bounds else NOTHING)] if ranged else []
        for at in metrics[1:]:
            short = row.cells[at].spread.partition(" (")[0]
            cells.append(replace(row.cells[at], bounds="", spread=short))
        cells += [Cell(score.gain or NOTHING), *(row.cells[at] for at in facts)]
        rows.append(replace(row, cells=tuple(cells)))
    notes = [re.sub("(; i|I)n brackets the ", "\n[95 %]: ", note) for note in table.notes[:1]]
    if any(row.cells[first].gain for row in table.rows):
        notes.append(f"gain: {label[first].name} over the untrained network")
    return replace(
        table,
        title="",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(filter(None, map(str.strip, notes))),
    )


def settings_tables(part: OnDataset) -> list[Table]:
    """The hyper-parameters that tuning chose, and in which settings rows of one name differ."""
    chosen = {one.name: one.row.tuned for one in part.contenders if one.row and one.row.tuned}
    settings = {one.name: one.settings for one in part.contenders if one.settings}
    tables = []
    for title, by_name in (
        ("Hyper-parameters chosen by tuning", chosen),
        ("Settings in which rows of one name differ", settings),
    ):
        rows = [
            ("" if number else name, key, _short(value))
            for name, values in by_name.items()
            for number, (key, value) in enumerate(values.items())
        ]
        if rows:
            names = ("method", "hyper-parameter", "value")
            tables.append(Table.of_texts(f"{part.label}: {title}", names, rows, kind="settings"))
    return tables


def _score(score: Interval | None, limits: Bounds | None, gain: float | None, best: bool) -> Cell:
    """A score in per cent; for programs as a fraction, with both intervals."""
    spread = plus_minus(score)
    values = dict.fromkeys(ENDINGS)
    if score is not None:
        own = score.as_mapping()
        values = {end: own.get(name) for end, name in zip(ENDINGS, INTERVAL, strict=True)}
    values |= {" classes low": limits.low if limits else None}
    values |= {" classes high": limits.high if limits else None}
    return Cell(
        percent(score.mean if score else None),
        spread and f"{spread}{models_spread(score)}",
        f"{percent(limits.low)}, {percent(limits.high)}" if limits else "",
        "" if gain is None else signed(gain),
        values,
        best,
    )


def legend(
    part: OnDataset, scores: Mapping[str, Mapping[str, Interval | None]], ranged: bool
) -> str:
    """What ± and brackets mean, in one sentence; empty where there are none."""
    over = {
        one.name: next((s.over for s in scores[one.name].values() if s and s.half is not None), "")
        for one in part.trained
    }
    of_folds = [name for name, unit in over.items() if unit == "folds"]
    of_repeats = [one for one in part.trained if over[one.name] == "repeats"]
    folds = "the standard deviation over the models of the folds, not a confidence interval"
    told = []
    if of_repeats:
        told.append(
            f"± half the 95 % t-interval of the mean of {_times(of_repeats, scores)}, on these "
            "test classes; (sd) the standard deviation of single models"
        )
    if of_folds:
        told.append(f"of {listed(of_folds)} ± is {folds}" if of_repeats else f"± {folds}")
    if ranged:
        unit = "whole studies" if part.studies > 1 else "trainings"
        where = f"{unit} x test classes" if of_repeats else "test classes"
        told.append(f"in brackets the 95 % interval over {where}, searched in this gallery")
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _times(
    rows: Sequence[MethodResult], scores: Mapping[str, Mapping[str, Interval | None]]
) -> str:
    """What a mean is of: "10 repeats of 4 folds"."""
    counts = {s.count for one in rows for s in scores[one.name].values() if s}
    unit = "whole studies" if any(one.studies > 1 for one in rows) else "repeats"
    if len(counts) != 1:
        return f"all {unit}"
    (count,) = counts
    models = {len(one.models) // count for one in rows}
    if len(models) == 1 and models != {1}:
        what = "models" if unit == "whole studies" else "folds"
        return f"{count} {unit} of {models.pop()} {what}"
    return f"{count} {unit}"


def reference(part: OnDataset) -> str:
    """The name of the network before any training, to which gains refer; empty: there is none."""
    return next((one.name for one in part.baselines if one.untouched), "")


def unbeaten(part: OnDataset, metric: str) -> list[str]:
    """The baselines that score higher than every trained row."""
    scores = {one.name: one.interval(metric) for one in part.contenders}
    means = {name: score.mean for name, score in scores.items() if score}
    trained = [means[one.name] for one in part.trained if one.name in means]
    known = [one.name for one in part.baselines if one.name in means]
    return [name for name in known if trained and means[name] > max(trained)]


def shown_best(part: OnDataset) -> tuple[str, str] | None:
    """The method whose differences to all others hold, and the metric of the comparison."""
    names = [one.name for one in part.contenders]
    best = part.trained[0].name if part.trained else ""
    beaten = {one.worse for one in part.differences if one.holds and one.better == best}
    sure = part.ranking != "refused" and len(names) > 1 and beaten == {*names} - {best}
    return (best, part.metric) if sure else None


def telling_marks(row: str, audit: Audit, everyone: Iterable[str]) -> tuple[int, ...]:
    """Marks of the flaws of a row that do not concern every row."""
    every, flaws = set(everyone), audit.flaws
    return tuple(mark for mark in audit.marks(row) if not every <= set(flaws[mark - 1].rows))


def _about(part: OnDataset) -> str:
    """How much work is behind the scores."""
    trainings = sum(len(one.models) for one in part.trained)
    trials = sum(len(one.row.trials) for one in part.contenders if one.row)
    counted = work(trainings, trials, part.classes)
    return "; ".join(filter(None, ("test scores in per cent", counted)))


def _facts(one: MethodResult) -> dict[str, Cell]:
    """What a row cost; of baselines nothing is shown."""
    row, runs = one.row, one.runs
    trials, failed = (len(row.trials), row.failed) if row else (0, 0)
    seconds = row.seconds if row else sum(run.seconds for run in runs) if runs else None
    epochs = _epochs(one)
    chosen = runs[0].result.get("chosen_epoch") if len(runs) == 1 else None
    tested = epochs if chosen is None else chosen
    texts = {
        "trials": (f"{trials} ({failed} failed)" if failed else str(trials), trials),
        "trainings": (str(len(one.models)), len(one.models)),
        "seconds": (
            NOTHING if seconds is None else f"{seconds:,.{1 if seconds < 1000 else 0}f}",
            seconds,
        ),
        "chosen_epoch": (f"{tested} of {epochs}" if epochs else NOTHING, chosen),
    }
    return {
        name: Cell(NOTHING if one.baseline else text, values={"": value})
        for name, (text, value) in texts.items()
    }


def _epochs(one: MethodResult) -> int:
    return int(one.runs[0].result.get("epochs", 0)) if len(one.runs) == 1 else 0


def _short(value: Any) -> str:
    """A value of a hyper-parameter with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
