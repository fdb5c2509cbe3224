"""The hyper-parameters of the trials: each alone, in pairs, and the importance of each."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import optuna
from scipy.interpolate import griddata
from scipy.spatial import QhullError

from lookalike.compare.contenders import MethodResult
from lookalike.study.results import MethodRow, Trial

GRID = 25
MOST_CONTOURS = 3
FEWEST_FOR_CONTOUR = 6
FEWEST_FOR_IMPORTANCE = 4
DECADES = 1.0


@dataclass(frozen=True)
class Parameter:
    """The values of one hyper-parameter over the complete trials."""

    name: str
    values: list[float | str]
    log: bool
    importance: float | None
    """Its share of the variance of the score, as functional ANOVA estimates it."""


@dataclass(frozen=True)
class Contour:
    """The validation score over two hyper-parameters, interpolated between trials."""

    x: str
    y: str
    xs: list[float]
    ys: list[float]
    scores: list[list[float | None]]


@dataclass(frozen=True)
class Tuning:
    """The complete trials of one method, in their order."""

    method: str
    numbers: list[int]
    scores: list[float]
    best: int
    """The position of the winner among them: of equal scores the first."""
    tied: int
    """How many have the winner's score, itself too."""
    parameters: list[Parameter]
    contours: list[Contour]
    failed: int
    pruned: int
    errors: list[str]


def tunings(contenders: Sequence[MethodResult]) -> list[Tuning]:
    """One for each method that was tuned."""
    found = []
    for one in contenders:
        done = [trial for trial in one.row.trials if trial.value is not None] if one.row else []
        if one.row and any(trial.parameters for trial in done):
            found.append(_tuning(one.name, one.row, done))
    return found


def _tuning(name: str, row: MethodRow, done: Sequence[Trial]) -> Tuning:
    scores = [float(trial.value or 0) for trial in done]
    keys = list(dict.fromkeys(key for trial in done for key in trial.parameters))
    shares = _importances(done, keys)
    parameters = [_parameter(key, done, shares.get(key)) for key in keys]
    parameters.sort(key=lambda one: -(one.importance or 0))
    return Tuning(
        method=name,
        numbers=[trial.number for trial in done],
        scores=scores,
        best=int(np.argmax(scores)),
        tied=scores.count(max(scores)),
        parameters=parameters,
        contours=_contours(parameters, scores),
        failed=row.failed,
        pruned=row.pruned,
        errors=sorted({trial.error for trial in row.trials if trial.error})[:5],
    )


def _parameter(key: str, done: Sequence[Trial], importance: float | None) -> Parameter:
    given = [trial.parameters.get(key) for trial in done]
    if not all(_is_number(value) for value in given):
        return Parameter(key, [str(value) for value in given], False, importance)
    numbers = [float(value) for value in given if value is not None]
    return Parameter(key, list(numbers), _by_powers(numbers), importance)


def _by_powers(numbers: Sequence[float]) -> bool:
    """Whether values are spread over powers of ten: most are far below the highest."""
    low, middle, high = min(numbers), float(np.median(numbers)), max(numbers)
    return low > 0 and math.log10(high / low) > DECADES and middle < high / 4


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _importances(done: Sequence[Trial], keys: Sequence[str]) -> dict[str, float]:
    """Functional ANOVA by Optuna (Hutter et al., ICML 2014); nothing from too few trials."""
    whole = [trial for trial in done if all(key in trial.parameters for key in keys)]
    if len(whole) < FEWEST_FOR_IMPORTANCE or len({trial.value for trial in whole}) < 2:
        return {}
    spaces = {key: _space([trial.parameters[key] for trial in whole]) for key in keys}
    varied = {key: space for key, space in spaces.items() if space is not None}
    if not varied:
        return {}
    numeric = {k: isinstance(s, optuna.distributions.FloatDistribution) for k, s in varied.items()}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for trial in whole:
            given = trial.parameters
            values = {k: float(given[k]) if numeric[k] else str(given[k]) for k in varied}
            study.add_trial(
                optuna.trial.create_trial(params=values, distributions=varied, value=trial.value)
            )
        evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=32, seed=0)
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {key: float(share) for key, share in shares.items()}


def _space(values: Sequence[Any]) -> Any:
    """Where the values come from; None if they are all the same."""
    if not all(_is_number(value) for value in values):
        choices = sorted({str(value) for value in values})
        return optuna.distributions.CategoricalDistribution(choices) if len(choices) > 1 else None
    low, high = float(min(values)), float(max(values))
    if low == high:
        return None
    return optuna.distributions.FloatDistribution(low, high, log=_by_powers(values))


def _contours(parameters: Sequence[Parameter], scores: Sequence[float]) -> list[Contour]:
    """The most important pairs of numbers."""
    if len(scores) < FEWEST_FOR_CONTOUR:
        return []
    varied = [one for one in parameters if len(set(one.values)) > 2]
    numeric = [one for one in varied if all(isinstance(v, float) for v in one.values)]
    pairs = combinations(numeric[:MOST_CONTOURS], 2)
    return [found for a, b in pairs if (found := _contour(a, b, scores)) is not None]


def _contour(a: Parameter, b: Parameter, scores: Sequence[float]) -> Contour | None:
    """Linear between trials; empty outside of them."""
    values = ((one, np.array(one.values, np.float64)) for one in (a, b))
    x, y = (np.log10(numbers) if one.log else numbers for one, numbers in values)
    unit = np.stack([(x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)], 1)
    across, down = np.meshgrid(np.linspace(0, 1, GRID), np.linspace(0, 1, GRID))
    try:
        flat = griddata(unit, np.asarray(scores), (across, down), method="linear")
    except QhullError:  # all points on one line
        return None
    rows = [[None if math.isnan(v) else round(float(v), 5) for v in row] for row in flat]
    lines = ((one, np.linspace(v.min(), v.max(), GRID)) for one, v in ((a, x), (b, y)))
    xs, ys = ([float(f"{v:.6g}") for v in (10**line if one.log else line)] for one, line in lines)
    return Contour(a.name, b.name, xs, ys, rows)
