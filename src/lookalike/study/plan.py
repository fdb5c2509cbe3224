"""The plan of a study: its data sets loaded, its methods checked, its tasks listed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lookalike import models
from lookalike.config import RunConfig, without_effect
from lookalike.config.keys import selected
from lookalike.data import ImageSet
from lookalike.errors import BadInput
from lookalike.study.classes import RowClasses
from lookalike.study.config import REPLACED_BY_ROWS, StudyConfig
from lookalike.study.ledger import Ledger
from lookalike.study.methods import NOT_AXES, DatasetFacts, Method, RowGroup, cells, hash_of
from lookalike.study.progress import MethodProgress, readings_of
from lookalike.study.result_files import (
    baseline_classes,
    load_results,
    method_classes,
    read_baselines,
    read_method,
    row_file,
    write_baselines,
    write_method,
    write_study,
)
from lookalike.study.results import BaselineRow, StudyResults
from lookalike.study.runner import Task
from lookalike.training.building import load_images, splits_of


@dataclass
class BaselineProgress:
    """The baselines of one data set, or of one combination of data set, protocol and network."""

    dataset: str
    group: str
    task: Task
    rows: tuple[BaselineRow, ...] = ()
    classes: dict[tuple[str, str], RowClasses] = field(default_factory=dict)
    """By group and baseline: the scores per test class, where they were kept."""
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
            own = {"dataset": self.dataset, "group": self.group}
            self.rows = tuple(BaselineRow(**row | own) for row in rows)
            kept = record.get("classes", {})
            self.classes = {(self.group, name): found for name, found in kept.items()}


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

    @property
    def chosen(self) -> bool:
        """Whether every winner of the study is chosen."""
        return all(progress.tuned for progress in self.methods)

    def ready(self) -> Iterable[Task]:
        """Tasks that can run now, methods in the order of the study file.

        First the trials of every row. No test label is read before all winners are chosen: then
        come the repeats, which are tested, and the baselines.
        """
        if not self.chosen:
            for progress in self.methods:
                if not progress.tuned:
                    yield from progress.ready
            return
        for baseline in self.baselines:
            if not baseline.ended:
                yield baseline.task
        for progress in self.methods:
            yield from progress.ready

    def take(self, records: Mapping[str, dict[str, Any]]) -> None:
        """Add records, and write the files of the rows that they change.

        The file of a long search is written at each hundredth of its trials; the ledger has all.
        """
        fresh = {key: record for key, record in records.items() if key not in self.records}
        self.records |= fresh
        for progress in self.methods:
            if any(key.startswith(progress.prefix) for key in fresh):
                before, progress.begun = progress.size, True
                progress.update(self.records)
                step = 1 if progress.tuned else max(1, progress.trials_asked // 100)
                if progress.size // step != before // step:
                    write_method(self.folder, progress.row(), progress.row_classes())
        for baseline in self.baselines:
            if baseline.task.key in fresh:
                baseline.update(self.records)
                same = [one for one in self.baselines if one.dataset == baseline.dataset]
                rows = tuple(row for one in same for row in one.rows)
                classes = {key: found for one in same for key, found in one.classes.items()}
                write_baselines(self.folder, baseline.dataset, rows, classes)

    def resume(self) -> None:
        """Continue after what the files in the folder have; those of another study are an error."""
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.label)
            if row is None or row.outdated:
                continue
            # of a stranger's trial nothing is set but what the study searches: no folder, no file
            own = all(trial.parameters.keys() == method.search.keys() for trial in row.trials)
            if row.identity != method.identity or not own:
                path = row_file(self.folder, method.dataset, method.label)
                raise BadInput(
                    f"'{path}' was made with other settings, data or weights; give another folder "
                    "(--results), or remove it"
                )
            progress.resume(row, method_classes(self.folder, row))
        stored = (self.folder / "study.json").is_file()
        former = load_results(self.folder).facts if stored else {}
        for baseline in self.baselines:
            rows = read_baselines(self.folder, baseline.dataset)
            if former.get(baseline.group) == self.facts[baseline.group]:
                baseline.rows = tuple(r for r in rows if (r.group or r.dataset) == baseline.group)
                for one in baseline.rows:
                    if (found := baseline_classes(self.folder, one)) is not None:
                        baseline.classes[one.group, one.baseline] = found

    def restart_outdated(self, ledger: Ledger) -> list[str]:
        """Clear the rows that are marked as outdated, here and in the ledger; their names."""
        names = []
        for progress in self.methods:
            method = progress.method
            row = read_method(self.folder, method.dataset, method.label)
            if row is not None and row.outdated:
                ledger.remove(progress.prefix)
                progress.former = tuple(
                    replace(one, reason=one.reason or "outdated") for one in readings_of(row)
                )
                write_method(self.folder, progress.row())
                names.append(f"{method.dataset} {method.label}")
        return names

    def leave_out(self, rows: Sequence[MethodProgress], workers: int) -> None:
        """Forget rows for which there is no time; their records stay for another call."""
        self.methods = [one for one in self.methods if one not in rows]
        self.write_head(workers)

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
        folds = {one.folds for one in self.methods} - {1}
        if folds:
            parts.append(f"{' or '.join(map(str, sorted(folds)))} folds")
        trainings = sum((one.trials_asked + repeats) * one.folds for one in self.methods)
        return f"{trainings:,} trainings: {', '.join(parts)}"

    def read_before(self) -> str:
        """A sentence where more trials may replace winners whose test scores were read."""
        names = [
            one.method.label
            for one in self.methods
            if one.former and not one.former[-1].reason and one.former[-1].trials < one.trials_asked
        ]
        if not names:
            return ""
        return (
            f"the test set was read for {', '.join(names)}: a winner of more trials is tested too, "
            "and every reading is counted in the row"
        )

    def write_head(self, workers: int) -> None:
        """Write the study file, without paths, and the number of workers."""
        exclude: dict[str, Any] = {"results": True, "data": {"__all__": {"root"}}}
        exclude |= {"rows": {"__all__": {"config"}}}  # it is in the rows' own files
        if self.study.rows:
            exclude |= dict.fromkeys(REPLACED_BY_ROWS, True)
        asked = self.study.model_dump(mode="json", exclude=exclude)
        for values in asked.get("axes", {}).values():
            for settings in values.values():
                settings.pop("data.root", None)
        write_study(
            StudyResults(
                folder=self.folder,
                name=self.study.name,
                metric=self.study.metric,
                study=asked | {"workers": workers},
                datasets=tuple(dict.fromkeys(part.method.dataset for part in self.methods)),
                methods=tuple(dict.fromkeys(part.method.name for part in self.methods)),
                planned=tuple(part.planned for part in self.methods),
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
    found = cells(study)
    for name in dict.fromkeys(cell.dataset for cell in found):
        if "/" in name or name.startswith("."):
            raise BadInput(f"data.label = '{name}' cannot be the name of a folder")
    loaded: dict[str, ImageSet] = {}
    facts, baselines, resolved = {}, [], {}
    for name, group in _groups(found).items():
        shared = next((cell.shared for cell in group if cell.shared.model.frozen), group[0].shared)
        dataset = group[0].dataset
        place = f"{shared.data.model_dump_json()} {shared.protocol.order} {shared.protocol.seed}"
        if place not in loaded:
            loaded[place], _ = load_images(shared)
        facts[name] = known = _facts(shared, loaded[place])
        images, weights = known["fingerprint"], known["weights"]
        own = DatasetFacts(images, weights, known["train_classes"])
        metrics = shared.protocol.metrics
        identity = hash_of(shared.identity(), metrics, images, weights, dataset)
        if study.baselines:
            known["baselines"] = identity
            task = Task(f"{identity}/baselines", "baselines", shared.model_dump(mode="json"))
            baselines.append(BaselineProgress(dataset, name, task))
        for cell in group:
            resolved[id(cell)] = [replace(m, group=name) for m in cell.resolve(own)]
    methods = [method for cell in found for method in resolved[id(cell)]]
    _check_names(methods)
    plan = Plan(study, folder, facts, baselines, [MethodProgress(study, m) for m in methods])
    for progress in plan.methods:
        progress.update({})
    return plan


def _groups(found: Sequence[RowGroup]) -> dict[str, list[RowGroup]]:
    """Cells that share data, protocol and network, by a name: the data set and common axes."""
    by_key: dict[tuple[str, str], list[RowGroup]] = {}
    for cell in found:
        key = repr(selected(cell.shared, lambda key: key.baselines == "values"))
        by_key.setdefault((cell.dataset, key), []).append(cell)
    named: dict[str, list[RowGroup]] = {}
    for (dataset, _), group in by_key.items():
        name = dataset
        if sum(other == dataset for other, _ in by_key) > 1:
            common = [
                value
                for axis, value in group[0].axes.items()
                if all(cell.axes.get(axis) == value for cell in group)
            ]
            name = ", ".join([dataset, *common])
        while name in named:
            name += "'"
        named[name] = group
    return named


def _check_names(methods: Sequence[Method]) -> None:
    """Refuse rows that could not be told apart, or would share a file."""
    seen: set[Path] = set()
    for method in methods:
        path = row_file(Path(), method.dataset, method.label)
        if path in seen:
            kind = "rows" if method.axes else "methods"
            raise BadInput(f"two {kind} are called '{method.label}'; give one of them another name")
        seen.add(path)


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
