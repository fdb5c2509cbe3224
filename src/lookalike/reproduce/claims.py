"""Whether a document's claim held: yes, no, or not shown, decided by intervals.

A pair of methods is compared in every cell, that is at equal values of all other axes. With three
cells or more, the interval is that of the mean difference over cells; with fewer, that of the
difference of two means over seeds (Welch). One training of each shows nothing. Where a claim names
several pairs, their tests are corrected for their number (Holm).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Literal, Protocol

import numpy as np
from scipy import stats

from lookalike import published
from lookalike.compare.statistics import holm
from lookalike.evaluation.metrics import more_is_better
from lookalike.reproduce.catalogue import Claim
from lookalike.reproduce.scale import Scale
from lookalike.study.intervals import Interval, interval

__all__ = [
    "ClaimResult",
    "Correlation",
    "Difference",
    "Measured",
    "correlation",
    "difference",
    "judge",
]

Verdict = Literal["yes", "no", "not shown"]
FEW_CELLS = 3
CONFIDENCE = 0.95
RESAMPLES = 2000


class Measured(Protocol):
    """A row with its scores."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def axes(self) -> Mapping[str, str]:
        """The values of what varies besides the method."""

    @property
    def ours(self) -> Mapping[str, Interval]:
        """The scores over trainings, by metric."""

    @property
    def trainings(self) -> Sequence[Mapping[str, float]]:
        """The scores of each training, by metric."""

    @property
    def year(self) -> int | None:
        """The year of the method's paper."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim, and what became of it."""

    says: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Difference:
    """How much higher one value of an axis scores than another; the interval may be unknown."""

    mean: float
    low: float
    high: float
    cells: int
    p: float
    """Of the two-sided test whose interval this is."""

    @property
    def verdict(self) -> Verdict:
        """Whether the first is shown to be higher."""
        return _verdict(self.low, self.high)


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation over trainings, and an interval that resamples rows."""

    r: float
    low: float
    high: float
    trainings: int


def judge(
    claim: Claim, rows: Sequence[Measured], scale: Scale = "paper", dataset: str = ""
) -> ClaimResult:
    """Whether a claim held.

    Args:
        claim: What the document says.
        rows: Everything that was trained.
        scale: At small scale, nothing is compared with published numbers.
        dataset: The data set, to find what papers report.

    Returns:
        The verdict and its reason.
    """
    if claim.kind == "above_reported":
        verdict, evidence = _above_reported(claim, rows, scale, dataset)
    elif claim.axis == "network" and scale == "small":
        verdict, evidence = "not shown", "small networks stood in for the paper's"
    else:
        verdict, evidence = JUDGES[claim.kind](claim, rows)
    return ClaimResult(claim.says, verdict, evidence)


def difference(
    rows: Sequence[Measured], axis: str, first: str, second: str, metric: str
) -> Difference | None:
    """How much higher one value of an axis scores than another, in all cells that have both.

    Args:
        rows: Everything that was trained.
        axis: ``method``, or another axis.
        first: A value of the axis.
        second: Another.
        metric: The score.

    Returns:
        The mean difference with its interval; None where no cell has both.
    """
    cells = _cells(rows, axis, metric)
    pairs = [(c[first], c[second]) for c in cells if first in c and second in c]
    return _combined([_minus(a, b) for a, b in pairs])


def correlation(rows: Sequence[Measured], of: str, metric: str) -> Correlation | None:
    """How a metric, or the year, goes with the score over all trainings.

    Trainings of one row share their method, so the interval resamples rows, not trainings.

    Args:
        rows: Everything that was trained.
        of: A metric, or ``year``.
        metric: The score.

    Returns:
        The correlation; None where fewer than three rows have both.
    """
    groups = [group for row in rows if (group := _points(row, of, metric))]
    if len(groups) < 3:
        return None
    found = _pearson(groups)
    random = np.random.default_rng(0)
    drawn = (
        _pearson([groups[i] for i in random.integers(0, len(groups), len(groups))])
        for _ in range(RESAMPLES)
    )
    known = [r for r in drawn if not math.isnan(r)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known, [tail, 1 - tail]) if known else (math.nan, math.nan)
    return Correlation(found, float(low), float(high), sum(map(len, groups)))


def _verdict(low: float, high: float) -> Verdict:
    """Whether an interval lies above zero; one of NaN shows nothing."""
    if low > 0:
        return "yes"
    return "no" if high < 0 else "not shown"


def _points(row: Measured, of: str, metric: str) -> list[tuple[float, float]]:
    if of == "year":
        return [] if row.year is None else [(row.year, one[metric]) for one in row.trainings]
    return [(one[of], one[metric]) for one in row.trainings if of in one and metric in one]


def _pearson(groups: Sequence[Sequence[tuple[float, float]]]) -> float:
    x, y = np.array([point for group in groups for point in group]).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def _cells(rows: Sequence[Measured], axis: str, metric: str) -> list[dict[str, Interval]]:
    """For each combination of everything but the axis: the score of each of its values."""
    found: dict[tuple[str, ...], dict[str, Interval]] = {}
    for row in rows:
        values = {"method": row.method} | dict(row.axes)
        if metric not in row.ours or axis not in values:
            continue
        place = tuple(f"{key}={value}" for key, value in values.items() if key != axis)
        found.setdefault(place, {})[values[axis]] = row.ours[metric]
    return list(found.values())


@dataclass(frozen=True)
class _Estimate:
    """A number with its squared standard error and degrees of freedom; NaN where unknown."""

    value: float
    variance: float
    freedom: float


def _minus(a: Interval, b: Interval) -> _Estimate:
    """The difference of two means (Welch)."""
    if a.count < 2 or b.count < 2 or math.isnan(a.sd) or math.isnan(b.sd):
        return _Estimate(a.mean - b.mean, math.nan, math.nan)
    va, vb = a.sd**2 / a.count, b.sd**2 / b.count
    below = va**2 / (a.count - 1) + vb**2 / (b.count - 1)
    freedom = (va + vb) ** 2 / below if below else math.inf
    return _Estimate(a.mean - b.mean, va + vb, freedom)


def _combined(estimates: Sequence[_Estimate]) -> Difference | None:
    if not estimates:
        return None
    mean = fmean(one.value for one in estimates)
    count = len(estimates)
    if count >= FEW_CELLS:
        error = interval([one.value for one in estimates]).sd / math.sqrt(count)
        freedom: float = count - 1
    else:
        error = math.sqrt(sum(one.variance for one in estimates)) / count
        freedom = min(one.freedom for one in estimates)
    if math.isnan(error):
        return Difference(mean, math.nan, math.nan, count, math.nan)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    distance = abs(mean) / error if error else math.inf if mean else 0.0
    p = 2 * float(stats.t.sf(distance, freedom))
    return Difference(mean, mean - half, mean + half, count, p)


def _corrected(found: Sequence[Difference | None]) -> list[tuple[Verdict, float]]:
    """The verdict on each difference of a family, and its p-value by Holm; NaN: not tested."""
    known = [one for one in found if one is not None and not math.isnan(one.p)]
    adjusted = dict(zip(map(id, known), holm([one.p for one in known]), strict=True))
    verdicts: list[tuple[Verdict, float]] = []
    for one in found:
        p = math.nan if one is None else adjusted.get(id(one), math.nan)
        shown = one is not None and p < 1 - CONFIDENCE
        verdict: Verdict = "not shown"
        if one is not None and shown:
            verdict = "yes" if one.mean > 0 else "no"
        verdicts.append((verdict, p))
    return verdicts


def _pairs(
    claim: Claim, rows: Sequence[Measured], pairs: Sequence[tuple[str, str]]
) -> tuple[Verdict, str]:
    """Every pair shown: yes. One contradicted: no. Otherwise not shown."""
    found = [difference(rows, claim.axis, a, b, claim.metric) for a, b in pairs]
    corrected = _corrected(found)
    verdicts = [verdict for verdict, _ in corrected]
    texts = [
        _told(claim.metric, f"{a} - {b}", one, p if len(pairs) > 1 else math.nan)
        for (a, b), one, (_, p) in zip(pairs, found, corrected, strict=True)
    ]
    if len(texts) > 6:
        counts = {word: verdicts.count(word) for word in ("yes", "no", "not shown")}
        texts = [
            f"of {len(verdicts)} pairs, {counts['yes']} as claimed, {counts['no']} the other way, "
            f"{counts['not shown']} undecided"
        ]
    return _all(verdicts), "; ".join(texts)


def _all(verdicts: Sequence[str]) -> Verdict:
    if "no" in verdicts:
        return "no"
    return "yes" if verdicts and all(one == "yes" for one in verdicts) else "not shown"


def _told(metric: str, name: str, found: Difference | None, corrected: float = math.nan) -> str:
    """A difference in points with its interval and, of several, its corrected p-value."""
    if found is None:
        return f"{name}: not tested"
    points = 100 if more_is_better(metric) else 1
    text = f"{name}: {found.mean * points:+.2f}"
    if math.isnan(found.low):
        return f"{text} (one training each)"
    over = f", {found.cells} cells" if found.cells > 1 else ""
    text = f"{text} [{found.low * points:+.2f}, {found.high * points:+.2f}]{over}"
    return text if math.isnan(corrected) else f"{text}, p {corrected:.2g} (Holm)"


def _values(claim: Claim, rows: Sequence[Measured]) -> list[str]:
    values = ({"method": row.method} | dict(row.axes) for row in rows)
    return list(dict.fromkeys(one[claim.axis] for one in values if claim.axis in one))


def _neighbours(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    return pairwise(values)


def _order(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    return _pairs(claim, rows, list(_neighbours(claim.order)))


def _better(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    return _pairs(claim, rows, claim.better)


def _best(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    others = [value for value in _values(claim, rows) if value not in claim.best]
    verdict, told = _pairs(claim, rows, [(a, b) for a in claim.best for b in others])
    return verdict, f"{', '.join(claim.best)} above all others: {told}"


def _worst(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    others = [value for value in _values(claim, rows) if value not in claim.worst]
    verdict, told = _pairs(claim, rows, [(b, a) for a in claim.worst for b in others])
    return verdict, f"{', '.join(claim.worst)} below all others: {told}"


def _increases(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    """The last is higher than the first, and no step goes down."""
    values = claim.increases
    whole = difference(rows, claim.axis, values[-1], values[0], claim.metric)
    steps = [(b, a) for a, b in _neighbours(values)]
    found = [difference(rows, claim.axis, a, b, claim.metric) for a, b in steps]
    corrected = _corrected(found)
    fallen = any(verdict == "no" for verdict, _ in corrected)
    verdict: Verdict = "not shown" if whole is None else whole.verdict
    texts = [_told(claim.metric, f"{values[-1]} - {values[0]}", whole)]
    if len(steps) > 1:
        texts += [
            _told(claim.metric, f"{a} - {b}", one, p)
            for (a, b), one, (_, p) in zip(steps, found, corrected, strict=True)
        ]
    return ("no" if fallen else verdict), "; ".join(texts)


def _diminishing(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    """The first step gains more than the second."""
    a, b, c = claim.diminishing
    cells = [one for one in _cells(rows, claim.axis, claim.metric) if {a, b, c} <= set(one)]
    steps = [(_minus(one[b], one[a]), _minus(one[c], one[b])) for one in cells]
    estimates = [
        _Estimate(x.value - y.value, x.variance + y.variance, min(x.freedom, y.freedom))
        for x, y in steps
    ]
    found = _combined(estimates)
    name = f"({b} - {a}) - ({c} - {b})"
    return ("not shown" if found is None else found.verdict), _told(claim.metric, name, found)


def _differs(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    """An analysis of variance in each cell, with Bonferroni's correction."""
    groups: dict[tuple[str, ...], list[list[float]]] = {}
    for row in rows:
        if claim.differs in row.axes:
            rest = tuple(v for k, v in row.axes.items() if k != claim.differs)
            scores = [one[claim.metric] for one in row.trainings if claim.metric in one]
            groups.setdefault((row.method, *rest), []).append(scores)
    texts, least = [], math.inf
    for place, columns in groups.items():
        means = [fmean(one) for one in columns if one]
        if len(means) < 2:
            continue
        spread = f"{', '.join(place)}: {100 * (max(means) - min(means)):.2f} between best and worst"
        if all(len(one) > 1 for one in columns):
            p = float(stats.f_oneway(*columns).pvalue)
            least = min(least, p)
            spread += f", p {p:.2g}"
        texts.append(spread)
    return ("yes" if least * len(texts) < 1 - CONFIDENCE else "not shown"), "; ".join(texts)


def _saturates(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    """Most methods cannot be told from the best; uncorrected, as Holm would favour the claim."""
    known = [row for row in rows if claim.metric in row.ours]
    if len(known) < 2 or any(row.ours[claim.metric].count < 2 for row in known):
        return "not shown", "one training each"
    first = max(known, key=lambda row: row.ours[claim.metric].mean)
    found = [
        _combined([_minus(first.ours[claim.metric], row.ours[claim.metric])])
        for row in known
        if row is not first
    ]
    alike = sum(one is not None and one.verdict != "yes" for one in found)
    evidence = f"{alike} of {len(found)} methods cannot be told from the best, {first.method}"
    return ("yes" if 2 * alike >= len(found) else "no"), evidence


def _correlates(claim: Claim, rows: Sequence[Measured]) -> tuple[Verdict, str]:
    verdicts: list[str] = []
    texts = []
    for of, sign in claim.correlates.items():
        found = correlation(rows, of, claim.metric)
        if found is None or math.isnan(found.r):
            verdicts.append("not shown")
            texts.append(f"{of}: too few rows")
            continue
        texts.append(
            f"{of}: r {found.r:+.2f} [{found.low:+.2f}, {found.high:+.2f}], "
            f"{found.trainings} trainings"
        )
        if sign == "none":
            verdicts.append("no" if found.low > 0 else "yes")
        else:
            low, high = (found.low, found.high) if sign == "positive" else (-found.high, -found.low)
            verdicts.append(_verdict(low, high))
    return _all(verdicts), "; ".join(texts)


def _above_reported(
    claim: Claim, rows: Sequence[Measured], scale: Scale, dataset: str
) -> tuple[Verdict, str]:
    """Ours against the median of what papers report for the same method."""
    if scale == "small":
        return "not shown", "another network and other images than in the papers"
    verdicts, texts = [], []
    for method in claim.above_reported:
        reported = [
            row.value
            for row in published.load(metric=claim.metric)
            if row.reported_by and row.value is not None and row.part == "test"
            if (row.method, row.dataset) == (method, dataset)
        ]
        ours = next((r.ours[claim.metric] for r in rows if r.method == method), None)
        if not reported or ours is None:
            verdicts.append("not shown")
            texts.append(f"{method}: nothing to compare")
            continue
        middle = median(reported) / 100
        verdicts.append(_verdict(ours.low - middle, ours.high - middle))
        texts.append(
            f"{method}: {100 * ours.mean:.2f}, and {len(reported)} papers report "
            f"{100 * middle:.2f} (median)"
        )
    return _all(verdicts), "; ".join(texts)


JUDGES: dict[str, Callable[[Claim, Sequence[Measured]], tuple[Verdict, str]]] = {
    "order": _order,
    "better": _better,
    "best": _best,
    "worst": _worst,
    "increases": _increases,
    "diminishing": _diminishing,
    "differs": _differs,
    "saturates": _saturates,
    "correlates": _correlates,
}
