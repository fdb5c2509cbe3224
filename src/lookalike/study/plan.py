"""A study resolved: its data sets looked at, its methods checked, its work laid out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike import data, models
from lookalike.errors import BadInput
from lookalike.study.config import StudyConfig, StudyData
from lookalike.study.ledger import Ledger
from lookalike.study.methods import Ground, base_config, identity_of, resolve
from lookalike.study.progress import MethodProgress, records_of
from lookalike.study.results import (
    BaselineRow,
    StudyResults,
    load_results,
    read_baselines,
    read_method,
    write_baselines,
    write_method,
    write_study,
)
from lookalike.study.tasks import Task
from lookalike.training.building import splits_of

__all__ = ["BaselineProgress", "Plan", "make_plan", "results_folder"]


@dataclass
class BaselineProgress:
    """The baselines of one data set."""

    dataset: str
    task: Task
    rows: tuple[BaselineRow, ...] = ()
    error: str = ""

    @property
    def ended(self) -> bool:
        """Whether they are there, or could not be had."""
        return bool(self.rows or self.error)

    def update(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the record, if it is there."""
        record = records.get(self.task.key)
        if record is not None:
            self.error = str(record.get("error", ""))
            self.rows = tuple(
                BaselineRow(dataset=self.dataset, **row) for row in record.get("rows", ())
            )


@dataclass
class Plan:
    """All the work of a study, and how far it has come."""

    study: StudyConfig
    folder: Path
    facts: dict[str, dict[str, Any]]
    baselines: list[BaselineProgress]
    methods: list[MethodProgress]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        baselines = all(baseline.ended for baseline in self.baselines)
        return baselines and all(progress.ended for progress in self.methods)

    @property
    def prefixes(self) -> list[str]:
        """How the keys of all work begin."""
        mine = [progress.prefix for progress in self.methods]
        return [baseline.task.key for baseline in self.baselines] + mine

    def ready(self) -> Iterable[Task]:
        """What can be done now: baselines, then methods in the order of the study file."""
        for baseline in self.baselines:
            if not baseline.ended:
                yield baseline.task
        for progress in self.methods:
            yield from reversed_stages(progress.ready)

    def take(self, records: Mapping[str, dict[str, Any]]) -> None:
        """Add records, and write the files of what they finished."""
        fresh = {key: record for key, record in records.items() if key not in self.records}
        self.records |= fresh
        for progress in self.methods:
            if any(key.startswith(progress.prefix) for key in fresh):
                before = len(progress.trials), len(progress.repeats), len(progress.errors)
                progress.update(self.records)
                after = len(progress.trials), len(progress.repeats), len(progress.errors)
                if after != before:
                    write_method(self.folder, progress.row())
        for baseline in self.baselines:
            if baseline.task.key in fresh:
                baseline.update(self.records)
                write_baselines(self.folder, baseline.dataset, baseline.rows)

    def known(self) -> dict[str, dict[str, Any]]:
        """The records behind the files of the folder; files of another study are refused."""
        found: dict[str, dict[str, Any]] = {}
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.name)
            if row is None or row.outdated:
                continue
            if row.identity != method.identity:
                raise BadInput(
                    f"'{self.folder / method.dataset / method.name}.json' was made by other "
                    "settings, data or weights; give another folder (--results), or remove it"
                )
            found |= records_of(method, row)
        for baseline in self.baselines:
            rows = read_baselines(self.folder, baseline.dataset)
            if rows and baseline.dataset in self.same_facts():
                values = [
                    {name: value for name, value in vars(row).items() if name != "dataset"}
                    for row in rows
                ]
                found[baseline.task.key] = {"rows": values, "seconds": 0.0}
        return found

    def restart_outdated(self, ledger: Ledger) -> list[str]:
        """Empty the rows that are marked as outdated, here and in the ledger; gives their names."""
        names = []
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.name)
            if row is not None and row.outdated:
                ledger.forget(progress.prefix)
                write_method(self.folder, progress.row())
                names.append(f"{method.dataset} {method.name}")
        return names

    def same_facts(self) -> set[str]:
        """The data sets whose baselines in the folder are those of this study."""
        if not (self.folder / "study.json").is_file():
            return set()
        former = load_results(self.folder).facts
        return {name for name, facts in self.facts.items() if former.get(name) == facts}

    def write_head(self, workers: int) -> None:
        """Write what is asked, and how many trainings run at the same time; no paths."""
        asked = self.study.model_dump(
            mode="json", exclude={"results": True, "data": {"__all__": {"root"}}}
        )
        write_study(
            StudyResults(
                folder=self.folder,
                name=self.study.name,
                metric=self.study.metric,
                study=asked | {"workers": workers},
                datasets=tuple(given.called for given in self.study.data),
                methods=tuple(dict.fromkeys(part.method.name for part in self.methods)),
                facts=self.facts,
            )
        )


def reversed_stages(ready: list[Task]) -> list[Task]:
    """Repeats wait for nothing, trials for one another: trials first, so that no worker idles."""
    return sorted(ready, key=lambda task: task.kind == "repeat")


def results_folder(study: StudyConfig, given: Path | None = None) -> Path:
    """Where the results of a study lie: as asked, else ``results/<name>``."""
    return given or study.results or Path("results") / study.name


def make_plan(study: StudyConfig, folder: Path) -> Plan:
    """Look at the data sets and check everything, before anything is written."""
    labels = [given.called for given in study.data]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInput(f"two data sets are called '{label}'; give one of them a label")
        if "/" in label or label.startswith("."):
            raise BadInput(f"data.label = '{label}' cannot be the name of a folder")
    facts, baselines, methods = {}, [], []
    for given in study.data:
        found = look_at(study, given)
        facts[given.called] = found
        ground = Ground(found["fingerprint"], found["weights"], found["train_classes"])
        base = base_config(study, given)
        identity = identity_of(
            base.identity(), found["fingerprint"], found["weights"], given.called
        )
        found["baselines"] = identity
        task = Task(f"{identity}/baselines", "baselines", base.model_dump(mode="json"))
        baselines.append(BaselineProgress(given.called, task))
        methods += [MethodProgress(study, method) for method in resolve(study, given, ground)]
    plan = Plan(study, folder, facts, baselines, methods)
    for progress in methods:
        progress.update({})
    return plan


def look_at(study: StudyConfig, given: StudyData) -> dict[str, Any]:
    """What a reader wants to know of a data set; folds that cannot be made are refused here."""
    config = base_config(study, given)
    images = data.load(given.name, given.root, given.skip_unreadable)
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
