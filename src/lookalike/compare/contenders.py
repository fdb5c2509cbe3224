"""Methods with their test scores, gathered from studies and from single runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lookalike.compare.audit import Experiment
from lookalike.compare.conditions import (
    conditions_of,
    method_name,
    tuned_conditions,
    varied_conditions,
)
from lookalike.config import RunConfig, parse
from lookalike.config.keys import flattened
from lookalike.errors import BadInput
from lookalike.evaluation.class_table import ClassTable, mean_table
from lookalike.shipped import find_shipped
from lookalike.study.classes import Cell, RowClasses
from lookalike.study.intervals import Interval, summarize
from lookalike.study.result_files import baseline_classes, load_results, method_classes
from lookalike.study.results import BaselineRow, MethodRow, StudyResults, Which
from lookalike.training import Run

Scores = Mapping[str, float]

BASELINES = {"raw-features": "raw features", "pca": "PCA", "lda": "LDA, shrunk"}


@dataclass(frozen=True)
class MethodResult:
    """One method on one data set: test scores by repeat and fold, and their conditions."""

    dataset: str
    config: RunConfig | None
    cells: Mapping[Cell, Scores]
    concatenated: Mapping[int, Scores]
    """By repeat: of the folds' concatenated embeddings; empty where there is one fold."""
    experiment: Experiment
    source: Path
    row: MethodRow | None = None
    runs: tuple[Run, ...] = ()
    dim: int | None = None
    axes: Mapping[str, str] = field(default_factory=dict)
    """The values at which it is compared with others: ``{"network": "resnet50"}``."""
    classes: RowClasses = field(default_factory=RowClasses)
    """Scores per test class; empty where they were not kept."""
    times_read: int | None = None
    """For how many choices of settings its test scores were read; None: unknown."""
    searched: int | None = None
    """How many of its parameters were searched; None: unknown, as of single runs."""
    studies: int = 1
    """How many whole studies its repeats are; 1: repeats are those of one study."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings in which it differs from rows of the same name, where its name has a number."""

    @property
    def cell(self) -> str:
        """The data set and the values of axes; rows of one cell are compared with each other."""
        values = (value for value in self.axes.values() if value != self.dataset)
        return ", ".join((self.dataset, *values))

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.experiment.name

    @property
    def baseline(self) -> bool:
        """Whether nothing was trained."""
        return not self.experiment.trained

    @property
    def untouched(self) -> bool:
        """Whether this is the network before any training."""
        raw = self.name.endswith(BASELINES["raw-features"])
        plain_head = self.config is None or self.config.model.head_init == "random"
        return self.baseline and ((bool(self.runs) and plain_head) or raw)

    @property
    def has_one_embedding(self) -> bool:
        """Whether all folds share one embedding, that of an untrained network."""
        return self.baseline and not self.concatenated

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that every model was measured by."""
        first, *others = list(self.cells.values()) or [{}]
        return tuple(name for name in first if all(name in other for other in others))

    def blocks(self, metric: str, which: Which = "separate") -> dict[Cell, float]:
        """The score of each block: of each model, or of each repeat's concatenated embedding."""
        if which == "concatenated" and not self.has_one_embedding:
            return {(r, 0): s[metric] for r, s in self.concatenated.items() if metric in s}
        return {cell: scores[metric] for cell, scores in self.cells.items() if metric in scores}

    def class_blocks(self, metric: str, which: Which = "separate") -> dict[Cell, ClassTable]:
        """The scores per test class of each block; empty where some were not kept."""
        tables: dict[Cell, ClassTable] = dict(self.classes.separate)
        if which == "concatenated" and not self.has_one_embedding:
            tables = {(repeat, 0): one for repeat, one in self.classes.concatenated.items()}
        found = {cell: one for cell, one in tables.items() if metric in one.metrics}
        return found if found.keys() >= self.blocks(metric, which).keys() else {}

    def interval(self, metric: str, which: Which = "separate") -> Interval | None:
        """Over repeats (the mean of a repeat's folds); of one repeat over its folds.

        None where the metric is missing. A baseline has no deviation: nothing is trained.
        """
        repeats: dict[int, list[float]] = {}
        for (repeat, _), score in sorted(self.blocks(metric, which).items()):
            repeats.setdefault(repeat, []).append(score)
        if not repeats:
            return None
        scores = list(repeats.values())
        return summarize([[fmean(folds)] for folds in scores] if self.baseline else scores)


@dataclass(frozen=True)
class ResultSet:
    """All methods of the given folders."""

    contenders: tuple[MethodResult, ...]
    studies: tuple[StudyResults, ...] = ()
    skipped: tuple[str, ...] = ()
    """Sentences about what was left out, and why."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """All data sets, in order of appearance."""
        return tuple(dict.fromkeys(one.dataset for one in self.contenders))

    @property
    def cells(self) -> tuple[str, ...]:
        """All combinations of data set and axes, in order of appearance."""
        return tuple(dict.fromkeys(one.cell for one in self.contenders))

    def of(self, cell: str) -> tuple[MethodResult, ...]:
        """The methods of one cell: a data set, at values of axes where there are any."""
        return tuple(one for one in self.contenders if one.cell == cell)


def gather(folders: Sequence[Path], names: Mapping[Path, str] | None = None) -> ResultSet:
    """Read studies, runs and folders of runs; anything else is an error.

    ``names`` gives names to the runs in some folders.
    """
    studies: list[StudyResults] = []
    runs: list[Run] = []
    skipped: list[str] = []
    for folder in map(find_shipped, folders):
        if (folder / "study.json").is_file():
            studies.append(load_results(folder))
            continue
        found = _runs_in(folder)
        if not found:
            raise BadInput(
                f"'{folder}' is neither a run (config.yaml) nor a study (study.json), "
                "nor does it hold runs"
            )
        unfinished = [run for run in found if not run.done]
        if unfinished and len(found) == 1:
            _ = found[0].result  # raises an error that says how to resume
        skipped += [f"'{run.folder}' is not finished and was left out" for run in unfinished]
        runs += [run for run in found if run.done]
    tested = [run for run in runs if "test" in run.result]
    skipped += [f"'{r.folder}' was not tested and was left out" for r in runs if r not in tested]
    skipped += [
        f"'{study.folder}' is still searching: no test score before every winner is chosen"
        for study in studies
        if not study.chosen
    ]
    contenders: list[MethodResult] = []
    designs: dict[str, list[StudyResults]] = {}
    for study in studies:
        designs.setdefault(_design(study), []).append(study)
    for same in designs.values():
        prefix = f"{same[0].name}: " if len(designs) > 1 else ""
        contenders += _of_whole_studies([_of_study(study, prefix) for study in same])
    contenders = _with_unique_names(contenders + _of_runs(tested, names or {}))
    if not contenders:
        reason = f" ({skipped[0]})" if skipped else ""
        raise BadInput(f"there is nothing with test scores to compare{reason}")
    return ResultSet(tuple(contenders), tuple(studies), tuple(skipped))


def _runs_in(folder: Path) -> list[Run]:
    if (folder / "config.yaml").is_file():
        return [Run(folder)]
    for place in (folder, folder / "runs"):
        found = (path.parent for path in place.glob("*/config.yaml"))
        inside = sorted(path for path in found if not path.is_symlink())  # runs/latest is one
        if inside:
            return [Run(path) for path in inside]
    return []


def _of_study(study: StudyResults, prefix: str) -> list[MethodResult]:
    """The rows of a study and, in each cell, the baselines of its data set and network.

    Where every cell has one method only, the values of axes are compared instead: all rows are in
    one cell, and their names say the values.
    """
    tested = [row for row in study.rows if row.repeats] if study.chosen else []
    places = [(row.dataset, tuple(row.axes.items())) for row in study.planned]
    alone = len(set(places)) == len(places) and bool(study.axes)
    rows = [_of_row(row, study, prefix, alone) for row in tested]
    found = list(rows)
    for baseline in study.baselines if study.chosen else ():
        group = baseline.group or baseline.dataset
        same = [
            (row, one.axes)
            for row, one in zip(tested, rows, strict=True)
            if (row.group or row.dataset) == group
        ]
        axes = {json.dumps(dict(axes)): (row, axes) for row, axes in reversed(same)}
        for row, values in reversed(axes.values()):
            found.append(_of_baseline(baseline, study, prefix, row, values, alone))
        if not same:
            found.append(_of_baseline(baseline, study, prefix, None, {}, alone))
    return found


def _design(study: StudyResults) -> str:
    """What studies have in common that differ in the seed alone: data, methods, protocol, tuner.

    The seed draws the split, the settings that are tried, and the training runs.
    """
    own = {"name", "seed", "workers", "keep_runs", "checkpoints"}
    content = [one.get("fingerprint") for one in study.facts.values()]
    asked = {key: value for key, value in study.study.items() if key not in own}
    seed = None if "seed" in study.study else str(study.folder)  # of an unknown seed: alone
    return json.dumps([asked, content, seed], sort_keys=True)


def _of_whole_studies(found: Sequence[Sequence[MethodResult]]) -> list[MethodResult]:
    """The rows of studies of one design, each study as one repeat of the whole.

    A method that some of them have not tested is left out.
    """
    if len(found) == 1:
        return list(found[0])
    places = [{(one.cell, one.name): one for one in study} for study in found]
    common = [key for key in places[0] if all(key in study for study in places)]
    return [_joined([study[key] for study in places]) for key in common]


def _joined(same: Sequence[MethodResult]) -> MethodResult:
    """One method of several studies: the repeat of a model is the number of its study."""
    first = same[0]
    cells: dict[Cell, Scores] = {}
    tables: dict[Cell, ClassTable] = {}
    together: dict[int, Scores] = {}
    joined: dict[int, ClassTable] = {}
    for number, one in enumerate(same):
        for place, cell in enumerate(sorted(one.cells)):
            cells[number, place] = one.cells[cell]
            if cell in one.classes.separate:
                tables[number, place] = one.classes.separate[cell]
        if one.concatenated:
            scores = list(one.concatenated.values())
            together[number] = {m: fmean(s[m] for s in scores) for m in scores[0]}
        if one.classes.concatenated:
            joined[number] = mean_table(list(one.classes.concatenated.values()))
    return replace(
        first,
        cells=cells,
        concatenated=together,
        classes=RowClasses(tables, joined),
        row=None,
        studies=len(same),
    )


def _of_row(row: MethodRow, study: StudyResults, prefix: str, alone: bool) -> MethodResult:
    config = parse(row.config, f"{study.folder}: {row.label}")
    conditions = conditions_of(config, trials=len(row.trials), seeds=row.seeds)
    return MethodResult(
        dataset=row.dataset,
        config=config,
        cells={(r.number, f): s for r in row.repeats for f, s in enumerate(r.separate)},
        concatenated={r.number: r.concatenated for r in row.repeats if len(r.separate) > 1},
        experiment=Experiment(
            prefix + (row.label if alone else row.method),
            _with_data(conditions, study.fingerprint(row)),
            tuned=tuned_conditions(row.tuned),
            varied=varied_conditions(row.axes) if alone else frozenset(),
            trained=config.train.epochs > 0,
            folds=max((len(repeat.separate) for repeat in row.repeats), default=1),
            outdated=row.outdated,
            read_again=row.read_again,
        ),
        source=study.folder,
        row=row,
        searched=len(row.tuned),
        times_read=row.times_read,
        dim=config.model.dim,
        axes={} if alone else row.axes,
        classes=method_classes(study.folder, row) or RowClasses(),
    )


def _of_baseline(
    row: BaselineRow,
    study: StudyResults,
    prefix: str,
    method: MethodRow | None,
    axes: Mapping[str, str],
    alone: bool,
) -> MethodResult:
    """A baseline under the conditions of a method: same images, same network."""
    config = parse(method.config, str(study.folder)) if method else None
    conditions = conditions_of(config) if config else {"data": row.dataset}
    return MethodResult(
        dataset=row.dataset,
        config=config,
        cells={(0, f): scores for f, scores in enumerate(row.separate or (row.concatenated,))},
        concatenated={0: row.concatenated} if len(row.separate) > 1 else {},
        experiment=Experiment(
            prefix + BASELINES.get(row.baseline, row.baseline),
            _with_data(conditions, study.fingerprint(row)),
            varied=varied_conditions(method.axes) if method and alone else frozenset(),
            trained=False,
        ),
        source=study.folder,
        dim=row.dim,
        axes=axes,
        classes=baseline_classes(study.folder, row) or RowClasses(),
    )


def _of_runs(runs: Sequence[Run], names: Mapping[Path, str]) -> list[MethodResult]:
    """Runs that differ in seed and fold alone are repeats of one method."""
    groups: dict[str, list[tuple[Run, RunConfig]]] = {}
    for run in runs:
        config = run.config
        values = config.identity()
        del values["seed"], values["protocol"]["fold"]
        parts = [values, run.result["data_fingerprint"], names.get(run.folder)]
        key = json.dumps(parts, sort_keys=True)
        groups.setdefault(key, []).append((run, config))
    return [_of_group(group, names) for group in groups.values()]


def _of_group(group: Sequence[tuple[Run, RunConfig]], names: Mapping[Path, str]) -> MethodResult:
    config = group[0][1]
    seeds = sorted({one.seed for _, one in group})
    places = [(seeds.index(one.seed), one.protocol.fold) for _, one in group]
    cells = {at: run.result["test"] for at, (run, _) in zip(places, group, strict=True)}
    tables = {at: run.classes for at, (run, _) in zip(places, group, strict=True)}
    fingerprint = group[0][0].result["data_fingerprint"]
    conditions = _with_data(conditions_of(config, seeds=len(seeds)), fingerprint)
    if (config.train.patience, config.train.patience_epochs) == (None, None):
        # epochs of different samplers may differ in length
        conditions["steps"] = max(int(run.result.get("steps", 0)) for run, _ in group) or None
    return MethodResult(
        dataset=config.data.name,
        config=config,
        cells=cells,
        concatenated={},
        experiment=Experiment(
            names.get(group[0][0].folder, method_name(config)),
            conditions,
            trained=config.train.epochs > 0,
            folds=len({fold for _, fold in cells}),
        ),
        source=group[0][0].folder,
        runs=tuple(run for run, _ in group),
        dim=config.model.dim,
        classes=RowClasses({at: table for at, table in tables.items() if table is not None}),
    )


def _with_data(conditions: Mapping[str, Any], fingerprint: str | None) -> dict[str, Any]:
    """Two folders of one name may hold different images."""
    content = f" ({fingerprint[:8]})" if fingerprint else ""
    return {**conditions, "data": f"{conditions['data']}{content}"}


def _with_unique_names(contenders: Sequence[MethodResult]) -> list[MethodResult]:
    """Equal names in one cell get the one setting in which they differ, or else a number."""
    groups: dict[tuple[str, str], list[MethodResult]] = {}
    for one in contenders:
        groups.setdefault((one.name, one.cell), []).append(one)
    found = {
        id(one): renamed
        for same in groups.values()
        for one, renamed in zip(same, _disambiguate(same), strict=True)
    }
    return [found[id(one)] for one in contenders]


def _disambiguate(same: Sequence[MethodResult]) -> Sequence[MethodResult]:
    """Rows of one name with names that differ."""
    if len(same) == 1:
        return same
    settings = _differing_settings(same)
    endings = [", ".join(f"{key}={value}" for key, value in one.items()) for one in settings]
    if len(settings[0]) == 1 and len(set(endings)) == len(same):
        return [_renamed(one, f"({end})") for one, end in zip(same, endings, strict=True)]
    return [
        replace(_renamed(one, f"#{number}"), settings=values or {"folder": one.source.name})
        for number, (one, values) in enumerate(zip(same, settings, strict=True), 1)
    ]


def _renamed(one: MethodResult, ending: str) -> MethodResult:
    return replace(one, experiment=replace(one.experiment, name=f"{one.name} {ending}"))


def _differing_settings(same: Sequence[MethodResult]) -> list[dict[str, str]]:
    """Of each row the settings that are not the same in all; of baselines those with effect."""
    if any(one.config is None for one in same):
        return [{} for _ in same]
    flat = [flattened(one.config.identity()) for one in same if one.config is not None]
    effective = ("data.", "model.") if all(one.baseline for one in same) else ("",)
    keys = [
        key
        for key in dict.fromkeys(key for values in flat for key in values)
        if key not in ("seed", "protocol.fold")
        and key.startswith(effective)
        and len({json.dumps(values.get(key), sort_keys=True) for values in flat}) > 1
    ]
    return [{key: str(values[key]) for key in keys if key in values} for values in flat]
