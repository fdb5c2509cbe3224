"""Heat maps of an exhaustive search: the best validation score of each pair of values."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from lookalike.papers.outcome import OutcomeRow
from lookalike.study.results import Trial

__all__ = ["HeatMap", "heat_maps"]

MOST = 3
"""Heat maps of one row."""
SHARED = 2
"""A value of a grid is tried at least as often on average."""


@dataclass(frozen=True)
class HeatMap:
    """The best validation score at each pair of values, in per cent; None where none was tried."""

    title: str
    x: str
    y: str
    xs: list[str]
    ys: list[str]
    scores: list[list[float | None]]


def heat_maps(row: OutcomeRow) -> list[HeatMap]:
    """The heat maps of a row's trials.

    Args:
        row: A row whose hyper-parameters were searched for on a grid.

    Returns:
        One for each pair of hyper-parameters, three at most; none where values do not repeat,
        that is where no grid was searched.
    """
    done = [trial for trial in row.result.trials if trial.value is not None]
    keys = dict.fromkeys(key for trial in done for key in trial.parameters)
    values = {key: {_shown(trial.parameters.get(key)) for trial in done} for key in keys}
    varied = [key for key, there in values.items() if 1 < len(there) <= len(done) / SHARED]
    pairs = list(combinations(varied, 2))[:MOST]
    return [_heat_map(row.label, done, x, y) for x, y in pairs]


def _heat_map(label: str, done: list[Trial], x: str, y: str) -> HeatMap:
    best: dict[tuple[str, str], float] = {}
    for trial in done:
        place = (_shown(trial.parameters.get(x)), _shown(trial.parameters.get(y)))
        best[place] = max(best.get(place, 0.0), 100 * (trial.value or 0.0))
    xs, ys = (sorted({place[side] for place in best}, key=_by_size) for side in (0, 1))
    scores = [[best.get((a, b)) for a in xs] for b in ys]
    return HeatMap(f"{label}: {x} and {y}", x, y, xs, ys, scores)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _by_size(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), ""
    except ValueError:
        return True, 0.0, text
