"""What the tasks of a study found, and the rows of results that follow from it.

A task is one fold of one trial, or one repeat of the trial that won: trained on every fold and
tested. A row is a function of its records, so nothing else is stored.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator

from lookalike.config.loading import set_keys
from lookalike.errors import BadInput
from lookalike.runs.scores import Scores
from lookalike.study.results import (
    BaselineRow,
    MethodRow,
    PlannedRow,
    Reading,
    Repeat,
    Trial,
    best_trial,
    finite,
)

if TYPE_CHECKING:
    from lookalike.evaluation.class_table import ClassTable

    Tables: TypeAlias = Mapping[int, ClassTable]
else:
    Tables = Any  # importing it loads torch

JOINED = -1
"""In place of a fold: the embeddings of all folds, concatenated."""
VALIDATION, LAST = "validation ", "last validation "
"""Before the name of a metric: on validation classes, of the best and of the last epoch."""


class TaskKey(NamedTuple):
    """Which task of a row it is."""

    trial: int
    """The setting: the number of the trial, also of a repeat."""
    fold: int = -1
    """Of a trial; -1: a repeat, which has all of them."""
    repeat: int = -1
    """-1: a trial."""


@dataclass(frozen=True)
class Record:
    """What a finished task found."""

    scores: dict[int, Scores] = field(default_factory=dict)
    """By fold, or :data:`JOINED`."""
    seconds: float = 0.0
    preparing_seconds: float = 0.0
    """Of what several tasks share: images, networks, features."""
    error: str = ""
    """Why it failed."""
    parameters: Annotated[dict[str, Any], AfterValidator(finite)] = field(default_factory=dict)
    pruned: bool = False
    """Whether the trial ends with this fold."""
    seed: int = 0
    asked: int = 0
    """Of how many trials the setting of a repeat was the best."""
    runs: tuple[str, ...] = ()
    """The names of the run folders, where they are kept."""
    classes: Tables = field(default_factory=dict)
    """By fold, or :data:`JOINED`: the test scores of each class."""
    unwritten: str = ""
    """Which file could not be written, which says nothing about the task."""


Records = Mapping[TaskKey, Record]


def trial_of(planned: PlannedRow, records: Records, number: int) -> Trial | None:
    """One trial, once it is finished: by all folds, by an error, or because it was pruned."""
    found = [records.get(TaskKey(number, fold)) for fold in range(planned.folds)]
    seconds = sum(record.seconds for record in found if record is not None)
    scores: list[float] = []
    last: list[float] = []
    parameters: dict[str, Any] = {}
    for fold, record in enumerate(found):
        if record is None:
            return None
        parameters = record.parameters
        if record.error:
            folds = tuple(scores)
            return Trial(number, parameters, "failed", None, folds, seconds, record.error)
        scores.append(record.scores[fold][VALIDATION + planned.metric])
        if (final := LAST + planned.metric) in record.scores[fold]:
            last.append(record.scores[fold][final])
        if record.pruned:
            return Trial(number, parameters, "pruned", None, tuple(scores), seconds)
    mean, finals = sum(scores) / len(scores), tuple(last) if len(last) == len(scores) else ()
    return Trial(number, parameters, "complete", mean, tuple(scores), seconds, last=finals)


def finished_trials(planned: PlannedRow, records: Records) -> tuple[Trial, ...]:
    """The finished trials by number, without a gap."""
    trials: list[Trial] = []
    while len(trials) < planned.trials:
        trial = trial_of(planned, records, len(trials))
        if trial is None:
            break
        trials.append(trial)
    return tuple(trials)


def repeat_of(planned: PlannedRow, number: int, record: Record) -> Repeat:
    """One repeat that was tested."""
    chosen = VALIDATION + planned.metric
    folds = [record.scores[fold] for fold in sorted(record.scores) if fold != JOINED]
    separate = tuple({m: score for m, score in one.items() if m != chosen} for one in folds)
    return Repeat(
        number=number,
        seed=record.seed,
        validation=tuple(one[chosen] for one in folds if chosen in one),
        separate=separate,
        concatenated=record.scores.get(JOINED, separate[0]),
        seconds=record.seconds,
        runs=record.runs,
    )


def row_of(planned: PlannedRow, records: Records, metric: str) -> MethodRow:
    """The results of a row so far; ``metric`` is the study's."""
    trials = finished_trials(planned, records)
    best = best_trial(trials, planned.trials) if len(trials) == planned.trials else None
    tested: dict[int, list[Repeat]] = {}
    asked: dict[int, int] = {}
    errors = []
    for key, record in sorted(records.items(), key=lambda item: item[0].repeat):
        if key.repeat < 0 or key.repeat >= planned.repeats:
            continue
        if not record.error:
            asked[key.trial] = max(asked.get(key.trial, 0), record.asked)
            tested.setdefault(key.trial, []).append(repeat_of(planned, key.repeat, record))
        elif best is not None and key.trial == best.number:
            errors.append(record.error)
    repeats = tested.get(best.number, []) if best is not None else []
    for repeat in repeats:
        if any(metric not in scores for scores in (*repeat.separate, repeat.concatenated)):
            raise BadInput(f"repeat {repeat.number} of '{planned.label}' has no score {metric!r}")
    readings = {
        number: Reading(
            number,
            asked[number],
            len(found),
            statistics.fmean(repeat.score(metric, "separate") for repeat in found),
            "" if best is None or number == best.number else "replaced after more trials",
        )
        for number, found in tested.items()
    }
    now = [readings.pop(best.number)] if best is not None and repeats else []
    tuned = best.parameters if best is not None else {}
    validation = best.value if best is not None else None
    if best is not None and not planned.trials and any(r.validation for r in repeats):
        validation = statistics.fmean(statistics.fmean(r.validation) for r in repeats)
    return MethodRow(
        dataset=planned.dataset,
        method=planned.method,
        config=set_keys(planned.config, tuned),
        tuned=tuned,
        validation=validation,
        trials=trials,
        repeats=tuple(repeats),
        trials_asked=planned.trials,
        repeats_asked=planned.repeats,
        errors=tuple(errors),
        metric=planned.metric,
        identity=planned.identity,
        outdated=planned.outdated,
        axes=dict(planned.axes),
        group=planned.group,
        readings=(*planned.former, *readings.values(), *now),
    )


def baseline_of(planned: PlannedRow, row: MethodRow) -> BaselineRow | None:
    """The results of a baseline, once it is tested."""
    if not row.repeats:
        return None
    (repeat, *_) = row.repeats
    return BaselineRow(
        dataset=planned.dataset,
        baseline=planned.method,
        dim=planned.dim,
        parameters={key.rpartition("_")[2]: float(value) for key, value in row.tuned.items()},
        validation=repeat.validation,
        separate=repeat.separate,
        concatenated=repeat.concatenated,
        seconds=row.seconds,
        group=planned.group,
        config=row.config,
    )
