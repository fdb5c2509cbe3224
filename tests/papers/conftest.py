"""Synthetic outcomes of real entries of the catalogue: studies with made-up scores, on disk."""

import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lookalike.evaluation.class_table import ClassTable
from lookalike.papers.catalogue import entry
from lookalike.papers.plan import make_plan
from lookalike.papers.run import RUNS, outcome_of
from lookalike.study.results import (
    BaselineRow,
    MethodRow,
    PlannedRow,
    Repeat,
    RowClasses,
    StudyResults,
    Trial,
)

METRICS = ("recall@1", "recall@2", "map@r")
TRAINING = (
    "train-pi-ratio-cosine", "train-rho-spectrum@2", "train-pi-intra-cosine",
    "train-pi-inter-cosine",
)  # fmt: skip


def scores_of(rng, level):
    """Scores round a level; the density goes up and the spectral decay down with it."""
    noise = rng.normal(0, 0.01)
    found = {"recall@1": level, "recall@2": level + 0.1, "map@r": level / 2}
    found = {name: float(value + noise) for name, value in found.items()}
    found |= {"pi-ratio": level + float(rng.normal(0, 0.02)), "rho": 1 - level}
    others = ("pi-intra", "pi-inter", "alignment", "uniformity", "utilization", *TRAINING)
    return found | {name: float(rng.uniform(0.2, 0.9)) for name in others}


@pytest.fixture(scope="session")
def make_outcome(tmp_path_factory, save_study):
    """An outcome of an entry: the first row scores lowest, each further one a little higher."""

    def make(
        name,
        scale="paper",
        repeats=3,
        folds=1,
        trials=0,
        step=0.01,
        runs=None,
        keep=None,
        classes=False,
        base=0.30,
    ):
        rng = np.random.default_rng(0)
        one = entry(name)
        given = ["data.name=cub", "data.root=nowhere"] if one.photographs else []
        plan = make_plan(one, scale, given, repeats)
        plan = replace(plan, rows=plan.rows[:keep])
        command = f"lookalike reproduce {name} --scale {scale}"
        folder = tmp_path_factory.mktemp("study")
        (folder / RUNS).mkdir()
        found, kept = [], {}
        for at, row in enumerate(plan.rows):
            level = 0.4 + step * at
            own = runs[at] if runs else ()
            for run in own:
                if not (folder / RUNS / run.name).exists():
                    shutil.copytree(run, folder / RUNS / run.name)
            made = tuple(
                Repeat(
                    number=number,
                    seed=number,
                    validation=(level + 0.05,) * folds if _validates(row) else (),
                    separate=tuple(scores_of(rng, level) for _ in range(folds)),
                    concatenated=scores_of(rng, level + 0.1),
                    seconds=1.0,
                    runs=tuple(run.name for run in own) if number == 0 else (),
                )
                for number in range(repeats)
            )
            result = MethodRow(
                dataset=row.config.data.name,
                method=row.method,
                config=row.config.model_dump(mode="json"),
                tuned={"loss.margin": 0.2} if trials else {},
                validation=level,
                trials=tuple(tried(trials, level, folds)),
                repeats=made,
                repeats_asked=repeats,
                trials_asked=trials,
                metric="recall@1",
                axes=row.axes,
            )
            if classes:
                kept[result.dataset, result.label] = classes_of(rng, made)
            found.append(result)
        datasets = tuple(dict.fromkeys(row.dataset for row in found))
        planned = [PlannedRow(r.dataset, r.method, r.axes, trials, repeats, folds) for r in found]
        bases = [row for d in datasets for row in untrained(rng, d, folds, base)]
        results = StudyResults(
            folder, name, "recall@1", {}, tuple(planned), tuple(found), tuple(bases)
        )
        save_study(results, kept)
        return outcome_of(plan, folder, command)

    return make


def _validates(row):
    return row.config.protocol.name != "paper"


def classes_of(rng, repeats, number=20):
    """Scores per test class whose mean is the score of the training."""
    names, queries = tuple(f"class {n}" for n in range(number)), np.full(number, 30)
    level = rng.normal(0, 0.05, number)
    found = {}
    for repeat in repeats:
        for fold, scores in enumerate(repeat.separate):
            own = level + rng.normal(0, 0.01, number)
            values = scores["recall@1"] + own - own.mean()
            found[repeat.number, fold] = ClassTable(names, queries, ("recall@1",), values[:, None])
    return RowClasses(found)


def untrained(rng, dataset, folds, base):
    """The baselines of a study."""
    return [
        BaselineRow(dataset, name, 64, {}, (), (scores,) * folds, scores, 1.0)
        for name, level in (("raw-features", base), ("pca", base - 0.01))
        for scores in [scores_of(rng, level)]
    ]


def tried(number, level, folds=1):
    """Trials on a grid of margins and rates, the middle the best."""
    grid = list(itertools.product((0.1, 0.2, 0.3, 0.4, 0.5), (1e-5, 1e-4, 1e-3, 1e-2)))
    for at in range(number):
        margin, rate = grid[at % len(grid)]
        value = level - abs(margin - 0.3) / 10 - abs(np.log10(rate) + 4) / 50
        parameters = {"loss.margin": margin, "optim.lr": rate}
        yield Trial(at, parameters, "complete", float(value), (float(value),) * folds, 1.0)
