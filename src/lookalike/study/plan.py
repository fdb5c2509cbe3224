"""The plan of a study: its data sets loaded, its methods checked, its tasks listed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike import models
from lookalike.errors import BadInput
from lookalike.study.config import StudyConfig, StudyData
from lookalike.study.ledger import Ledger
from lookalike.study.methods import DatasetFacts, base_config, hash_of, resolve
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
from lookalike.study.runner import Task
from lookalike.training.building import load_images, splits_of


@dataclass
class BaselineProgress:
    """The baselines of one data set."""

    dataset: str
    task: Task
    rows: tuple[BaselineRow, ...] = ()
    error: str = ""

    @property
    def ended(self) -> bool:
        """Whether they are finished or failed."""
        return bool(self.rows or self.error)

    def update(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Read the record, if it exists."""
        record = records.get(self.task.key)
        if record is not None:
            self.error = str(record.get("error", ""))
            rows = record.get("rows", ())
            self.rows = tuple(BaselineRow(**{"dataset": self.dataset} | row) for row in rows)


@dataclass
class Plan:
    """All tasks of a study, and its progress."""

    study: StudyConfig
    folder: Path
    facts: dict[str, dict[str, Any]]
    baselines: list[BaselineProgress]
    methods: list[MethodProgress]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return all(b.ended for b in self.baselines) and all(m.ended for m in self.methods)

    @property
    def prefixes(self) -> list[str]:
        """The prefixes of the keys of all tasks."""
        return [*(one.task.key for one in self.baselines), *(one.prefix for one in self.methods)]

    def ready(self) -> Iterable[Task]:
        """Tasks that can run now: baselines, then methods in the order of the study file."""
        for baseline in self.baselines:
            if not baseline.ended:
                yield baseline.task
        for progress in self.methods:
            yield from progress.ready

    def take(self, records: Mapping[str, dict[str, Any]]) -> None:
        """Add records, and write the files of the rows that they change."""
        fresh = {key: record for key, record in records.items() if key not in self.records}
        self.records |= fresh
        for progress in self.methods:
            if any(key.startswith(progress.prefix) for key in fresh):
                before = progress.size
                progress.update(self.records)
                if progress.size != before:
                    write_method(self.folder, progress.row())
        for baseline in self.baselines:
            if baseline.task.key in fresh:
                baseline.update(self.records)
                write_baselines(self.folder, baseline.dataset, baseline.rows)

    def known(self) -> dict[str, dict[str, Any]]:
        """The records of the files in the folder; files of another study are an error."""
        found: dict[str, dict[str, Any]] = {}
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.name)
            if row is None or row.outdated:
                continue
            if row.identity != method.identity:
                raise BadInput(
                    f"'{self.folder / method.dataset / method.name}.json' was made with other "
                    "settings, data or weights; give another folder (--results), or remove it"
                )
            found |= records_of(method, row)
        stored = (self.folder / "study.json").is_file()
        former = load_results(self.folder).facts if stored else {}
        for baseline in self.baselines:
            rows = read_baselines(self.folder, baseline.dataset)
            if rows and former.get(baseline.dataset) == self.facts[baseline.dataset]:
                found[baseline.task.key] = {"rows": [vars(row) for row in rows], "seconds": 0.0}
        return found

    def restart_outdated(self, ledger: Ledger) -> list[str]:
        """Clear the rows that are marked as outdated, here and in the ledger; their names."""
        names = []
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.name)
            if row is not None and row.outdated:
                ledger.forget(progress.prefix)
                write_method(self.folder, progress.row())
                names.append(f"{method.dataset} {method.name}")
        return names

    def write_head(self, workers: int) -> None:
        """Write the study file, without paths, and the number of workers."""
        asked = self.study.model_dump(
            mode="json", exclude={"results": True, "data": {"__all__": {"root"}}}
        )
        write_study(
            StudyResults(
                folder=self.folder,
                name=self.study.name,
                metric=self.study.metric,
                study=asked | {"workers": workers},
                datasets=tuple(given.display_name for given in self.study.data),
                methods=tuple(dict.fromkeys(part.method.name for part in self.methods)),
                facts=self.facts,
            )
        )


def results_folder(study: StudyConfig, given: Path | None = None) -> Path:
    """The folder of a study's results: as given, else ``results/<name>``."""
    return given or study.results or Path("results") / study.name


def make_plan(study: StudyConfig, folder: Path) -> Plan:
    """Load the data sets and check everything, before anything is written."""
    labels = [given.display_name for given in study.data]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInput(f"two data sets are called '{label}'; give one of them a label")
        if "/" in label or label.startswith("."):
            raise BadInput(f"data.label = '{label}' cannot be the name of a folder")
    facts, baselines, methods = {}, [], []
    for given in study.data:
        found = _facts(study, given)
        facts[given.display_name] = found
        own = DatasetFacts(found["fingerprint"], found["weights"], found["train_classes"])
        base = base_config(study, given)
        identity = hash_of(
            base.identity(), found["fingerprint"], found["weights"], given.display_name
        )
        found["baselines"] = identity
        task = Task(f"{identity}/baselines", "baselines", base.model_dump(mode="json"))
        baselines.append(BaselineProgress(given.display_name, task))
        methods += [MethodProgress(study, method) for method in resolve(study, given, own)]
    plan = Plan(study, folder, facts, baselines, methods)
    for progress in methods:
        progress.update({})
    return plan


def _facts(study: StudyConfig, given: StudyData) -> dict[str, Any]:
    """Fingerprints and sizes of a data set; impossible folds are an error."""
    config = base_config(study, given)
    images, _ = load_images(config)
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
