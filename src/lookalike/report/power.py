"""The smallest difference that a study sees: a sentence, and a figure for larger ones."""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from lookalike.compare.comparison import OnDataset
from lookalike.compare.power import POWER, Variances, variances
from lookalike.report.formatting import metric_label, template

TRAININGS = (2, 5, 10, 50)
WIDE, NARROW, HEIGHT = 640, 340, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 92, 16, 46


def typical_variances(part: OnDataset) -> Variances | None:
    """The median of each part of the variance, over the pairs of the best and another method."""
    others = {one.name for one in part.trained}
    pairs = [one for one in part.to_best if {one.better, one.worse} <= others]
    known = [found for one in pairs if (found := variances(part.sample, one)) is not None]
    if not known:
        return None
    trainings = [one.trainings for one in known if one.trainings is not None]
    return Variances(
        median(trainings) if trainings else None,
        median(one.classes for one in known),
        median(one.both for one in known),
    )


def power_sentence(part: OnDataset) -> str:
    """The smallest true difference that a study like this one sees; empty where it is unknown."""
    typical = typical_variances(part)
    if typical is None or not part.classes:
        return ""
    count = len(part.differences)
    points = 100 * float(typical.detectable(part.trainings, part.classes, count))
    return (
        f"A study like this one tells a true difference of {points:.1f} points in "
        f"{100 * POWER:.0f} % of cases (by the median variance of the differences to the best)."
    )


def power_figure(part: OnDataset, metric: str, *, narrow: bool = False) -> str | None:
    """The smallest difference that would be told, by the number of test classes and trainings.

    As SVG; None where scores per class were not kept or do not vary, or one method was trained.
    """
    typical = typical_variances(part)
    if typical is None or not part.classes:
        return None
    pairs = len(part.differences)
    classes = np.unique(np.geomspace(10, max(3000, 4 * part.classes), 60).round())
    counts: Sequence[int] = (1,)
    if typical.trainings is not None:
        counts = sorted({*TRAININGS, part.trainings})
    curves = {n: 100 * typical.detectable(n, classes, pairs) for n in counts}
    here = 100 * float(typical.detectable(part.trainings, part.classes, pairs))
    if here == 0:  # the same scores on every class
        return None
    shown = [values for n, values in curves.items() if n >= min(part.trainings, 5)]
    top = 1.1 * max(here * 2, min(3 * here, float(np.max(shown))))
    width = NARROW if narrow else WIDE

    def x(number: float) -> float:
        share = math.log(number / classes[0]) / math.log(classes[-1] / classes[0])
        return round(LEFT + (width - LEFT - RIGHT) * share, 1)

    def y(points: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - points / top), 1)

    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if top / s <= 6)
    lines = []
    for n, values in curves.items():
        inside = [(c, v) for c, v in zip(classes, values, strict=True) if v <= top]
        if inside:
            points = " ".join(f"{x(c)},{y(v)}" for c, v in inside)
            now = n == part.trainings
            lines.append({"points": points, "n": n, "now": now, "end": y(inside[-1][1])})
    _space_labels(lines)
    named = (10, 100, 1000, 10_000) if narrow else (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
    marks = [n for n in named if n <= classes[-1]]
    return template("power.svg.j2").render(
        width=width,
        height=HEIGHT,
        metric=metric_label(metric),
        power=f"{POWER:.0%}".replace("%", " %"),
        left=LEFT,
        right=width - RIGHT,
        bottom=HEIGHT - BOTTOM,
        across=[{"x": x(n), "shown": f"{n:,}"} for n in marks],
        up=[{"y": y(step * i), "shown": f"{step * i:g}"} for i in range(int(top / step) + 1)],
        lines=lines,
        one=typical.trainings is None,
        here={"x": x(part.classes), "y": y(here), "shown": f"{here:.1f}"},
    )


def _space_labels(lines: list[dict[str, object]], apart: float = 15) -> None:
    """Move the labels at the ends of lines so that none covers another; the lowest stays."""
    last = math.inf
    for line in sorted(lines, key=lambda one: -float(str(one["end"]))):
        last = min(float(str(line["end"])), last - apart)
        line["label"] = round(last + 4, 1)
