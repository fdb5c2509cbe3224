"""The state of a method and its next tasks, as a function of the records so far."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lookalike.study.classes import WHOLE, RowClasses
from lookalike.study.config import StudyConfig
from lookalike.study.methods import Method, hash_of
from lookalike.study.results import MethodRow, PlannedRow, Reading, Repeat, Trial
from lookalike.study.runner import Kind, Task
from lookalike.study.tuning import best_trial, should_prune, suggest, trials_asked, visible_trials

Records = Mapping[str, Mapping[str, Any]]

MOST_AT_ONCE = 256
"""Trials of one method that are given out at the same time."""


@dataclass
class MethodProgress:
    """One method on one data set: trials, repeats and next tasks, given the records."""

    study: StudyConfig
    method: Method
    trials: list[Trial] = field(default_factory=list)
    """Finished ones, by number, without a gap."""
    repeats: list[Repeat] = field(default_factory=list)
    classes: dict[int, RowClasses] = field(default_factory=dict)
    """By repeat: its scores per test class."""
    errors: list[str] = field(default_factory=list)
    ready: list[Task] = field(default_factory=list)
    begun: bool = False
    """Whether one of its tasks is finished."""
    runs_done: int = 0
    asked: dict[int, dict[str, Any]] = field(default_factory=dict)
    former: tuple[Reading, ...] = ()
    """Winners whose test scores were read before, as the row's file has them."""
    stored: dict[str, tuple[Repeat, RowClasses]] = field(default_factory=dict)
    """By the key of a task: a repeat that the row's file has, and its scores per test class."""

    def __post_init__(self) -> None:
        self.trials_asked = trials_asked(self.study.tuner, self.method.search)
        self.folds = self.method.folds

    @property
    def planned(self) -> PlannedRow:
        """What the study asks for."""
        method, repeats = self.method, self.study.repeats
        return PlannedRow(
            method.dataset, method.name, dict(method.axes), self.trials_asked, repeats, self.folds
        )

    @property
    def prefix(self) -> str:
        """The prefix of the keys of all its tasks."""
        return f"{self.method.identity}/"

    @property
    def size(self) -> int:
        """The number of finished trials, repeats and failed repeats."""
        return len(self.trials) + len(self.repeats) + len(self.errors)

    @property
    def tuned(self) -> bool:
        """Whether every trial is finished."""
        return len(self.trials) == self.trials_asked

    @property
    def best(self) -> Trial | None:
        """The trial that is trained again and tested, once all trials are finished."""
        return best_trial(self.trials, self.trials_asked) if self.tuned else None

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        if not self.tuned:
            return False
        return self.best is None or len(self.repeats) + len(self.errors) == self.study.repeats

    @property
    def runs_left(self) -> int:
        """How many trainings are left, at most."""
        if self.ended:
            return 0
        return (self.trials_asked + self.study.repeats - self.size) * self.folds

    def resume(self, row: MethodRow, classes: RowClasses | None) -> None:
        """Continue after what the file of the row has.

        A repeat that was not tested by every metric is trained again.
        """
        self.former = readings_of(row)
        self.trials = list(row.trials[: self.trials_asked])
        best = best_trial(row.trials, row.trials_asked)
        if best is not None and len(row.trials) == row.trials_asked:
            metrics = set(self.method.config.protocol.metrics)
            self.stored = {
                repeat_key(self.method, best.number, repeat.number): (
                    repeat,
                    (classes or RowClasses()).of_repeat(repeat.number),
                )
                for repeat in row.repeats
                if all(metrics <= set(scores) for scores in repeat.separate)
            }
        self.update({})

    def update(self, records: Records) -> None:
        """Derive everything from all records, and from what the row's file has."""
        self.ready = []
        self._update_trials(records)
        if self.tuned:
            self._update_repeats(records)
        runs = sum(max(1, len(trial.folds)) for trial in self.trials)
        self.runs_done = runs + len(self.repeats) * self.folds

    def row(self) -> MethodRow:
        """The results so far."""
        best = self.best
        validation = best.value if best else None
        if best and not self.trials_asked and any(r.validation for r in self.repeats):
            validation = statistics.fmean(statistics.fmean(r.validation) for r in self.repeats)
        tuned = best.parameters if best else {}
        config = self.method.with_parameters(tuned)
        return MethodRow(
            dataset=self.method.dataset,
            method=self.method.name,
            config=config.model_dump(mode="json", exclude={"runs_dir": True, "data": {"root"}}),
            tuned=tuned,
            validation=validation,
            trials=tuple(self.trials),
            repeats=tuple(self.repeats),
            trials_asked=self.trials_asked,
            repeats_asked=self.study.repeats,
            errors=tuple(self.errors),
            metric=config.train.metric,
            identity=self.method.identity,
            axes=dict(self.method.axes),
            group="" if self.method.group == self.method.dataset else self.method.group,
            readings=self.readings,
        )

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Every winner that was tested, the present one last.

        One that another replaces (more trials) stays in the list, with the reason.
        """
        best = self.best
        if best is None or not self.repeats:
            return self.former
        scores = [repeat.score(self.study.metric, "separate") for repeat in self.repeats]
        mean = statistics.fmean(scores)
        now = Reading(best.number, self.trials_asked, len(scores), mean)
        if self.former and not self.former[-1].reason and self.former[-1].trial == now.trial:
            return (*self.former[:-1], now)  # the same winner, repeated more often
        replaced = (
            replace(one, reason=one.reason or "replaced after more trials") for one in self.former
        )
        return (*replaced, now)

    def row_classes(self) -> RowClasses:
        """The scores per test class so far."""
        return RowClasses.joined(self.classes)

    def _update_trials(self, records: Records) -> None:
        """Continue after the finished trials; what follows them may be finished, too."""
        finished = dict(enumerate(self.trials))
        unfinished = 0
        for number in range(len(self.trials), self.trials_asked):
            seen = visible_trials(number, self.study.tuner)
            if seen > len(self.trials) or unfinished == MOST_AT_ONCE:
                break
            history = self.trials[:seen]
            if number not in self.asked:
                seed = int(self.method.identity[:7], 16) ^ self.study.seed  # one for each method
                tuner, search = self.study.tuner, self.method.search
                self.asked[number] = suggest(tuner, search, seed, number, history)
            trial = self._trial(number, history, records)
            if trial is None:
                unfinished += 1
                continue
            finished[number] = trial
            while len(self.trials) in finished:
                self.trials.append(finished[len(self.trials)])

    def _trial(self, number: int, history: list[Trial], records: Records) -> Trial | None:
        """The trial if it is finished; otherwise its missing folds become ready."""
        parameters, prune = self.asked[number], self.study.tuner.prune
        found = [records.get(fold_key(self.method, number, fold)) for fold in range(self.folds)]
        scores: list[float] = []
        seconds = sum(record["seconds"] for record in found if record is not None)
        for fold, record in enumerate(found):
            if record is None:
                last = fold + 1 if prune else self.folds
                missing = [f for f in range(fold, last) if found[f] is None]
                self.ready += [self._fold_task(number, f) for f in missing]
                return None
            if "error" in record:
                error = str(record["error"])
                return Trial(number, parameters, "failed", None, tuple(scores), seconds, error)
            scores.append(float(record["score"]))
            if prune and fold + 1 < self.folds and should_prune(scores, history):
                return Trial(number, parameters, "pruned", None, tuple(scores), seconds)
        mean = sum(scores) / len(scores)
        finals = tuple(record["last"] for record in found if record and "last" in record)
        finals = finals if len(finals) == len(scores) else ()
        return Trial(number, parameters, "complete", mean, tuple(scores), seconds, last=finals)

    def _update_repeats(self, records: Records) -> None:
        best = self.best
        self.repeats, self.errors, self.classes = [], [], {}
        if best is None:
            return
        for number in range(self.study.repeats):
            key, seed = repeat_key(self.method, best.number, number), self.study.seed + 1 + number
            record = records.get(key)
            if key in self.stored:
                repeat, self.classes[number] = self.stored[key]
                self.repeats.append(repeat)
            elif record is None:
                title = f"repeat {number + 1}"
                self.ready.append(self._task(key, "repeat", best.parameters, title, seed=seed))
            elif "error" in record:
                self.errors.append(str(record["error"]))
            else:
                validation, separate = tuple(record["validation"]), tuple(record["separate"])
                concatenated, seconds = record["concatenated"], record["seconds"]
                runs = tuple(record.get("runs", ()))
                if record.get("classes"):
                    self.classes[number] = record["classes"][WHOLE]
                self.repeats.append(
                    Repeat(number, seed, validation, separate, concatenated, seconds, runs)
                )

    def _fold_task(self, number: int, fold: int) -> Task:
        protocol = {"fold": fold, "test": False, "metrics": (self.method.config.train.metric,)}
        return self._task(
            fold_key(self.method, number, fold),
            "validate",
            self.asked[number],
            f"trial {number + 1}, fold {fold + 1}",
            seed=self.study.seed,
            protocol=self.method.config.protocol.model_copy(update=protocol),
        )

    def _task(
        self, key: str, kind: Kind, parameters: Mapping[str, Any], title: str, **changes: Any
    ) -> Task:
        """A run of the method with hyper-parameters; ``changes`` replace parts of its config."""
        config = self.method.with_parameters(parameters).model_copy(update=changes)
        keep = self.study.checkpoints
        return Task(
            key=key,
            kind=kind,
            config=config.model_dump(mode="json"),
            checkpoints=not config.model.frozen if keep is None else keep,
            keep=self.study.keep_runs,
            title=f"{self.method.dataset} {self.method.label} {title}",
        )


def fold_key(method: Method, trial: int, fold: int) -> str:
    """The key of one fold of one trial."""
    return f"{method.identity}/trial-{trial:03d}/fold-{fold}"


def repeat_key(method: Method, trial: int, repeat: int) -> str:
    """The key of one repeat of the best trial, which is tested in every metric of the protocol."""
    tested = hash_of(sorted(method.config.protocol.metrics))[:8]
    return f"{method.identity}/winner-{trial:03d}/repeat-{repeat}-{tested}"


def readings_of(row: MethodRow) -> tuple[Reading, ...]:
    """The readings of a stored row; of one from before they were counted, that of its repeats."""
    if row.readings or not row.repeats:
        return row.readings
    best = best_trial(row.trials, row.trials_asked)
    scores = [repeat.score(row.metric, "separate") for repeat in row.repeats]
    number = best.number if best else 0
    return (Reading(number, row.trials_asked, len(scores), statistics.fmean(scores)),)
