"""Methods with their test scores, gathered from studies and from single runs alike."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lookalike.compare.audit import Experiment
from lookalike.compare.conditions import conditions_of, method_name, tuned_conditions
from lookalike.config import RunConfig, parse
from lookalike.config.keys import flattened
from lookalike.errors import BadInput
from lookalike.study.intervals import Interval, summarize
from lookalike.study.results import BaselineRow, MethodRow, StudyResults, Which, load_results
from lookalike.training import Run

__all__ = ["Contender", "Gathered", "gather"]

Scores = Mapping[str, float]
Cell = tuple[int, int]
"""Repeat and fold."""

BASELINES = {"raw-features": "raw features", "pca": "PCA", "lda": "LDA, shrunk"}


@dataclass(frozen=True)
class Contender:
    """One method on one data set: test scores by repeat and fold, and under which conditions."""

    name: str
    dataset: str
    config: RunConfig | None
    cells: Mapping[Cell, Scores]
    concatenated: Mapping[int, Scores]
    """By repeat: all folds' embeddings side by side; empty where there is one fold."""
    experiment: Experiment
    source: Path
    row: MethodRow | None = None
    runs: tuple[Run, ...] = ()
    dim: int | None = None

    @property
    def baseline(self) -> bool:
        """Whether nothing was trained."""
        return not self.experiment.trained

    @property
    def untouched(self) -> bool:
        """Whether this is the network as it was before any training."""
        raw = self.name.endswith(BASELINES["raw-features"])
        return self.baseline and (bool(self.runs) or raw)

    @property
    def has_one_embedding(self) -> bool:
        """Whether there is nothing to join: an untrained network is the same in every fold."""
        return self.baseline and not self.concatenated

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(next(iter(self.cells.values()), {}))

    def blocks(self, metric: str, which: Which = "separate") -> dict[Cell, float]:
        """The score of each block: of each model, or of each repeat's joined embedding."""
        if which == "concatenated" and not self.has_one_embedding:
            return {(r, 0): s[metric] for r, s in self.concatenated.items() if metric in s}
        return {cell: scores[metric] for cell, scores in self.cells.items() if metric in scores}

    def interval(self, metric: str, which: Which = "separate") -> Interval | None:
        """Over repeats (the mean of a repeat's folds), of one repeat over its folds.

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
class Gathered:
    """Everything that was found in the folders given."""

    contenders: tuple[Contender, ...]
    studies: tuple[StudyResults, ...] = ()
    skipped: tuple[str, ...] = field(default=())
    """Sentences about what was left out, and why."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set, in the order met."""
        return tuple(dict.fromkeys(one.dataset for one in self.contenders))

    def of(self, dataset: str) -> tuple[Contender, ...]:
        """Who was tested on ``dataset``."""
        return tuple(one for one in self.contenders if one.dataset == dataset)


def gather(folders: Sequence[Path], names: Mapping[Path, str] | None = None) -> Gathered:
    """Read studies, runs and folders of runs; refuse what is neither.

    ``names`` says what the runs in some folders shall be called.
    """
    studies: list[StudyResults] = []
    runs: list[Run] = []
    skipped: list[str] = []
    for folder in folders:
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
            _ = found[0].result  # says how to go on
        skipped += [f"'{run.folder}' is not finished and was left out" for run in unfinished]
        runs += [run for run in found if run.done]
    tested = [run for run in runs if "test" in run.result]
    skipped += [f"'{r.folder}' was not tested and was left out" for r in runs if r not in tested]
    several = len(studies) > 1
    contenders = [c for study in studies for c in _of_study(study, several)]
    contenders += _of_runs(tested, names or {})
    contenders = _distinct(contenders)
    if not contenders:
        reason = f" ({skipped[0]})" if skipped else ""
        raise BadInput(f"there is nothing with test scores to compare{reason}")
    return Gathered(tuple(contenders), tuple(studies), tuple(skipped))


def _runs_in(folder: Path) -> list[Run]:
    if (folder / "config.yaml").is_file():
        return [Run(folder)]
    for place in (folder, folder / "runs"):
        inside = sorted(path.parent for path in place.glob("*/config.yaml"))
        if inside:
            return [Run(path) for path in inside]
    return []


def _of_study(study: StudyResults, several: bool) -> Iterable[Contender]:
    start = f"{study.name}: " if several else ""
    for row in study.rows:
        if row.repeats:
            yield _of_row(row, study, start)
    for baseline in study.baselines:
        yield _of_baseline(baseline, study, start)


def _of_row(row: MethodRow, study: StudyResults, start: str) -> Contender:
    config = parse(row.config, f"{study.folder}: {row.method}")
    cells = {
        (repeat.number, fold): scores
        for repeat in row.repeats
        for fold, scores in enumerate(repeat.separate)
    }
    joined = {r.number: r.concatenated for r in row.repeats if len(r.separate) > 1}
    name = start + row.method
    fingerprint = study.facts.get(row.dataset, {}).get("fingerprint")
    conditions = conditions_of(config, trials=len(row.trials), seeds=row.seeds)
    return Contender(
        name=name,
        dataset=row.dataset,
        config=config,
        cells=cells,
        concatenated=joined,
        experiment=Experiment(
            name,
            _with_data(conditions, fingerprint),
            tuned=tuned_conditions(row.tuned),
            trained=config.train.epochs > 0,
            folds=max((len(repeat.separate) for repeat in row.repeats), default=1),
            outdated=row.outdated,
        ),
        source=study.folder,
        row=row,
        dim=config.model.dim,
    )


def _of_baseline(row: BaselineRow, study: StudyResults, start: str) -> Contender:
    """A baseline under the conditions of its study's methods: same images, same network."""
    name = start + BASELINES.get(row.baseline, row.baseline)
    of_methods = study.of(row.dataset)
    config = parse(of_methods[0].config, str(study.folder)) if of_methods else None
    conditions = conditions_of(config) if config else {"data": row.dataset}
    fingerprint = study.facts.get(row.dataset, {}).get("fingerprint")
    return Contender(
        name=name,
        dataset=row.dataset,
        config=config,
        cells={(0, f): scores for f, scores in enumerate(row.separate or (row.concatenated,))},
        concatenated={0: row.concatenated} if len(row.separate) > 1 else {},
        experiment=Experiment(name, _with_data(conditions, fingerprint), trained=False),
        source=study.folder,
        dim=row.dim,
    )


def _of_runs(runs: Sequence[Run], names: Mapping[Path, str]) -> list[Contender]:
    """Runs that differ in seed and fold alone are repeats of one method."""
    groups: dict[str, list[tuple[Run, RunConfig]]] = {}
    for run in runs:
        config = run.config
        values = config.identity()
        del values["seed"], values["protocol"]["fold"]
        wish = names.get(run.folder)
        key = json.dumps([values, run.result["data_fingerprint"], wish], sort_keys=True)
        groups.setdefault(key, []).append((run, config))
    return [_of_group(group, names) for group in groups.values()]


def _of_group(group: Sequence[tuple[Run, RunConfig]], names: Mapping[Path, str]) -> Contender:
    config = group[0][1]
    seeds = sorted({one.seed for _, one in group})
    cells = {(seeds.index(one.seed), one.protocol.fold): run.result["test"] for run, one in group}
    fingerprint = group[0][0].result["data_fingerprint"]
    conditions = _with_data(conditions_of(config, seeds=len(seeds)), fingerprint)
    if (config.train.patience, config.train.patience_epochs) == (None, None):
        # epochs of different samplers may differ in length
        conditions["steps"] = max(int(run.result.get("steps", 0)) for run, _ in group) or None
    name = names.get(group[0][0].folder, method_name(config))
    return Contender(
        name=name,
        dataset=config.data.name,
        config=config,
        cells=cells,
        concatenated={},
        experiment=Experiment(
            name,
            conditions,
            trained=config.train.epochs > 0,
            folds=len({fold for _, fold in cells}),
        ),
        source=group[0][0].folder,
        runs=tuple(run for run, _ in group),
        dim=config.model.dim,
    )


def _with_data(conditions: Mapping[str, Any], fingerprint: str | None) -> dict[str, Any]:
    """Two folders of one name may hold different images."""
    content = f" ({fingerprint[:8]})" if fingerprint else ""
    return {**conditions, "data": f"{conditions['data']}{content}"}


def _distinct(contenders: Sequence[Contender]) -> list[Contender]:
    """Equal names on one data set get what sets them apart behind them."""
    found = []
    for one in contenders:
        alike = [c for c in contenders if (c.name, c.dataset) == (one.name, one.dataset)]
        if len(alike) == 1:
            found.append(one)
            continue
        name = f"{one.name} ({_apart(one, alike)})"
        while any(name == other.name for other in found):
            name += "'"
        found.append(replace(one, name=name, experiment=replace(one.experiment, name=name)))
    return found


def _apart(one: Contender, alike: Sequence[Contender]) -> str:
    if any(c.config is None for c in alike):
        return one.source.name
    flat = [flattened(c.config.identity()) for c in alike if c.config]
    own = flattened(one.config.identity()) if one.config else {}
    keys = [
        key
        for key in dict.fromkeys(key for values in flat for key in values)
        if key not in ("seed", "protocol.fold")
        and len({json.dumps(values.get(key), sort_keys=True) for values in flat}) > 1
    ]
    shown = [f"{key}={own[key]}" for key in keys if key in own]
    return ", ".join(shown[:3]) or one.source.name
