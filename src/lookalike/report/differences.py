"""The figure of differences to the best method, with both intervals."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from lookalike.compare.comparison import OnDataset
from lookalike.compare.uncertainty import Bounds, Difference, Scope
from lookalike.report.formatting import metric_label, signed, template

NARROW = 340
PLOT, VERDICT = 400, 230
LETTER = 7.6
"""The width of a letter of a label, at most."""
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
"""Points between two ticks."""

VERDICTS: dict[Scope, tuple[str, str, str]] = {
    "other classes": ("sure", "worse", "better"),
    "these trainings": ("narrow", "lower, these trainings only", "higher, these trainings only"),
    "these classes": ("narrow", "lower, these classes only", "higher, these classes only"),
    "open": ("open", "cannot be told apart", "cannot be told apart"),
}
"""By scope: the mark's class, and the words for a method below and above the best."""


@dataclass(frozen=True)
class DifferenceRow:
    """A method minus the best trained one, in units of the score."""

    name: str
    mean: float
    trainings: Bounds | None
    classes: Bounds | None
    kind: str
    verdict: str
    share: float | None
    """The share of bootstrap samples in which it scores higher than the best."""


def difference_rows(part: OnDataset) -> list[DifferenceRow]:
    """All methods but the best, from the nearest to it to the farthest."""
    return [_row(one, part.trained[0].name) for one in part.to_best]


def _row(one: Difference, best: str) -> DifferenceRow:
    below = one.better == best
    kind, worse, better = VERDICTS[one.scope]
    return DifferenceRow(
        name=one.worse if below else one.better,
        mean=-one.mean if below else one.mean,
        trainings=_turned(one.over_trainings, below),
        classes=_turned(one.over_classes, below),
        kind="above" if kind == "sure" and not below else kind,
        verdict=worse if below else better,
        share=None if one.share is None else 1 - one.share if below else one.share,
    )


def _turned(bounds: Bounds | None, turn: bool) -> Bounds | None:
    return Bounds(-bounds.high, -bounds.low) if bounds and turn else bounds


def difference_figure(
    part: OnDataset, metric: str, *, narrow: bool = False, alone: bool = False
) -> str:
    """The figure as SVG; ``narrow``: for a telephone; ``alone``: a file with its own style.

    Thick: the interval over trainings. Thin: over trainings x test classes.
    """
    rows = difference_rows(part)
    edges = [0.0] + [row.mean for row in rows]
    for bounds in [b for row in rows for b in (row.trainings, row.classes) if b is not None]:
        edges += [bounds.low, bounds.high]
    low, high = 100 * min(edges), 100 * max(edges)
    room = 0.03 * max(high - low, 0.1)
    low, high = low - room, high + room
    label = 0.0 if narrow else 16 + LETTER * max(len(row.name) for row in rows)
    plot = NARROW - 16 if narrow else PLOT
    left = 8.0 if narrow else label

    def x(points: float) -> float:
        return round(left + plot * (points - low) / (high - low), 1)

    most = 5 if narrow else 8
    decade = 10.0 ** math.ceil(math.log10((high - low) / most))
    step = next((s for s in TICKS if (high - low) / s <= most), decade)
    ticks = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    height, first = (46, 62) if narrow else (27, 52)
    drawn = []
    for place, row in enumerate(rows):
        y = first + height * place
        drawn.append(
            {
                "name": row.name,
                "verdict": _short(row.verdict) if narrow else row.verdict,
                "kind": row.kind,
                "y": y,
                "text": y - 18 if narrow else y + 5,
                "mean": x(100 * row.mean),
                "shown": signed(row.mean),
                "trainings": _line(row.trainings, x),
                "classes": _line(row.classes, x),
            }
        )
    bottom = first + height * len(rows) - (height // 2 if not narrow else 16)
    return template("differences.svg.j2").render(
        width=NARROW if narrow else round(label + plot + VERDICT + 24),
        height=bottom + (84 if narrow else 66),
        narrow=narrow,
        alone=alone,
        best=part.trained[0].name,
        label=f"points of {metric_label(metric)}",
        ticks=[{"x": x(tick), "shown": f"{tick:g}".replace("-", "−")} for tick in ticks],
        zero=x(0.0),
        start=left,
        end=left + plot,
        top=34,
        bottom=bottom,
        rows=drawn,
        legend=[line for line in (_thick(part), _thin(part)) if line],
    )


def _short(verdict: str) -> str:
    """The verdict beside a long name on a telephone; its sign says lower or higher."""
    return verdict.replace("cannot be told", "not told").rpartition(", ")[2]


def _thick(part: OnDataset) -> str:
    return f"thick: over {part.trainings} {_unit(part)}" if part.trainings > 1 else ""


def _unit(part: OnDataset) -> str:
    """What is repeated."""
    return "whole studies" if part.studies > 1 else "trainings"


def _thin(part: OnDataset) -> str:
    if not part.classes:
        return ""
    over = f"{_unit(part)} x " if part.trainings > 1 else ""
    return f"thin: over {over}{part.classes:,} test classes"


def _line(bounds: Bounds | None, x: Callable[[float], float]) -> dict[str, float] | None:
    if bounds is None:
        return None
    return {"start": x(100 * bounds.low), "end": x(100 * bounds.high)}
