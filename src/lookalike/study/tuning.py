"""Search spaces, the hyper-parameters of the next trial, and which trials are pruned.

A suggestion is a function of the seed, the trial's number and the trials before it, and of nothing
else: a study that was killed and resumed, or that has more workers, runs the same trials.
"""

import hashlib
import math
import statistics
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial
from pydantic import BeforeValidator, Field, model_validator

from lookalike.config.schema import Section
from lookalike.study.results import Trial

STARTUP = 5
"""Random trials before the sampler's model is used, and complete ones before any is pruned."""
DEFAULT_TRIALS = 20
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


class Range(Section):
    """Numbers from ``low`` to ``high``, both included.

    ``log``: even on a logarithmic scale. ``step``: only ``low``, ``low + step``, ... ``whole``:
    only whole numbers.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    @model_validator(mode="after")
    def check(self) -> "Range":
        """Refuse what cannot be searched."""
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range begins above 0, not at {self.low}")
        if self.step is not None and (self.log or self.step <= 0):
            raise ValueError("step must be above 0, and a logarithmic range has none")
        if self.whole and any(n % 1 for n in (self.low, self.high, self.step or 1)):
            raise ValueError("a range of whole numbers begins, ends and steps by whole numbers")
        return self

    @property
    def ends(self) -> list[Any]:
        """The least and the greatest value."""
        numbers = [self.low, self.high]
        return [int(number) for number in numbers] if self.whole else numbers

    @property
    def distribution(self) -> BaseDistribution:
        """The same range for Optuna."""
        if self.whole:
            low, high, step = int(self.low), int(self.high), int(self.step or 1)
            return IntDistribution(low, high, log=self.log, step=step)
        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)


class Choices(Section):
    """One of several values."""

    choices: tuple[bool | int | float | str | None, ...]

    @property
    def ends(self) -> list[Any]:
        """All values."""
        return list(self.choices)

    @property
    def distribution(self) -> BaseDistribution:
        """The same choices for Optuna."""
        return CategoricalDistribution(self.choices)


def _parse_searched(value: Any) -> Any:
    """``[0, 1]`` is short for ``{low: 0, high: 1}``; a key decides which model reports errors."""
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError("a range is [low, high]; write {choices: [...]} to list values")
        value = {"low": value[0], "high": value[1]}
    if isinstance(value, dict):
        return (Choices if "choices" in value else Range).model_validate(value)
    return value


Searched: TypeAlias = Annotated[Range | Choices, BeforeValidator(_parse_searched)]
SearchSpace: TypeAlias = dict[str, Searched]


class TunerConfig(Section):
    """How hyper-parameters are searched."""

    name: Literal["tpe", "gp", "random", "grid"] = "tpe"
    trials: int | None = Field(
        None, ge=1, description="trials per method; if not given, 20 or the whole grid"
    )
    prune: bool = Field(True, description="stop a trial after a fold if it is below the median")
    at_once: int = Field(1, ge=1, description="trials of one method that do not see each other")


def grid_values(searched: Range | Choices) -> list[Any] | None:
    """Every value of a grid over a range or choices; None where a range has no step.

    >>> grid_values(Range(low=0.0, high=0.3, step=0.1))
    [0.0, 0.1, 0.2, 0.3]
    """
    if isinstance(searched, Choices):
        return list(searched.choices)
    step = searched.step or (1 if searched.whole and not searched.log else None)
    if step is None:
        return None
    count = int((searched.high - searched.low) / step + 1e-9) + 1
    values = [round(searched.low + number * step, 12) for number in range(count)]
    return [int(value) for value in values] if searched.whole else values


def trials_asked(tuner: TunerConfig, search: SearchSpace) -> int:
    """The number of trials of a method; 0 where there is nothing to search."""
    if not search:
        return 0
    if tuner.name != "grid":
        return tuner.trials or DEFAULT_TRIALS
    size = math.prod(len(grid_values(searched) or ()) for searched in search.values())
    return min(size, tuner.trials or size)


def visible_trials(number: int, tuner: TunerConfig) -> int:
    """How many of the first trials a trial may learn from: those of earlier waves.

    The points of a grid do not depend on each other, unless they are pruned.
    """
    if tuner.name == "grid" and not tuner.prune:
        return 0
    return number - number % tuner.at_once


def suggest(
    tuner: TunerConfig, search: SearchSpace, seed: int, number: int, history: Sequence[Trial]
) -> dict[str, Any]:
    """The hyper-parameters of trial ``number``; ``history`` are the trials of earlier waves."""
    if tuner.name == "grid":
        return _grid_point(search, seed, number)
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = _sampler(tuner, seed=int.from_bytes(digest[:4], "little"))
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials([to_optuna(trial, search) for trial in history])
        asked = study.ask({key: searched.distribution for key, searched in search.items()})
    return dict(asked.params)


def _sampler(tuner: TunerConfig, seed: int) -> BaseSampler:
    if tuner.name == "random":
        return RandomSampler(seed=seed)
    if tuner.name == "gp":
        return GPSampler(seed=seed, n_startup_trials=STARTUP, deterministic_objective=False)
    return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True)


def _grid_point(search: SearchSpace, seed: int, number: int) -> dict[str, Any]:
    """Point ``number`` of the grid in a random order, so that a part of it covers all of it."""
    values = {key: grid_values(searched) or [] for key, searched in search.items()}
    sizes = tuple(len(column) for column in values.values())
    place = _grid_order(seed, math.prod(sizes))[number]
    return {
        key: column[at]
        for (key, column), at in zip(values.items(), np.unravel_index(place, sizes), strict=True)
    }


@lru_cache(maxsize=16)
def _grid_order(seed: int, size: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(size)


def should_prune(folds: Sequence[float], history: Sequence[Trial]) -> bool:
    """Whether a trial is stopped after these folds.

    Its mean is below the median, over the trials before it, of their means over the same folds;
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


def to_optuna(trial: Trial, search: SearchSpace) -> FrozenTrial:
    """The same trial for Optuna; its steps are folds, with the mean so far."""
    means = [statistics.fmean(trial.folds[: n + 1]) for n in range(len(trial.folds))]
    return create_trial(
        state=STATES[trial.state],
        value=trial.value,
        params=trial.parameters,
        distributions={key: searched.distribution for key, searched in search.items()},
        intermediate_values=dict(enumerate(means)) if trial.state != "failed" else {},
        user_attrs={"number": trial.number, "error": trial.error},
    )
