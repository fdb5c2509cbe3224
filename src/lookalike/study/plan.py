"""The plan of a study: its data sets loaded, its rows checked, and the tasks that come next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lookalike import models
from lookalike.config import RunConfig, without_effect
from lookalike.config.keys import selected
from lookalike.data import ImageSet
from lookalike.errors import BadInput
from lookalike.study.config import REPLACED_BY_ROWS, StudyConfig
from lookalike.study.methods import NOT_AXES, DatasetFacts, Method, StudyRow, baselines_of, rows_of
from lookalike.study.records import JOINED, Record, TaskKey, row_of, trial_of
from lookalike.study.results import MethodRow, PlannedRow, Reading, Trial, best_trial
from lookalike.study.table import StudyTable
from lookalike.study.tasks import Task
from lookalike.study.tuning import should_prune, suggest, trials_asked, visible_trials
from lookalike.training.building import load_images, splits_of

MOST_AT_ONCE = 256
"""Trials of one row that are given out at the same time."""


@dataclass
class RowProgress:
    """One row of a study: what its tasks found, and which come next."""

    study: StudyConfig
    method: Method
    number: int = 0
    """Its place in the plan."""
    records: dict[TaskKey, Record] = field(default_factory=dict)
    former: tuple[Reading, ...] = ()
    left_out: bool = False
    """Whether there is no time for it."""
    asked: dict[int, dict[str, Any]] = field(default_factory=dict)
    ready: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trials_asked = trials_asked(self.method.tuner, self.method.search)
        self.update()

    @property
    def planned(self) -> PlannedRow:
        """What the study asks for, without paths of this machine."""
        method = self.method
        hidden: dict[str, Any] = {"runs_dir": True, "data": {"root"}}
        return PlannedRow(
            dataset=method.dataset,
            method=method.name,
            axes=dict(method.axes),
            trials=self.trials_asked,
            repeats=1 if method.baseline else self.study.repeats,
            folds=method.folds,
            config=method.config.model_dump(mode="json", exclude=hidden),
            metric=method.config.train.metric,
            identity=method.identity,
            group="" if method.group == method.dataset else method.group,
            baseline=method.baseline,
            dim=method.dim,
            former=self.former,
        )

    @property
    def tuned(self) -> bool:
        """Whether every trial is finished."""
        return len(self.row.trials) == self.trials_asked

    @property
    def best(self) -> Trial | None:
        """The trial that is trained again and tested, once all trials are finished."""
        return best_trial(self.row.trials, self.trials_asked) if self.tuned else None

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.left_out or (self.tuned and not self.ready)

    @property
    def runs_done(self) -> int:
        """How many trainings are finished."""
        runs = sum(max(1, len(trial.folds)) for trial in self.row.trials)
        return runs + len(self.row.repeats) * self.method.folds

    @property
    def runs_left(self) -> int:
        """How many trainings are left, at most."""
        if self.ended:
            return 0
        done = len(self.row.trials) + len(self.row.repeats) + len(self.row.errors)
        return (self.trials_asked + self.planned.repeats - done) * self.method.folds

    def take(self, key: TaskKey, record: Record) -> Record:
        """Add what a task found; a trial below the median ends with it."""
        method = self.method
        if key.repeat < 0 and method.tuner.prune and not record.error:
            known = (*(self.records[key._replace(fold=f)] for f in range(key.fold)), record)
            scores = [one.scores[f][f"validation {self.row.metric}"] for f, one in enumerate(known)]
            history = self.row.trials[: visible_trials(key.trial, method.tuner)]
            if key.fold + 1 < method.folds and should_prune(scores, history):
                record = replace(record, pruned=True)
        self.records[key] = record
        self.update()
        return record

    def update(self) -> None:
        """Derive the results and the next tasks from all records."""
        self.row: MethodRow = row_of(self.planned, self.records, self.study.metric)
        self.ready = list(self._repeats() if self.tuned else self._trials())

    def _trials(self) -> Iterable[Task]:
        """The missing folds of the next trials, as far as they may be known."""
        tuner, finished = self.method.tuner, len(self.row.trials)
        planned, unfinished = self.planned, 0
        for number in range(finished, self.trials_asked):
            seen = visible_trials(number, tuner)
            if seen > finished or unfinished == MOST_AT_ONCE:
                return
            if trial_of(planned, self.records, number) is not None:
                continue
            unfinished += 1
            keys = [TaskKey(number, fold) for fold in range(self.method.folds)]
            if number not in self.asked:
                begun = next((self.records[key] for key in keys if key in self.records), None)
                seed = int(self.method.identity[:7], 16) ^ self.study.seed  # one for each method
                history = self.row.trials[:seen]
                self.asked[number] = begun.parameters if begun else suggest(
                    tuner, self.method.search, seed, number, history
                )  # fmt: skip
            missing = [key for key in keys if key not in self.records]
            for key in missing[:1] if tuner.prune else missing:
                yield self._task(
                    key, self.asked[number], f"trial {number + 1}, fold {key.fold + 1}"
                )

    def _repeats(self) -> Iterable[Task]:
        """The repeats of the winner that are not tested by every metric."""
        best, metrics = self.best, set(self.method.config.protocol.metrics)
        for number in range(self.planned.repeats if best else 0):
            key = TaskKey(best.number if best else 0, repeat=number)
            found = self.records.get(key)
            if found is None or not (
                found.error
                or all(metrics <= s.keys() for fold, s in found.scores.items() if fold != JOINED)
            ):
                yield self._task(key, best.parameters if best else {}, f"repeat {number + 1}")

    def _task(self, key: TaskKey, parameters: Mapping[str, Any], title: str) -> Task:
        config = self.method.with_parameters(parameters)
        protocol: dict[str, Any] = {"fold": key.fold, "test": False}
        other = 0 if self.method.baseline else 1 + key.repeat  # of a trial 0, too
        changes: dict[str, Any] = {"seed": self.study.seed + other}
        if key.repeat < 0:
            protocol["metrics"] = (config.train.metric,)
            changes["protocol"] = config.protocol.model_copy(update=protocol)
        config = config.model_copy(update=changes)
        folders = not config.model.frozen if self.study.checkpoints is None else None
        return Task(
            row=self.number,
            key=key,
            config=config.model_dump(mode="json"),
            parameters=dict(parameters),
            asked=self.trials_asked,
            checkpoints=not self.method.baseline and bool(folders or self.study.checkpoints),
            keep=self.study.keep_runs,
            title=f"{self.method.dataset} {self.method.label} {title}",
        )


@dataclass
class Plan:
    """All rows of a study, the baselines first, and their progress."""

    study: StudyConfig
    folder: Path
    facts: dict[str, dict[str, Any]]
    rows: list[RowProgress]

    @property
    def methods(self) -> list[RowProgress]:
        """The rows that are trained, without those for which there is no time."""
        return [row for row in self.rows if not (row.method.baseline or row.left_out)]

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return all(row.ended for row in self.rows)

    def ready(self) -> Iterable[Task]:
        """Tasks that can run now.

        First the trials of every row. No test label is read before all winners are chosen: then
        come the repeats, which are tested.
        """
        rows = [row for row in self.rows if not row.left_out]
        tuning = [row for row in rows if not row.tuned]
        for row in tuning or rows:
            yield from row.ready

    def resume(self, table: StudyTable) -> list[str]:
        """Continue after what the table has; the names of outdated rows, which begin anew.

        Raises:
            BadInput: The table is of another study.
        """
        outdated = []
        for row in self.rows:
            method, before = row.method, table.row(row.planned)
            if before is None:
                continue
            records = table.records(before)
            anew = before.outdated or (method.baseline and before.identity != method.identity)
            # of a stranger's trial nothing is set but what the study searches: no folder, no file
            tried = [record.parameters for key, record in records.items() if key.repeat < 0]
            own = all(parameters.keys() == method.search.keys() for parameters in tried)
            if not anew and (before.identity != method.identity or not own):
                raise BadInput(
                    f"the row '{method.label}' in '{self.folder}' was made with other settings, "
                    "data or weights; give another folder (--results), or remove it"
                )
            row.former = before.former
            if anew:
                if not method.baseline:
                    readings = row_of(before, records, self.study.metric).readings
                    row.former = tuple(replace(r, reason=r.reason or "outdated") for r in readings)
                outdated.append((before, f"{method.dataset} {method.label}"))
            else:
                row.records = records
            row.update()
        for before, _ in outdated:
            table.restart(before)
        return [name for before, name in outdated if not before.baseline]

    def leave_out_late(self, seconds: float, each: float) -> list[str]:
        """Leave out the rows that no longer fit in, with the tests of those that do; their names.

        A row is begun only if its trials and tests fit in; one that is begun goes on while there
        is time for the tests of the tuned ones. While none is tuned, none is left out.

        Args:
            seconds: What is left.
            each: Seconds of one training, divided by the number of workers.
        """
        tuned = [row for row in self.methods if row.tuned]
        left = seconds - each * sum(row.runs_left for row in tuned)
        late = []
        for row in self.methods:
            if not row.tuned:
                needed = each * row.runs_left
                if left < (0 if row.records else needed):
                    late.append(row)
                else:
                    left -= needed
        for row in late if tuned else ():
            row.left_out = True
        return [row.method.label for row in late] if tuned else []

    def without_effect(self) -> list[str]:
        """A sentence for each setting of a row that changes nothing."""
        found = {text: None for one in self.methods for text in without_effect(one.method.config)}
        return [text for text in found if not text.startswith(NOT_AXES)]

    def summary(self) -> str:
        """How much work the study is, before it begins: "12 rows: 600 trials, 36 repeats, ..."."""
        rows, repeats = len(self.methods), self.study.repeats
        trials = sum(one.trials_asked for one in self.methods)
        parts = [f"{rows} row{'s' * (rows != 1)}"]
        if trials:
            kind = "points of a grid" if self.study.tuner.name == "grid" else "trials"
            parts.append(f"{trials:,} {kind}")
        parts.append(f"{repeats} repeat{'s' * (repeats != 1)} of each row")
        folds = {one.method.folds for one in self.methods} - {1}
        if folds:
            parts.append(f"{' or '.join(map(str, sorted(folds)))} folds")
        trainings = sum((one.trials_asked + repeats) * one.method.folds for one in self.methods)
        return f"{trainings:,} trainings: {', '.join(parts)}"

    def read_before(self) -> str:
        """A sentence where more trials may replace winners whose test scores were read."""
        names = [one.method.label for one in self.methods if one.row.readings and not one.tuned]
        if not names:
            return ""
        return (
            f"the test set was read for {', '.join(names)}: a winner of more trials is tested too, "
            "and every reading is counted in the row"
        )

    def write(self, table: StudyTable, workers: int) -> None:
        """Write what the study asks for, without paths, and the number of workers."""
        exclude: dict[str, Any] = {"results": True, "data": {"__all__": {"root"}}}
        exclude |= {"rows": {"__all__": {"config"}}}  # it is in the rows
        if self.study.rows:
            exclude |= dict.fromkeys(REPLACED_BY_ROWS, True)
        asked = self.study.model_dump(mode="json", exclude=exclude)
        for values in asked.get("axes", {}).values():
            for settings in values.values():
                settings.pop("data.root", None)
        values = {"name": self.study.name, "metric": self.study.metric, "facts": self.facts}
        rows = [row.planned for row in self.rows if not row.left_out]
        table.write_plan(values | {"study": asked | {"workers": workers}}, rows)


def results_folder(study: StudyConfig, given: Path | None = None) -> Path:
    """The folder of a study's results: as given, else ``results/<name>``."""
    return given or study.results or Path("results") / study.name


def make_plan(study: StudyConfig, folder: Path) -> Plan:
    """Load the data sets and check everything, before anything is written."""
    labels = [given.display_name for given in study.data]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInput(f"two data sets are called '{label}'; give one of them a label")
    loaded: dict[str, ImageSet] = {}
    facts: dict[str, dict[str, Any]] = {}
    baselines: list[Method] = []
    asked, resolved = list(rows_of(study)), {}
    for name, group in _groups(asked).items():
        shared = next((row.shared for row in group if row.shared.model.frozen), group[0].shared)
        source = f"{shared.data.model_dump_json()} {shared.protocol.order} {shared.protocol.seed}"
        if source not in loaded:
            loaded[source], _ = load_images(shared)
        facts[name] = known = _facts(shared, loaded[source])
        own = DatasetFacts(known["fingerprint"], known["weights"], known["train_classes"])
        if study.baselines:
            baselines += baselines_of(group[0].dataset, name, shared, own)
        for row in group:
            resolved[id(row)] = replace(row.resolve(study, own), group=name)
    methods = [resolved[id(row)] for row in asked]
    names = [(method.dataset, method.label) for method in methods]
    for method in methods:
        if names.count((method.dataset, method.label)) > 1:
            kind = "rows" if method.axes else "methods"
            raise BadInput(f"two {kind} are called '{method.label}'; give one of them another name")
    every = enumerate([*baselines, *methods])
    return Plan(study, folder, facts, [RowProgress(study, one, number) for number, one in every])


def _groups(asked: Sequence[StudyRow]) -> dict[str, list[StudyRow]]:
    """Rows that share data, protocol and network, by a name: the data set and common axes."""
    by_key: dict[tuple[str, str], list[StudyRow]] = {}
    for row in asked:
        key = repr(selected(row.shared, lambda key: key.baselines == "values"))
        by_key.setdefault((row.dataset, key), []).append(row)
    named: dict[str, list[StudyRow]] = {}
    for (dataset, _), group in by_key.items():
        name = dataset
        if sum(other == dataset for other, _ in by_key) > 1:
            common = [
                value
                for axis, value in group[0].axes.items()
                if all(row.axes.get(axis) == value for row in group)
            ]
            name = ", ".join([dataset, *common])
        while name in named:
            name += "'"
        named[name] = group
    return named


def _facts(config: RunConfig, images: ImageSet) -> dict[str, Any]:
    """Fingerprints and sizes of a data set; impossible folds are an error."""
    splits = splits_of(config, images)
    return {
        "fingerprint": images.fingerprint,
        "weights": models.fingerprint(config.model.network, config.model.weights),
        "images": len(images),
        "classes": len(images.class_names),
        "train_classes": min(split.train.class_count for split in splits),
        "test_images": int(images.test.sum()),
        "folds": [split.description for split in splits],
    }
