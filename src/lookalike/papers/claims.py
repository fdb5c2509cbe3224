"""Whether a document's claim held: yes, no, or not shown, and for what.

Every claim is taken apart into differences between scores and the limits between which they are
said to lie: "better" is a difference above 0, "the same" one between -1 and +1 points, "large" one
above 2 points. A difference is shown to be above a limit by the rule of ``lookalike compare``
(:mod:`lookalike.compare.uncertainty`), applied to the difference minus the limit: the 95 % interval
over training runs and test classes excludes zero, and the tests over both agree after Holm's
correction for everything that the claim compares. So sameness needs two one-sided tests (at 2.5 %
each), and differences that cannot be told from zero do not show it.

A verdict holds for other test classes too, or, if the classes may decide it, for these only.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean, median
from typing import Literal, NamedTuple, Protocol

import numpy as np
from scipy import stats

from lookalike import published
from lookalike.compare.contenders import MethodResult, sample_of
from lookalike.compare.uncertainty import (
    RESAMPLES,
    Difference,
    Sample,
    Scope,
    differences,
)
from lookalike.papers.catalogue import Claim
from lookalike.published import Published

__all__ = ["METRIC", "ClaimResult", "Correlation", "Measured", "Printed", "correlation", "judge"]

Verdict = Literal["yes", "no", "not shown"]
METRIC = "recall@1"
"""What every document claims something of."""
CONFIDENCE = 0.95
SCOPES: tuple[Scope, ...] = ("generalizes", "these training runs", "this test set")
"""What a verdict may hold for, the most first."""
VERDICTS: dict[Verdict, str] = {"yes": "held", "no": "did not hold", "not shown": "not shown"}
HOLDS_FOR: dict[Scope, str] = {
    "generalizes": "(other test classes too)",
    "these training runs": "(these training runs only)",
    "this test set": "(this test set only)",
}
FEWEST_ROWS = 4
"""With fewer, a correlation has no interval."""
MOST_TOLD = 6
"""Differences of one claim that are told one by one."""
ZERO = "zero"


class Printed(Protocol):
    """A row of a document's table."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def axes(self) -> Mapping[str, str]:
        """The values of what varies besides the method."""

    @property
    def year(self) -> int | None:
        """The year of the method's paper."""

    @property
    def dataset(self) -> str:
        """The data set of the papers whose numbers may stand beside; empty: there is none."""

    @property
    def published(self) -> Mapping[str, Published]:
        """What the document prints, by metric, in per cent."""


class Measured(Printed, Protocol):
    """A row that was trained."""

    @property
    def contender(self) -> MethodResult | None:
        """Its scores by training and test class, under a name of its own."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim, and what became of it.

    Attributes:
        says: The words of the document.
        verdict: Whether it held here.
        scope: What the verdict holds for; empty where it is not shown.
        evidence: The numbers behind it.
        published: Whether the numbers that the document prints agree with its words; None where it
            prints none. Nothing is tested: printed numbers have no intervals.
    """

    says: str
    verdict: Verdict
    scope: Scope | Literal[""]
    evidence: str
    published: Literal["yes", "no"] | None = None

    @property
    def here(self) -> str:
        """The verdict in words, with what it holds for."""
        return VERDICTS[self.verdict] + (f" {HOLDS_FOR[self.scope]}" if self.scope else "")


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation over rows, each the mean of its trainings, with Fisher's interval."""

    r: float
    low: float
    high: float
    rows: int


class Place(NamedTuple):
    """A row as a point: where it is, and its score as a fraction."""

    at: Mapping[str, str]
    score: float
    dataset: str = ""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of rows' scores, and the limits between which a claim puts it.

    Attributes:
        name: What is subtracted from what.
        weights: By number of the row; empty where a row is missing.
        least: The lower limit, as a fraction.
        most: The upper limit.
        cells: How many combinations of the other axes it is the mean of.
        of_these_classes: Whether a limit was measured on the same test classes, so that other
            classes are no question.
    """

    name: str
    weights: Mapping[int, float]
    least: float | None = 0.0
    most: float | None = None
    cells: int = 1
    of_these_classes: bool = False

    @property
    def limits(self) -> Iterator[tuple[int, float]]:
        """What is to be above zero: ``sign * (difference - limit)``."""
        if self.least is not None:
            yield 1, self.least
        if self.most is not None:
            yield -1, self.most

    @property
    def wanted(self) -> str:
        """The limits in words; empty for "above zero"."""
        if self.most is None:
            return "" if self.least == 0 else f"above {_points(self.least or 0)}"
        if self.least is None:
            return f"below {_points(self.most)}"
        return f"between {_points(self.least)} and {_points(self.most)}"


@dataclass(frozen=True)
class Answer:
    """Whether a difference lies between its limits: 1 yes, -1 no, 0 open, for what, and why."""

    shown: int
    scope: Scope
    told: str = ""

    def at(self, scopes: Sequence[Scope]) -> int:
        """What is shown for one of ``scopes``."""
        return self.shown if self.scope in scopes else 0


def judge(
    claim: Claim,
    rows: Sequence[Measured],
    printed: Sequence[Printed] = (),
    resamples: int = RESAMPLES,
) -> ClaimResult:
    """Whether a claim held.

    Args:
        claim: What the document says.
        rows: Everything that was trained.
        printed: The rows of the document, with its own numbers.
        resamples: Bootstrap samples over trainings and test classes.

    Returns:
        The verdict, what it holds for, its reason, and whether the document's own numbers agree.
    """
    if claim.correlates:
        answers = [_correlates(claim, of, rows) for of in claim.correlates]
    else:
        known = [row for row in rows if row.contender and METRIC in row.contender.metrics]
        places = [Place(_at(row), _mean(row), row.dataset) for row in known]
        answers = _answers(_contrasts(claim, places), known, resamples)
    verdict, scope = _verdict(claim, answers)
    agrees = _on_paper(claim, printed)
    return ClaimResult(claim.says, verdict, scope, _evidence(answers), agrees)


def _verdict(claim: Claim, answers: Sequence[Answer]) -> tuple[Verdict, Scope | Literal[""]]:
    """The verdict that holds for the most, and what that is."""
    for most, scope in enumerate(SCOPES, 1):
        found = _combined(claim, [one.at(SCOPES[:most]) for one in answers])
        if found:
            return "yes" if found > 0 else "no", scope
    return "not shown", ""


def correlation(rows: Sequence[Measured], of: str) -> Correlation | None:
    """How a metric, or the year, goes with the score over rows.

    Trainings of one row share their method, so they count as one point: their mean.

    Args:
        rows: Everything that was trained.
        of: A metric, or ``year``.

    Returns:
        The correlation with its 95 % interval; None where fewer than four rows have both.
    """
    points = []
    for row in rows:
        scores = [one.scores for one in row.contender.models] if row.contender else []
        cells = [one for one in scores if METRIC in one]
        if of == "year":
            known = [] if row.year is None else [float(row.year)]
        else:
            known = [one[of] for one in cells if of in one]
        if cells and known:
            points.append((fmean(known), fmean(one[METRIC] for one in cells)))
    found = _pearson(points)
    if found is None or len(points) < FEWEST_ROWS:
        return None
    half = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) / math.sqrt(len(points) - 3)
    middle = math.atanh(max(-1 + 1e-12, min(found, 1 - 1e-12)))
    return Correlation(found, math.tanh(middle - half), math.tanh(middle + half), len(points))


def _pearson(points: Sequence[tuple[float, float]]) -> float | None:
    """None where there are too few points, or one of the two does not vary."""
    if len(points) < 2:
        return None
    x, y = np.array(points).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _at(row: Printed | Measured) -> dict[str, str]:
    return {"method": row.method, **row.axes}


def _mean(row: Measured) -> float:
    found = row.contender.interval(METRIC) if row.contender else None
    return math.nan if found is None else found.mean


# What a claim compares.


def _contrasts(claim: Claim, places: Sequence[Place]) -> list[Contrast]:
    """The differences that a claim is about, of ours or of the document's scores."""
    if claim.differs:
        return list(_within_groups(claim, places))
    if claim.saturates:
        return list(_to_the_best(claim, places))
    if claim.above_reported:
        return list(_to_reported(claim, places))
    if claim.gaps:
        return [
            _between(places, claim.axis, one.first, one.second, _part(one.least), _part(one.most))
            for one in claim.gaps
        ]
    values = dict.fromkeys(one.at[claim.axis] for one in places if claim.axis in one.at)
    named = (*claim.best, *claim.worst)
    others = [value for value in values if value not in named]
    pairs = [
        *pairwise(claim.order),
        *claim.better,
        *((first, other) for first in claim.best for other in others),
        *((other, last) for last in claim.worst for other in others),
    ]
    return [_between(places, claim.axis, first, second) for first, second in pairs]


def _between(
    places: Sequence[Place],
    axis: str,
    first: str,
    second: str,
    least: float | None = 0.0,
    most: float | None = None,
) -> Contrast:
    """One value of an axis minus another: the mean over all cells that have both."""
    cells: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for number, one in enumerate(places):
        if axis in one.at:
            rest = tuple((key, value) for key, value in one.at.items() if key != axis)
            cells.setdefault(rest, {})[one.at[axis]] = number
    both = [cell for cell in cells.values() if first in cell and second in cell]
    signs = ((first, 1 / len(both)), (second, -1 / len(both))) if both else ()
    weights = {cell[name]: weight for cell in both for name, weight in signs}
    return Contrast(f"{first} - {second}", weights, least, most, len(both))


def _within_groups(claim: Claim, places: Sequence[Place]) -> Iterator[Contrast]:
    """Between two values of an axis, everything else alike: the higher minus the lower."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, one in enumerate(places):
        if claim.differs in one.at:
            rest = tuple(value for key, value in one.at.items() if key != claim.differs)
            groups.setdefault(rest, []).append(number)
    for rest, numbers in groups.items():
        for pair in combinations(numbers, 2):
            low, high = sorted(pair, key=lambda at: places[at].score)
            names = " - ".join(places[at].at[claim.differs] for at in (high, low))
            yield Contrast(
                f"{', '.join(rest)}: {names}", {high: 1.0, low: -1.0}, _part(claim.margin)
            )


def _to_the_best(claim: Claim, places: Sequence[Place]) -> Iterator[Contrast]:
    """The best minus each other method."""
    order = sorted(range(len(places)), key=lambda at: -places[at].score)
    for other in order[1:]:
        name = f"{places[order[0]].at['method']} - {places[other].at['method']}"
        yield Contrast(name, {order[0]: 1.0, other: -1.0}, None, _part(claim.margin))


def _to_reported(claim: Claim, places: Sequence[Place]) -> Iterator[Contrast]:
    """Each method against the median of what papers report for it."""
    for method in claim.above_reported:
        number = next((at for at, one in enumerate(places) if one.at["method"] == method), None)
        reported = [
            row.value
            for row in published.load(metric=METRIC)
            if row.reported_by and row.value is not None and row.part == "test"
            if number is not None and (row.method, row.dataset) == (method, places[number].dataset)
        ]
        if number is None or not reported:
            yield Contrast(f"{method} beside what papers report of the same images", {})
            continue
        middle = median(reported)
        name = f"{method}, of which {len(reported)} papers report {middle:.2f} (median)"
        yield Contrast(name, {number: 1.0}, middle / 100, of_these_classes=True)


def _part(points: float | None) -> float | None:
    return None if points is None else points / 100


# What is shown of them.


def _answers(asked: Sequence[Contrast], rows: Sequence[Measured], resamples: int) -> list[Answer]:
    """What the rule of ``compare`` shows of each contrast, corrected for all of them.

    Each limit is a method of its own, the contrast minus the limit, beside one that scores zero.
    """
    used = sorted({row for one in asked for row in one.weights})
    sample = sample_of([tested for at in used if (tested := rows[at].contender)], METRIC)
    if not sample.trainings:
        return [Answer(0, "open", f"{one.name}: not tested") for one in asked]
    zeros = np.zeros((sample.trainings, len(sample.queries)))
    totals, tables = {ZERO: np.zeros(sample.trainings)}, {ZERO: zeros}
    for number, one in enumerate(asked):
        parts = [(used.index(row), weight) for row, weight in one.weights.items()]
        known = all(sample.names[at] in sample.by_class for at, _ in parts)
        for sign, limit in one.limits if parts else ():
            name = f"{number} {sign}"
            total = sum((w * sample.totals[at] for at, w in parts), totals[ZERO])
            totals[name] = sign * (total - limit)
            if known and not one.of_these_classes:
                table = sum((w * sample.by_class[sample.names[at]] for at, w in parts), zeros)
                tables[name] = sign * (table - limit)
    names = tuple(totals)
    by_class = tables if len(tables) > 1 else {}
    queries = sample.queries if by_class else np.empty(0, np.int64)
    compared = Sample(names, np.stack(list(totals.values())), by_class, queries)
    pairs = differences(compared, CONFIDENCE, not_among=names[1:], resamples=resamples)
    found = {one.worse if one.better == ZERO else one.better: one for one in pairs}
    return [_answer(one, number, found) for number, one in enumerate(asked)]


def _answer(one: Contrast, number: int, found: Mapping[str, Difference]) -> Answer:
    """Between its limits if all of them are shown; beyond them if one is contradicted."""
    limits = [(sign, limit) for sign, limit in one.limits if f"{number} {sign}" in found]
    if not limits:
        return Answer(0, "open", f"{one.name}: not tested")
    tested = [found[f"{number} {sign}"] for sign, _ in limits]
    shown = _all([_sign_of(each) for each in tested])
    scopes = [each.scope for each in tested if _sign_of(each) == shown]
    scope = (max if shown > 0 else min)(scopes, key=[*SCOPES, "open"].index)
    return Answer(shown, scope, _told(one, *limits[0], tested))


def _sign_of(one: Difference) -> int:
    """1 where a contrast is shown to be beyond its limit, -1 where it is shown not to be."""
    if one.scope == "open":
        return 0
    return -1 if one.better == ZERO else 1


def _told(one: Contrast, sign: int, limit: float, tested: Sequence[Difference]) -> str:
    """The contrast with its intervals, in points, and the larger p of the tests of its limits."""
    first = tested[0]
    way = -sign if first.better == ZERO else sign
    parts = [f"{one.name}: {_points(limit + way * first.mean)}"]
    too = " too" if first.over_trainings else ""
    for bounds, over in (
        (first.over_trainings, f"over {first.trainings} trainings"),
        (first.over_classes, f"over {first.classes:,} test classes{too}"),
    ):
        if bounds is not None:
            low, high = sorted(limit + way * edge for edge in (bounds.low, bounds.high))
            parts.append(f"[{_points(low)}, {_points(high)}] {over}")
    if first.over_trainings is None:
        parts.append("one training each")
    if one.cells > 1:
        parts.append(f"mean of {one.cells} cells")
    levels = [each.p_trainings if each.adjusted is None else each.adjusted for each in tested]
    known = [level for level in levels if level is not None]
    if known:
        parts.append(f"p {_p_text(max(known))} (Holm)")
    if one.wanted:
        parts.append(f"to be {one.wanted}")
    return ", ".join(parts)


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.2f}".replace("-0.00", "+0.00")


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def _all(shown: Sequence[int]) -> int:
    """Every one: yes. One contradicted: no. Otherwise open."""
    if not shown:
        return 0
    return -1 if -1 in shown else min(shown)


def _combined(claim: Claim, shown: Sequence[int]) -> int:
    """From differences to the claim: all of them, one of them, or half of them."""
    if claim.differs:
        return -_all([-one for one in shown])
    if claim.saturates:
        needed = math.ceil(len(shown) / 2)
        alike, apart = shown.count(1), shown.count(-1)
        return 1 if shown and alike >= needed else -1 if apart > len(shown) - needed else 0
    return _all(shown)


def _evidence(answers: Sequence[Answer]) -> str:
    """The differences one by one; of many, how many are shown, and the clearest."""
    if not answers:
        return "nothing to compare"
    if len(answers) <= MOST_TOLD:
        return "; ".join(one.told for one in answers)
    yes, no, left = (sum(one.shown == sign for one in answers) for sign in (1, -1, 0))
    clear = [next((one.told for one in answers if one.shown == sign), "") for sign in (1, -1)]
    counted = f"{yes} shown as claimed, {no} the other way, {left} not shown"
    return "; ".join([f"of {len(answers)} differences {counted}", *filter(None, clear)])


def _correlates(claim: Claim, of: str, rows: Sequence[Measured]) -> Answer:
    """By Fisher's interval over rows: on these test classes, for other methods like these."""
    found = correlation(rows, of)
    if found is None:
        return Answer(0, "open", f"{of}: too few rows, or it does not vary")
    least, most = _r_limits(claim, of)
    inside, outside = (
        least < found.low and found.high < most,
        found.high < least or most < found.low,
    )
    told = f"{of}: r {found.r:+.2f} [{found.low:+.2f}, {found.high:+.2f}] over {found.rows} rows"
    if claim.margin is not None:
        told += f", to be between {least:+.2f} and {most:+.2f}"
    return Answer(int(inside) - int(outside), "this test set", told)


def _r_limits(claim: Claim, of: str) -> tuple[float, float]:
    """Between what a correlation is said to lie."""
    margin = claim.margin or 0.0
    limits = {"positive": (0.0, math.inf), "negative": (-math.inf, 0.0), "none": (-margin, margin)}
    return limits[claim.correlates[of]]


# What the document's own numbers say.


def _on_paper(claim: Claim, printed: Sequence[Printed]) -> Literal["yes", "no"] | None:
    """Whether the printed numbers agree with the words; they have no intervals to be tested."""
    values = [(row, found.value) for row in printed if (found := row.published.get(METRIC))]
    known = [(row, value / 100) for row, value in values if value is not None]
    if claim.correlates:
        points = [(float(row.year), value) for row, value in known if row.year is not None]
        r = _pearson(points)
        if r is None or list(claim.correlates) != ["year"]:
            return None
        least, most = _r_limits(claim, "year")
        return "yes" if least < r < most else "no"
    places = [Place(_at(row), value, row.dataset) for row, value in known]
    asked = _contrasts(claim, places)
    if not asked or not all(one.weights for one in asked):
        return None
    shown = [_all([_sign(one, places, *limit) for limit in one.limits]) for one in asked]
    return "yes" if _combined(claim, shown) > 0 else "no"


def _sign(one: Contrast, places: Sequence[Place], sign: int, limit: float) -> int:
    """1 beyond the limit, -1 up to it; printed numbers have two digits."""
    value = math.fsum(weight * places[at].score for at, weight in one.weights.items())
    return 1 if round(sign * (value - limit), 9) > 0 else -1
