"""The trials of each method, in Optuna's own plots: in order, importance, each parameter, pairs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import optuna
from optuna import visualization
from optuna.distributions import (
    BaseDistribution,
    CategoricalChoiceType,
    CategoricalDistribution,
    FloatDistribution,
)

from lookalike.compare.contenders import MethodResult
from lookalike.report.charts import Chart, colour, draw, escaped
from lookalike.study.results import MethodRow, Trial

MOST_SLICES = 8
MOST_CONTOURS = 3
FEWEST_FOR_CONTOUR = 6
FEWEST_FOR_IMPORTANCE = 4
SCORE = "validation score, %"
POWERS = {"type": "log", "dtick": 1, "exponentformat": "power"}


@dataclass(frozen=True)
class Tuning:
    """The complete trials of one method: how many, whether the best ones tie, and their plots."""

    method: str
    note: str
    tie: str
    overview: list[Chart]
    slices: list[Chart]
    contours: list[Chart]


def tunings(contenders: Sequence[MethodResult]) -> list[Tuning]:
    """One for each method that was tuned."""
    found = []
    for one in contenders:
        done = [trial for trial in one.row.trials if trial.value is not None] if one.row else []
        if one.row and any(trial.parameters for trial in done):
            with warnings.catch_warnings():  # of experimental or slow parts of Optuna
                warnings.simplefilter("ignore")
                found.append(_tuning(one.name, one.row, done))
    return found


def _tuning(name: str, row: MethodRow, done: Sequence[Trial]) -> Tuning:
    scores = [float(trial.value or 0) for trial in done]
    tied = scores.count(max(scores))
    errors = sorted({trial.error for trial in row.trials if trial.error})[:5]
    lost = ((row.pruned, "given up early"), (row.failed, "failed"))
    counts = [f"{len(done)} trials complete", *(f"{count} {what}" for count, what in lost if count)]
    note = ", ".join(counts) + (f". Failures: {'; '.join(errors)}." if errors else ".")
    tie = (
        f"{name}: {tied} of {len(scores)} trials have exactly the same best score, so the search "
        "did not choose between their settings."
    )
    study, varied = study_of(done), _varied(done)
    common = [key for key in varied if all(key in trial.parameters for trial in done)]
    history = visualization.plot_optimization_history(study, target_name=SCORE)
    overview = [draw("Trials in order", history.data, x="complete trial", y=SCORE)]
    shares: dict[str, float] = {}
    if common and len(done) >= FEWEST_FOR_IMPORTANCE and len(set(scores)) > 1:
        overview.append(_importance(study, common))
        bars = overview[-1].figure.data[0]
        shares = dict(zip(bars.y, bars.x, strict=True))
    order = sorted(varied, key=lambda key: -shares.get(escaped(key), 0))
    slices = [_slice(study, key) for key in order[:MOST_SLICES]]
    numbers = [k for k in order if k in common and all(_is_number(t.parameters[k]) for t in done)]
    pairs = [sorted(pair) for pair in combinations(numbers[:MOST_CONTOURS], 2)]
    contours = [_contour(study, pair) for pair in pairs if len(done) >= FEWEST_FOR_CONTOUR]
    return Tuning(name, note, tie if tied > 1 else "", overview, slices, contours)


def _varied(done: Sequence[Trial]) -> list[str]:
    """The parameters of which several values were tried."""
    keys = dict.fromkeys(key for trial in done for key in trial.parameters)
    return [key for key in keys if len({str(t.parameters.get(key)) for t in done}) > 1]


def study_of(done: Sequence[Trial]) -> optuna.Study:
    """The trials as a study of Optuna: scores in per cent, names escaped, as plots show them."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize")
    keys = dict.fromkeys(key for trial in done for key in trial.parameters)
    spaces = {key: _space([t.parameters[key] for t in done if key in t.parameters]) for key in keys}
    for trial in done:
        values: dict[str, CategoricalChoiceType] = {}
        for key, value in trial.parameters.items():
            number = isinstance(spaces[key], FloatDistribution)
            values[escaped(key)] = float(value) if number else escaped(str(value))
        made = optuna.trial.create_trial(
            params=values,
            distributions={escaped(key): spaces[key] for key in trial.parameters},
            value=100 * float(trial.value or 0),
        )
        study.add_trial(made)
    return study


def _space(values: Sequence[object]) -> BaseDistribution:
    """Where the values come from; numbers over more than a power of ten are shown by it."""
    if not all(map(_is_number, values)):
        return CategoricalDistribution(sorted({escaped(str(value)) for value in values}))
    numbers = np.array(values, float)
    low, high = float(numbers.min()), float(numbers.max())
    powers = 0 < 10 * low < high and float(np.median(numbers)) < high / 4
    return FloatDistribution(low, high, log=powers)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _importance(study: optuna.Study, keys: Sequence[str]) -> Chart:
    """The share of each parameter in the variance of the score.

    By functional ANOVA (Hutter et al., ICML 2014).
    """
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=32, seed=0)
    figure = visualization.plot_param_importances(
        study, evaluator=evaluator, params=[escaped(key) for key in keys]
    )
    figure.update_traces(marker={"color": colour("c0")})
    note = (
        "Share of the variance of the score, by functional ANOVA; with few trials only an "
        "indication."
    )
    across = {"range": [0, 1.1], "tickformat": ".0%", "nticks": 5}
    return draw("Importance", figure.data, xaxis=across, yaxis={"showgrid": False}, note=note)


def _slice(study: optuna.Study, key: str) -> Chart:
    figure = visualization.plot_slice(study, params=[escaped(key)], target_name=SCORE)
    dots = {"size": 8, "color": colour("c0"), "opacity": 0.75, "showscale": False}
    figure.update_traces(marker=dots | {"colorscale": None, "colorbar": None})
    across = POWERS if figure.layout.xaxis.type == "log" else {}
    return draw(key, figure.data, y="score, %", xaxis=across, height=190)


def _contour(study: optuna.Study, pair: Sequence[str]) -> Chart:
    a, b = pair
    figure = visualization.plot_contour(study, params=[escaped(a), escaped(b)])
    scale = [[0, colour("raised")], [1, colour("c2")]]
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": ""}}
    contour, dots = {"type": "contour"}, {"type": "scatter"}
    figure.update_traces(colorscale=scale, colorbar=bar, reversescale=False, selector=contour)
    figure.update_traces(marker={"color": colour("ink"), "size": 5}, selector=dots)
    across, upwards = (
        POWERS if figure.layout[side].type == "log" else {} for side in ("xaxis", "yaxis")
    )
    note = "Interpolated between the trials (dots)."
    return draw(f"{a} and {b}", figure.data, x=a, y=b, xaxis=across, yaxis=upwards, note=note)
