"""Whether a document's claim held: yes, no, or not shown, and for what.

A claim is a list of pairs of scores, and the limits between which it puts their differences:
"better" is a difference above 0, "the same" one between -1 and +1 points, "large" one above 2
points. A difference is shown to be above a limit by the rule of ``lookalike compare``
(:mod:`lookalike.compare.uncertainty`), applied to the difference minus the limit: the 95 % interval
over training runs and test classes excludes zero, and the tests over both agree after Holm's
correction for everything that the claim compares. So sameness needs two one-sided tests (at 2.5 %
each), and differences that cannot be told from zero do not show it.

A verdict holds for other test classes too, or, if the classes may decide it, for these only.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from lookalike import published
from lookalike.compare.contenders import sample_of
from lookalike.compare.uncertainty import (
    RESAMPLES,
    Difference,
    Sample,
    Scope,
    differences,
)
from lookalike.papers.catalogue import ANY, HIGHEST, OTHERS, REPORTED, Claim, Limits
from lookalike.papers.selection import Row

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


class Correlation(NamedTuple):
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
        limits: In points.
        cells: How many combinations of the other axes it is the mean of.
        of_these_classes: Whether a limit was measured on the same test classes, so that other
            classes are no question.
    """

    name: str
    weights: Mapping[int, float]
    limits: Limits
    cells: int = 1
    of_these_classes: bool = False

    @property
    def above_zero(self) -> dict[int, float]:
        """What is to be above zero, ``sign * (difference - limit)``: the limit by its sign."""
        sides = {1: self.limits.least, -1: self.limits.most}
        return {sign: limit / 100 for sign, limit in sides.items() if limit is not None}


class Answer(NamedTuple):
    """Whether a difference lies between its limits: 1 yes, -1 no, 0 open, for what, and why."""

    shown: int
    scope: Scope
    told: str


def judge(
    claim: Claim, rows: Sequence[Row], printed: Sequence[Row] = (), resamples: int = RESAMPLES
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
    answers = [_correlates(of, limits, rows) for of, limits in claim.correlates.items()]
    if claim.pairs:
        known = [row for row in rows if row.contender and METRIC in row.contender.metrics]
        scores = [one.interval(METRIC) for row in known if (one := row.contender)]
        means = [math.nan if one is None else one.mean for one in scores]
        places = [
            Place(_at(row), mean, row.dataset) for row, mean in zip(known, means, strict=True)
        ]
        answers = _answers(list(_contrasts(claim, places)), known, resamples)
    verdict: Verdict = "not shown"
    scope: Scope | Literal[""] = ""
    for most, widest in enumerate(SCOPES, 1):
        found = _combined(claim, [one.shown * (one.scope in SCOPES[:most]) for one in answers])
        if found:
            verdict, scope = "yes" if found > 0 else "no", widest
            break
    return ClaimResult(claim.says, verdict, scope, _evidence(answers), _on_paper(claim, printed))


def _at(row: Row) -> dict[str, str]:
    return {"method": row.method, **row.axes}


# What a claim compares.


def _contrasts(claim: Claim, places: Sequence[Place]) -> Iterator[Contrast]:
    """The differences that a claim is about, of our scores or of the document's."""
    values = dict.fromkeys(one.at[claim.axis] for one in places if claim.axis in one.at)
    named = {name for pair in claim.pairs for name in (pair.first, pair.second)}
    others = [value for value in values if value not in named]
    for pair in claim.pairs:
        if pair.first == ANY:
            yield from _within_groups(claim.axis, pair, places)
        elif pair.first == HIGHEST:
            yield from _to_the_highest(pair, places)
        elif pair.second == REPORTED:
            yield _to_reported(pair.first, places)
        else:
            for first in others if pair.first == OTHERS else [pair.first]:
                for second in others if pair.second == OTHERS else [pair.second]:
                    yield _between(claim.axis, first, second, pair, places)


def _between(
    axis: str, first: str, second: str, limits: Limits, places: Sequence[Place]
) -> Contrast:
    """One value of an axis minus another: the mean over all cells that have both."""
    cells = _cells(axis, places)
    both = [cell for cell in cells.values() if first in cell and second in cell]
    signs = ((first, 1 / len(both)), (second, -1 / len(both))) if both else ()
    weights = {cell[name]: weight for cell in both for name, weight in signs}
    return Contrast(f"{first} - {second}", weights, limits, len(both))


def _cells(axis: str, places: Sequence[Place]) -> dict[tuple[str, ...], dict[str, int]]:
    """The numbers of rows that differ in one axis alone, by its value."""
    cells: dict[tuple[str, ...], dict[str, int]] = {}
    for number, one in enumerate(places):
        if axis in one.at:
            rest = tuple(value for key, value in one.at.items() if key != axis)
            cells.setdefault(rest, {})[one.at[axis]] = number
    return cells


def _within_groups(axis: str, limits: Limits, places: Sequence[Place]) -> Iterator[Contrast]:
    """Between two values of an axis, everything else alike: the higher minus the lower."""
    for rest, cell in _cells(axis, places).items():
        for pair in combinations(cell.items(), 2):
            (worse, low), (better, high) = sorted(pair, key=lambda one: places[one[1]].score)
            name = f"{', '.join(rest)}: {better} - {worse}"
            yield Contrast(name, {high: 1.0, low: -1.0}, limits)


def _to_the_highest(limits: Limits, places: Sequence[Place]) -> Iterator[Contrast]:
    """The method with the highest score minus each other one."""
    order = sorted(range(len(places)), key=lambda at: -places[at].score)
    for other in order[1:]:
        name = f"{places[order[0]].at['method']} - {places[other].at['method']}"
        yield Contrast(name, {order[0]: 1.0, other: -1.0}, limits)


def _to_reported(method: str, places: Sequence[Place]) -> Contrast:
    """A method against the median of what papers report for it on the same images."""
    for number, one in enumerate(places):
        if one.at["method"] == method:
            reported = [
                row.value
                for row in published.load(metric=METRIC)
                if row.reported_by and row.value is not None and row.part == "test"
                if (row.method, row.dataset) == (method, one.dataset)
            ]
            if reported:
                middle = median(reported)
                name = f"{method}, of which {len(reported)} papers report {middle:.2f} (median)"
                return Contrast(name, {number: 1.0}, Limits(least=middle), of_these_classes=True)
            break
    return Contrast(f"{method} beside what papers report of the same images", {}, Limits(least=0))


# What is shown of them.


def _answers(asked: Sequence[Contrast], rows: Sequence[Row], resamples: int) -> list[Answer]:
    """What the rule of ``compare`` shows of each contrast, corrected for all of them.

    Each limit is a method of its own, the contrast minus the limit, beside one that scores zero.
    """
    used = sorted({row for one in asked for row in one.weights})
    sample = sample_of([tested for at in used if (tested := rows[at].contender)], METRIC)
    if not sample.trainings:
        return [Answer(0, "open", f"{one.name}: not tested") for one in asked]
    totals = {ZERO: np.zeros(sample.trainings)}
    tables = {ZERO: np.zeros((sample.trainings, len(sample.queries)))}
    for number, one in enumerate(asked):
        parts = [(used.index(row), weight) for row, weight in one.weights.items()]
        known = all(sample.names[at] in sample.by_class for at, _ in parts)
        for sign, limit in one.above_zero.items() if parts else ():
            total = sum((w * sample.totals[at] for at, w in parts), totals[ZERO])
            totals[f"{number} {sign}"] = sign * (total - limit)
            if known and not one.of_these_classes:
                by_class = (w * sample.by_class[sample.names[at]] for at, w in parts)
                tables[f"{number} {sign}"] = sign * (sum(by_class, tables[ZERO]) - limit)
    names = tuple(totals)
    tables = tables if len(tables) > 1 else {}
    queries = sample.queries if tables else np.empty(0, np.int64)
    compared = Sample(names, np.stack(list(totals.values())), tables, queries)
    pairs = differences(compared, CONFIDENCE, not_among=names[1:], resamples=resamples)
    found = {one.worse if one.better == ZERO else one.better: one for one in pairs}
    return [_answer(one, number, found) for number, one in enumerate(asked)]


def _answer(one: Contrast, number: int, found: Mapping[str, Difference]) -> Answer:
    """Between its limits if all of them are shown; beyond them if one is contradicted."""
    tested = {sign: found[key] for sign in one.above_zero if (key := f"{number} {sign}") in found}
    if not tested:
        return Answer(0, "open", f"{one.name}: not tested")
    shown = _all([_sign_of(each) for each in tested.values()])
    scopes = [each.scope for each in tested.values() if _sign_of(each) == shown]
    scope = (max if shown > 0 else min)(scopes, key=[*SCOPES, "open"].index)
    return Answer(shown, scope, _told(one, tested))


def _sign_of(one: Difference) -> int:
    """1 where a contrast is shown to be beyond its limit, -1 where it is shown not to be."""
    if one.scope == "open":
        return 0
    return -1 if one.better == ZERO else 1


def _told(one: Contrast, tested: Mapping[int, Difference]) -> str:
    """The contrast with its intervals, in points, and the larger p of the tests of its limits."""
    sign, first = next(iter(tested.items()))
    way, limit = -sign if first.better == ZERO else sign, one.above_zero[sign]
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
    levels = [
        each.p_trainings if each.adjusted is None else each.adjusted for each in tested.values()
    ]
    known = [level for level in levels if level is not None]
    if known:
        p = "< 0.001" if max(known) < 0.001 else f"{max(known):.2g}"
        parts.append(f"p {p} (Holm)")
    return ", ".join([*parts, *one.limits.wanted])


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.2f}".replace("-0.00", "+0.00")


def _all(shown: Sequence[int]) -> int:
    """Every one: yes. One contradicted: no. Otherwise open."""
    if not shown:
        return 0
    return -1 if -1 in shown else min(shown)


def _combined(claim: Claim, shown: Sequence[int]) -> int:
    """From differences to the claim: all of them, one of them, or half of them."""
    if claim.of == "some":
        return -_all([-one for one in shown])
    if claim.of == "half":
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


# Correlations.


def correlation(rows: Sequence[Row], of: str) -> Correlation | None:
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
        known = [one[of] for one in cells if of in one]
        if of == "year" and row.year is not None:
            known = [float(row.year)]
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
    if len(points) < 2 or (np.ptp(np.array(points), axis=0) == 0).any():
        return None
    return float(np.corrcoef(np.array(points).T)[0, 1])


def _correlates(of: str, limits: Limits, rows: Sequence[Row]) -> Answer:
    """By Fisher's interval over rows: on these test classes, for other methods like these."""
    found = correlation(rows, of)
    if found is None:
        return Answer(0, "open", f"{of}: too few rows, or it does not vary")
    least, most = limits.ends
    inside = least < found.low and found.high < most
    outside = found.high < least or most < found.low
    told = f"{of}: r {found.r:+.2f} [{found.low:+.2f}, {found.high:+.2f}] over {found.rows} rows"
    shown = int(inside) - int(outside)
    return Answer(shown, "this test set", ", ".join([told, *limits.wanted]))


# What the document's own numbers say.


def _on_paper(claim: Claim, printed: Sequence[Row]) -> Literal["yes", "no"] | None:
    """Whether the printed numbers agree with the words; they have no intervals to be tested."""
    values = [(row, found.value) for row in printed if (found := row.published.get(METRIC))]
    known = [(row, value / 100) for row, value in values if value is not None]
    if claim.correlates:
        points = [(float(row.year), value) for row, value in known if row.year is not None]
        r = _pearson(points)
        if r is None or list(claim.correlates) != ["year"]:
            return None
        least, most = claim.correlates["year"].ends
        return "yes" if least < r < most else "no"
    places = [Place(_at(row), value, row.dataset) for row, value in known]
    asked = list(_contrasts(claim, places))
    if not asked or not all(one.weights for one in asked):
        return None
    shown = []
    for one in asked:
        value = math.fsum(weight * places[at].score for at, weight in one.weights.items())
        # printed numbers have two digits; what is up to a limit is not beyond it
        beyond = [round(sign * (value - end), 9) > 0 for sign, end in one.above_zero.items()]
        shown.append(1 if all(beyond) else -1)
    return "yes" if _combined(claim, shown) > 0 else "no"
