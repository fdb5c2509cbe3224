"""Methods with their test scores: gathered from studies and from single runs, and sampled.

Every score is of one model (:class:`ModelScores`): a fold of a repeat of a study. Intervals, tests
and shares of the variance read them by training run and test class.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from lookalike.compare.audit import Experiment
from lookalike.compare.conditions import (
    conditions_of,
    method_name,
    tuned_conditions,
    varied_conditions,
)
from lookalike.compare.uncertainty import Bounds, Sample, class_intervals
from lookalike.compare.variance import Floats, Ints, Sources
from lookalike.config import RunConfig, parse
from lookalike.config.keys import flattened
from lookalike.errors import BadInput
from lookalike.evaluation.class_table import ClassTable
from lookalike.shipped import find_shipped
from lookalike.study.intervals import Interval, summarize
from lookalike.study.results import (
    BaselineRow,
    MethodRow,
    RowClasses,
    StudyResults,
    Tested,
    Which,
)
from lookalike.study.table import class_scores, is_study, load_results
from lookalike.training import Run

BASELINES = {"raw-features": "raw features", "pca": "PCA", "lda": "LDA, shrunk"}


@dataclass(frozen=True)
class ModelScores:
    """The test scores of one model: of one fold of one repeat.

    Attributes:
        repeat: The number of the repeat.
        fold: The fold; None: the embeddings of all folds, concatenated.
        scores: By metric.
        classes: Scores per test class, where they were kept.
        study: Which of several whole studies of one design it is of.
    """

    repeat: int
    fold: int | None
    scores: Mapping[str, float]
    classes: ClassTable | None = None
    study: int = 0


@dataclass(frozen=True)
class MethodResult:
    """One method on one data set: the test scores of its models, and their conditions."""

    dataset: str
    config: RunConfig | None
    scores: tuple[ModelScores, ...]
    """Of every model and, where there are several folds, of each repeat's concatenated ones."""
    experiment: Experiment
    source: Path
    rows: tuple[MethodRow, ...] = ()
    """The rows of its studies; empty of single runs and of baselines."""
    runs: tuple[Run, ...] = ()
    dim: int | None = None
    axes: Mapping[str, str] = field(default_factory=dict)
    """The values at which it is compared with others: ``{"network": "resnet50"}``."""
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
    def row(self) -> MethodRow | None:
        """Its row in the results of one study."""
        return self.rows[0] if len(self.rows) == 1 else None

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
    def models(self) -> tuple[ModelScores, ...]:
        """The scores of each trained model."""
        return tuple(one for one in self.scores if one.fold is not None)

    @property
    def concatenated(self) -> tuple[ModelScores, ...]:
        """The scores of the folds' concatenated embeddings; empty where there is one fold."""
        return tuple(one for one in self.scores if one.fold is None)

    @property
    def has_one_embedding(self) -> bool:
        """Whether all folds share one embedding, that of an untrained network."""
        return self.baseline and not self.concatenated

    @property
    def studies(self) -> int:
        """How many whole studies its repeats are; 1: repeats are those of one study."""
        return len({one.study for one in self.scores})

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that every model was measured by."""
        first, *others = [one.scores for one in self.models] or [{}]
        return tuple(name for name in first if all(name in other for other in others))

    def measured(self, metric: str, which: Which = "separate") -> list[ModelScores]:
        """What was measured: every model, or each repeat's concatenated embedding."""
        joined = which == "concatenated" and not self.has_one_embedding
        found = self.concatenated if joined else self.models
        return [one for one in found if metric in one.scores]

    def repeated(self, metric: str, which: Which = "separate") -> dict[int, list[ModelScores]]:
        """The same by repeat; of several whole studies, each of them is a repeat."""
        found: dict[int, list[ModelScores]] = {}
        for one in self.measured(metric, which):
            found.setdefault(one.study if self.studies > 1 else one.repeat, []).append(one)
        return dict(sorted(found.items()))

    def interval(self, metric: str, which: Which = "separate") -> Interval | None:
        """Over repeats (the mean of a repeat's folds); of one repeat over its folds.

        None where the metric is missing. A baseline has no deviation: nothing is trained.
        """
        repeats = self.repeated(metric, which).values()
        if not repeats:
            return None
        values = [[one.scores[metric] for one in models] for models in repeats]
        return summarize([[fmean(folds)] for folds in values] if self.baseline else values)


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
        if is_study(folder):
            studies.append(load_results(folder))
            continue
        found = _runs_in(folder)
        if not found:
            raise BadInput(
                f"'{folder}' is neither a run (config.yaml) nor a study (study.db), "
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
    if not study.chosen:
        return []
    cells = [(row.dataset, tuple(row.axes.items())) for row in study.planned]
    alone = len(set(cells)) == len(cells) and bool(study.axes)
    tested = [row for row in study.rows if row.repeats]
    found = [_of_row(row, study, prefix, alone) for row in tested]
    for baseline in study.baselines:
        group = baseline.group or baseline.dataset
        beside: dict[str, MethodRow | None] = {}
        for row in tested:
            if (row.group or row.dataset) == group:
                beside.setdefault("" if alone else json.dumps(row.axes), row)
        for first in beside.values() or [None]:
            found.append(_of_baseline(baseline, study, prefix, first, alone))
    return found


def _of_row(row: MethodRow, study: StudyResults, prefix: str, alone: bool) -> MethodResult:
    config = parse(row.config, f"{study.folder}: {row.label}")
    conditions = conditions_of(config, trials=len(row.trials), seeds=row.seeds)
    tested = {repeat.number: repeat for repeat in row.repeats}
    return MethodResult(
        dataset=row.dataset,
        config=config,
        scores=_scores(tested, class_scores(study.folder, row)),
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
        rows=(row,),
        dim=config.model.dim,
        axes={} if alone else row.axes,
    )


def _of_baseline(
    baseline: BaselineRow, study: StudyResults, prefix: str, row: MethodRow | None, alone: bool
) -> MethodResult:
    """A baseline under the conditions of a method: same images, same network."""
    config = parse(row.config, str(study.folder)) if row else None
    conditions = conditions_of(config) if config else {"data": baseline.dataset}
    return MethodResult(
        dataset=baseline.dataset,
        config=config,
        scores=_scores({0: baseline}, class_scores(study.folder, baseline)),
        experiment=Experiment(
            prefix + BASELINES.get(baseline.baseline, baseline.baseline),
            _with_data(conditions, study.fingerprint(baseline)),
            varied=varied_conditions(row.axes) if row and alone else frozenset(),
            trained=False,
        ),
        source=study.folder,
        dim=baseline.dim,
        axes=row.axes if row and not alone else {},
    )


def _scores(repeats: Mapping[int, Tested], tables: RowClasses) -> tuple[ModelScores, ...]:
    found = []
    for repeat, tested in repeats.items():
        for fold, scores in enumerate(tested.separate or (tested.concatenated,)):
            table = tables.separate.get((repeat, fold))
            found.append(ModelScores(repeat, fold, scores, table))
        if len(tested.separate) > 1:
            table = tables.concatenated.get(repeat)
            found.append(ModelScores(repeat, None, tested.concatenated, table))
    return tuple(found)


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
    """The rows of studies of one design; a method that some have not tested is left out."""
    by_key = [{(one.cell, one.name): one for one in study} for study in found]
    common = [key for key in by_key[0] if all(key in study for study in by_key)]
    joined = []
    for key in common:
        same = [study[key] for study in by_key]
        scores = [replace(m, study=at) for at, one in enumerate(same) for m in one.scores]
        rows = [row for one in same for row in one.rows]
        joined.append(replace(same[0], scores=tuple(scores), rows=tuple(rows)))
    return joined


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
    first, config = group[0]
    seeds = sorted({one.seed for _, one in group})
    conditions = _with_data(
        conditions_of(config, seeds=len(seeds)), first.result["data_fingerprint"]
    )
    if (config.train.patience, config.train.patience_epochs) == (None, None):
        # epochs of different samplers may differ in length
        conditions["steps"] = max(int(run.result.get("steps", 0)) for run, _ in group) or None
    return MethodResult(
        dataset=config.data.name,
        config=config,
        scores=tuple(
            ModelScores(seeds.index(one.seed), one.protocol.fold, run.result["test"], run.classes)
            for run, one in group
        ),
        experiment=Experiment(
            names.get(first.folder, method_name(config)),
            conditions,
            trained=config.train.epochs > 0,
            folds=len({one.protocol.fold for _, one in group}),
        ),
        source=first.folder,
        runs=tuple(run for run, _ in group),
        dim=config.model.dim,
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


def sample_of(rows: Sequence[MethodResult], metric: str, which: Which = "separate") -> Sample:
    """The scores of ``rows`` over the repeats and folds that every trained row has.

    A training run is a repeat: the mean of its folds, which share their seed. A baseline has one
    value per fold, or only one; it is compared with every repeat. Scores per class are those of the
    rows that have the same test classes as the first that has any.
    """
    several = any(one.studies > 1 for one in rows)
    measured = {
        one.name: {(m.study, m.repeat, m.fold): m for m in one.measured(metric, which)}
        for one in rows
    }
    trained = [measured[one.name].keys() for one in rows if not one.baseline]
    common = sorted(set[Key].intersection(*map(set, trained))) if trained else []
    for one in rows:
        if one.baseline:
            own = list(measured[one.name].values())
            counterparts = {key: _counterpart(own, key) for key in common}
            measured[one.name] = {key: m for key, m in counterparts.items() if m is not None}
            common = [key for key in common if key in measured[one.name]]
    runs: dict[int, list[Key]] = {}
    for key in common:
        runs.setdefault(key[0] if several else key[1], []).append(key)
    models = {name: [[own[key] for key in keys] for keys in runs.values()]
              for name, own in measured.items()}  # fmt: skip
    totals = [[fmean(m.scores[metric] for m in run) for run in models[one.name]] for one in rows]
    by_class: dict[str, Floats] = {}
    classes: tuple[str, ...] = ()
    queries: Ints = np.empty(0, np.int64)
    for one in rows:
        table = _by_class(models[one.name], metric)
        if table is None:
            continue
        if not by_class:
            classes, queries = table[:2]
        if table[0] == classes and np.array_equal(table[1], queries):
            by_class[one.name] = table[2]
    names = tuple(one.name for one in rows)
    return Sample(names, np.array(totals, float).reshape(len(rows), len(runs)), by_class, queries)


Key: TypeAlias = tuple[int, int, int | None]
"""Study, repeat and fold of a model."""


def _counterpart(own: Sequence[ModelScores], key: Key) -> ModelScores | None:
    """The model of a baseline beside a trained one: of its study, repeat and fold, or the only one.

    A baseline of a study has repeat 0 only; one of single runs may have several.
    """
    study, repeat, fold = key
    own = [one for one in own if one.study == study]
    if len({one.repeat for one in own}) > 1:
        own = [one for one in own if one.repeat == repeat]
    return own[0] if len(own) == 1 else next((one for one in own if one.fold == fold), None)


def _by_class(
    runs: Iterable[Sequence[ModelScores]], metric: str
) -> tuple[tuple[str, ...], Ints, Floats] | None:
    """The test classes, their queries, and scores by training run (the mean of folds) and class.

    None where scores per class were not kept, or models were tested on different classes.
    """
    tables = [[one.classes for one in models] for models in runs]
    first = tables[0][0] if tables else None
    if first is None:
        return None
    columns: list[list[Floats]] = [[] for _ in tables]
    for column, folds in zip(columns, tables, strict=True):
        for table in folds:
            if table is None or metric not in table.metrics or table.classes != first.classes:
                return None
            if not np.array_equal(table.queries, first.queries):
                return None
            column.append(table.column(metric))
    return first.classes, first.queries, np.stack([np.mean(folds, axis=0) for folds in columns])


def class_bounds(
    rows: Sequence[MethodResult], metric: str, which: Which = "separate"
) -> dict[str, Bounds]:
    """By method: the interval of its score over all its training runs x test classes, if known."""
    groups: dict[tuple[int, tuple[str, ...]], tuple[Ints, dict[str, Floats]]] = {}
    for one in rows:
        table = _by_class(one.repeated(metric, which).values(), metric)
        if table is not None:  # of equal size: the same draws for all
            classes, queries, values = table
            groups.setdefault((len(values), classes), (queries, {}))[1][one.name] = values
    return {
        name: bounds
        for queries, tables in groups.values()
        for name, bounds in class_intervals(tables, queries).items()
    }


def sources(rows: Sequence[MethodResult], metric: str) -> tuple[list[Sources], list[Sources]]:
    """The sources of the variance of scores, and of the differences of every pair of methods.

    Args:
        rows: The trained methods of several whole studies.
        metric: The metric.

    Returns:
        Both lists; empty where scores per class were not kept, or of a single study.
    """
    tables: list[Floats] = []
    queries: Ints = np.empty(0, np.int64)
    for one in rows:
        runs: dict[tuple[int, int], list[ModelScores]] = {}
        for model in one.measured(metric):
            runs.setdefault((model.study, model.repeat), []).append(model)
        found = _by_class([runs[key] for key in sorted(runs)], metric)
        if one.studies < 2 or found is None or len(runs) % one.studies:
            return [], []
        _, queries, values = found
        tables.append(values.reshape(one.studies, -1, len(queries)))
    if len({table.shape for table in tables}) != 1:
        return [], []
    return (
        [Sources.of(table, queries) for table in tables],
        [Sources.of(a - b, queries) for a, b in combinations(tables, 2)],
    )
