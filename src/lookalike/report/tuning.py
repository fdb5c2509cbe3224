"""The trials of each method, in Optuna's own plots: in order, importance, each parameter, pairs."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import optuna
import plotly.graph_objects as go
from optuna import visualization

from lookalike.compare.contenders import MethodResult
from lookalike.report.charts import Chart, chart, colour, escaped
from lookalike.study.results import MethodRow, Trial

MOST_SLICES = 8
MOST_CONTOURS = 3
FEWEST_FOR_CONTOUR = 6
FEWEST_FOR_IMPORTANCE = 4
DECADES = 1.0
SCORE = "validation score, %"


@dataclass(frozen=True)
class Tuning:
    """The complete trials of one method."""

    method: str
    note: str
    """How many there are, and what became of the others."""
    tie: str
    """A sentence where several have exactly the best score; else empty."""
    importances: dict[str, float]
    """Of each parameter: its share of the variance of the score, by functional ANOVA."""
    history: Chart
    importance: Chart | None
    slices: list[Chart]
    contours: list[Chart]


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
    tied = scores.count(max(scores))
    keys = list(dict.fromkeys(key for trial in done for key in trial.parameters))
    whole = [trial for trial in done if all(key in trial.parameters for key in keys)]
    varied = [k for k in keys if len({str(t.parameters.get(k)) for t in done}) > 1]
    study = study_of(done, keys)
    shares = _importances(study_of(whole, keys), varied, whole)
    order = sorted(varied, key=lambda key: -shares.get(key, 0))
    best = done[int(np.argmax(scores))]
    errors = sorted({trial.error for trial in row.trials if trial.error})[:5]
    lost = ((row.pruned, "given up early"), (row.failed, "failed"))
    note = ", ".join(
        [f"{len(done)} trials complete", *(f"{count} {what}" for count, what in lost if count)]
    )
    note += f". Failures: {'; '.join(errors)}." if errors else "."
    tie = (
        f"{name}: {tied} of {len(scores)} trials have exactly the same best score, so the search "
        "did not choose between their settings."
    )
    numbers = [k for k in order if all(_is_number(t.parameters.get(k)) for t in whole)]
    pairs = list(combinations([k for k in numbers if _values(whole, k) > 2][:3], 2))
    pairs = pairs[:MOST_CONTOURS] if len(whole) >= FEWEST_FOR_CONTOUR else []
    of_whole = study_of(whole, keys)
    return Tuning(
        method=name,
        note=note,
        tie=tie if tied > 1 else "",
        importances=shares,
        history=_history(study, best),
        importance=_importance(shares) if shares else None,
        slices=[_slice(study, key, best) for key in order[:MOST_SLICES]],
        contours=[_contour(of_whole, pair, best) for pair in pairs],
    )


def study_of(done: Sequence[Trial], keys: Sequence[str]) -> optuna.Study:
    """The trials as a study of Optuna, scores in per cent; keys are escaped, as plots show them."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tried = {key: [t.parameters[key] for t in done if key in t.parameters] for key in keys}
    spaces = {key: _space(values) for key, values in tried.items() if values}
    study = optuna.create_study(direction="maximize")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for trial in done:
            own = {key: value for key, value in trial.parameters.items() if key in spaces}
            study.add_trial(
                optuna.trial.create_trial(
                    params={escaped(key): _shown(value, spaces[key]) for key, value in own.items()},
                    distributions={escaped(key): spaces[key] for key in own},
                    value=100 * float(trial.value or 0),
                )
            )
    return study


def _space(values: Sequence[Any]) -> optuna.distributions.BaseDistribution:
    """Where the values come from."""
    if all(map(_is_number, values)):
        numbers = [float(value) for value in values]
        low, high = min(numbers), max(numbers)
        return optuna.distributions.FloatDistribution(low, high, log=_by_powers(numbers))
    choices = sorted({escaped(str(value)) for value in values})
    return optuna.distributions.CategoricalDistribution(choices)


def _shown(value: Any, space: optuna.distributions.BaseDistribution) -> float | str:
    numeric = isinstance(space, optuna.distributions.FloatDistribution)
    return float(value) if numeric else escaped(str(value))


def _by_powers(numbers: Sequence[float]) -> bool:
    """Whether values are spread over powers of ten: most are far below the highest."""
    low, middle, high = min(numbers), float(np.median(numbers)), max(numbers)
    return low > 0 and math.log10(high / low) > DECADES and middle < high / 4


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(trials: Sequence[Trial], key: str) -> int:
    """How many values of a parameter were tried."""
    return len({str(trial.parameters[key]) for trial in trials})


def _importances(
    study: optuna.Study, varied: Sequence[str], whole: Sequence[Trial]
) -> dict[str, float]:
    """Functional ANOVA (Hutter et al., ICML 2014); nothing from too few trials."""
    if len(whole) < FEWEST_FOR_IMPORTANCE or len({trial.value for trial in whole}) < 2:
        return {}
    names = {
        escaped(key): key for key in varied if len({str(t.parameters[key]) for t in whole}) > 1
    }
    if not names:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=32, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = optuna.importance.get_param_importances(
            study, evaluator=evaluator, params=list(names)
        )
    return {names[key]: float(share) for key, share in shares.items()}


def _in_theme(
    title: str, figure: go.Figure, ring: tuple[Any, Any], x: str, y: str, **more: Any
) -> Chart:
    """A plot of Optuna as a chart of the page, the chosen trial in a ring."""
    mark = {"symbol": "circle-open", "size": 15, "color": colour("ink"), "line": {"width": 1.5}}
    traces = [*figure.data, go.Scatter(x=[ring[0]], y=[ring[1]], mode="markers", marker=mark)]
    for trace in traces:
        trace.showlegend = False
    powers = {"type": "log", "dtick": 1, "exponentformat": "power"}
    axes = {
        side: powers if figure.layout[side].type == "log" else {} for side in ("xaxis", "yaxis")
    }
    return chart(title, traces, x=x, y=y, **(axes | more))


def _history(study: optuna.Study, best: Trial) -> Chart:
    figure = visualization.plot_optimization_history(study, target_name=SCORE)
    number = next(t.number for t in study.trials if t.value == 100 * float(best.value or 0))
    ring = (number, 100 * float(best.value or 0))
    return _in_theme("Trials in order", figure, ring, "complete trial", SCORE)


def _importance(shares: dict[str, float]) -> Chart:
    order = sorted(shares, key=lambda key: shares[key])
    bars = go.Bar(
        x=[100 * shares[key] for key in order],
        y=[escaped(key) for key in order],
        orientation="h",
        marker={"color": colour("c0")},
        hovertemplate="%{y}: %{x:.0f} %<extra></extra>",
    )
    note = (
        "Share of the variance of the score, by functional ANOVA; with few trials only an "
        "indication."
    )
    across = {"range": [0, 100], "ticksuffix": " %", "nticks": 5}
    return chart("Importance", [bars], xaxis=across, yaxis={"showgrid": False}, note=note)


def _slice(study: optuna.Study, key: str, best: Trial) -> Chart:
    figure = visualization.plot_slice(study, params=[escaped(key)], target_name=SCORE)
    dots = {"size": 8, "color": colour("c0"), "opacity": 0.75, "showscale": False}
    figure.update_traces(marker=dots | {"colorscale": None, "colorbar": None})
    space = next(t.distributions[escaped(key)] for t in study.trials if escaped(key) in t.params)
    ring = (_shown(best.parameters[key], space) if key in best.parameters else None, best.value)
    ring = (ring[0], 100 * float(ring[1] or 0))
    return _in_theme(key, figure, ring, "", "score, %", height=190)


def _contour(study: optuna.Study, pair: tuple[str, str], best: Trial) -> Chart:
    a, b = sorted(pair, key=escaped)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = visualization.plot_contour(study, params=[escaped(a), escaped(b)])
    scale = [[0, colour("raised")], [1, colour("c2")]]
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": ""}}
    figure.update_traces(
        colorscale=scale, colorbar=bar, reversescale=False, selector={"type": "contour"}
    )
    figure.update_traces(marker={"color": colour("ink"), "size": 5}, selector={"type": "scatter"})
    ring = (best.parameters.get(a), best.parameters.get(b))
    note = "Interpolated between the trials (dots)."
    return _in_theme(f"{a} and {b}", figure, ring, a, b, note=note)
