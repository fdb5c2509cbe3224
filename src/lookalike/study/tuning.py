"""Which hyper-parameters come next, and which trials are hopeless.

Both are functions of the seed, the trial's number and the trials before it, and of nothing else: a
study that was killed and started again, or that has other workers, asks for the same trials.
"""

import hashlib
import itertools
import math
import statistics
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from lookalike.study.config import TunerConfig
from lookalike.study.ranges import SearchSpace, distribution, grid_values
from lookalike.study.results import Trial

__all__ = ["as_optuna", "chosen", "hopeless", "seen_by", "suggest", "trials_asked", "winner"]

STARTUP = 5
"""Random trials before a model of the past chooses, and complete ones before any is given up."""
DEFAULT_TRIALS = 20
STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


def trials_asked(tuner: TunerConfig, search: SearchSpace) -> int:
    """How many trials a method gets; none where there is nothing to search."""
    if not search:
        return 0
    if tuner.name != "grid":
        return tuner.trials or DEFAULT_TRIALS
    size = math.prod(len(grid_values(searched) or ()) for searched in search.values())
    return min(size, tuner.trials or size)


def seen_by(number: int, tuner: TunerConfig) -> int:
    """How many of the first trials a trial may learn from: those of earlier waves."""
    return number - number % tuner.at_once


def suggest(
    tuner: TunerConfig, search: SearchSpace, seed: int, number: int, history: Sequence[Trial]
) -> dict[str, Any]:
    """The hyper-parameters of trial ``number``; ``history`` are the trials of earlier waves.

    The grid is walked in an order drawn by ``seed``, so that a part of it is spread over it.
    """
    if tuner.name == "grid":
        return grid_point(search, seed, number)
    sampler = sampler_of(tuner, derived(seed, number))
    study = quietly_created(sampler)
    study.add_trials([as_optuna(trial, search) for trial in history])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        asked = study.ask({key: distribution(searched) for key, searched in search.items()})
    return dict(asked.params)


def hopeless(folds: Sequence[float], history: Sequence[Trial]) -> bool:
    """Whether a trial is to be given up after these folds.

    Its mean lies below the median, over the trials before it, of their means over the same folds;
    there must be ``STARTUP`` complete ones. (Median stopping: Golovin et al., KDD 2017.)
    """
    if sum(trial.state == "complete" for trial in history) < STARTUP:
        return False
    count = len(folds)
    others = [
        statistics.fmean(trial.folds[:count])
        for trial in history
        if trial.state != "failed" and len(trial.folds) >= count
    ]
    return statistics.fmean(folds) < statistics.median(others)


def winner(trials: Sequence[Trial]) -> Trial | None:
    """The complete trial of the best value, the first of equals; none where all failed."""
    complete = [trial for trial in trials if trial.value is not None]
    return max(complete, key=lambda t: (t.value or 0.0, -t.number), default=None)


def chosen(trials: Sequence[Trial], asked: int) -> Trial | None:
    """The winner; where there was nothing to try, the setting as it was given."""
    return winner(trials) if asked else Trial(0, {}, "complete", None, (), 0.0)


def as_optuna(trial: Trial, search: SearchSpace) -> FrozenTrial:
    """The same trial for Optuna; its steps are folds, with the mean so far."""
    means = [statistics.fmean(trial.folds[: n + 1]) for n in range(len(trial.folds))]
    return create_trial(
        state=STATES[trial.state],
        value=trial.value,
        params=trial.parameters,
        distributions={key: distribution(searched) for key, searched in search.items()},
        intermediate_values=dict(enumerate(means)) if trial.state != "failed" else {},
        user_attrs={"number": trial.number, "error": trial.error},
    )


def grid_point(search: SearchSpace, seed: int, number: int) -> dict[str, Any]:
    """Point ``number`` of the grid, in an order drawn by ``seed``."""
    values = [grid_values(searched) or [] for searched in search.values()]
    size = math.prod(len(column) for column in values)
    place = int(np.random.default_rng(seed).permutation(size)[number])
    point = next(itertools.islice(itertools.product(*values), place, None))
    return dict(zip(search, point, strict=True))


def sampler_of(tuner: TunerConfig, seed: int) -> BaseSampler:
    """Optuna's sampler, seeded for one trial."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if tuner.name == "random":
            return RandomSampler(seed=seed)
        if tuner.name == "gp":
            return GPSampler(seed=seed, n_startup_trials=STARTUP, deterministic_objective=False)
        return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)


def quietly_created(sampler: BaseSampler) -> optuna.Study:
    """A study in memory that says nothing."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=sampler)


def derived(*parts: object) -> int:
    """A seed from anything that can be written down."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "little")
