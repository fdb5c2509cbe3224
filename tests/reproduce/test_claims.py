"""Claims are decided by intervals: yes, no, or not shown."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from lookalike.reproduce.catalogue import Claim
from lookalike.reproduce.claims import correlation, difference, judge
from lookalike.study.intervals import interval


@dataclass
class Scored:
    method: str
    trainings: list
    axes: dict = field(default_factory=dict)
    year: int | None = None

    @property
    def ours(self):
        names = self.trainings[0]
        return {name: interval([one[name] for one in self.trainings]) for name in names}


def scored(method, *values, axes=None, year=None):
    return Scored(method, [{"recall@1": value} for value in values], axes or {}, year)


GOOD = scored("good", 0.70, 0.71, 0.69)
FAIR = scored("fair", 0.60, 0.61, 0.59)
ALIKE = scored("alike", 0.605, 0.59, 0.61)
ONCE = scored("once", 0.50)


def verdict(rows, **claim):
    return judge(Claim(says="So it is.", **claim), rows).verdict


def test_a_pair_is_decided_by_the_interval_of_its_difference():
    rows = [GOOD, FAIR, ALIKE, ONCE]
    assert verdict(rows, better=[("good", "fair")]) == "yes"
    assert verdict(rows, better=[("fair", "good")]) == "no"
    assert verdict(rows, better=[("fair", "alike")]) == "not shown"
    assert verdict(rows, better=[("good", "once")]) == "not shown"  # one training
    assert verdict(rows, better=[("good", "absent")]) == "not shown"
    assert verdict(rows, better=[("good", "fair"), ("fair", "good")]) == "no"
    told = judge(Claim(says="x", better=[("good", "fair")]), rows).evidence
    assert told.startswith("good - fair: +10.00 [")


def test_welch():
    """Against scipy's interval of Welch's test."""
    stats = pytest.importorskip("scipy.stats")
    a, b = [0.1, 0.4, 0.3, 0.2], [0.2, 0.1, 0.1]
    found = difference([scored("a", *a), scored("b", *b)], "method", "a", "b", "recall@1")
    wanted = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert found.p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_several_pairs_are_corrected_for_their_number():
    """A difference at p 0.03 holds alone, and not as one of three (Holm)."""
    base, once = scored("base", 0.50, 0.52, 0.48), scored("a", 0.55, 0.57, 0.53)
    others = [scored("b", 0.55, 0.571, 0.53), scored("c", 0.55, 0.569, 0.53)]
    rows = [base, once, *others]
    alone = difference(rows, "method", "a", "base", "recall@1")
    assert 0.02 < alone.p < 0.05
    assert verdict(rows, better=[("a", "base")]) == "yes"
    pairs = [("a", "base"), ("b", "base"), ("c", "base")]
    assert verdict(rows, better=pairs) == "not shown"
    assert verdict(rows, better=[(b, a) for a, b in pairs]) == "not shown"
    told = judge(Claim(says="x", better=pairs), rows).evidence
    assert told.count("(Holm)") == 3
    clear = [scored(name, 0.7, 0.71, 0.69) for name in "abc"]
    assert verdict([FAIR, *clear], better=[(name, "fair") for name in "abc"]) == "yes"


def test_cells_are_paired():
    """The difference counts, however much cells differ from each other."""
    random = np.random.default_rng(0)
    rows = []
    for size, level in {"64": 0.3, "128": 0.5, "512": 0.6, "1024": 0.62}.items():
        for method, gain in {"a": 0.0, "b": 0.02}.items():
            noise = random.normal(0, 0.002)
            rows.append(scored(method, level + gain + noise, axes={"size": size}))
    assert verdict(rows, better=[("b", "a")]) == "yes"
    assert verdict(rows, best=["b"]) == "yes"
    assert verdict(rows, worst=["b"]) == "no"
    told = judge(Claim(says="x", best=["b"]), rows).evidence
    assert told.startswith("b above all others: b - a: +")
    assert difference(rows, "method", "b", "a", "recall@1").cells == 4
    # by size there are two cells of one training each
    assert verdict(rows, axis="size", increases=["64", "128"]) == "not shown"


def test_steps_along_an_axis():
    rows = [
        scored(f"m{n}", level + n / 50, level + n / 50 + 0.001, axes={"size": size})
        for n in range(4)
        for size, level in {"128": 0.4, "512": 0.5 + n / 1000, "1024": 0.51}.items()
    ]
    assert verdict(rows, axis="size", diminishing=["128", "512", "1024"]) == "yes"
    assert verdict(rows, axis="size", increases=["128", "512", "1024"]) == "yes"
    assert verdict(rows, axis="size", increases=["1024", "512", "128"]) == "no"
    assert verdict(rows, axis="size", order=["1024", "512", "128"]) == "yes"
    assert verdict(rows, differs="size") == "yes"
    flat = [scored("m", 0.5, 0.6, axes={"size": s}) for s in ("64", "128")]
    assert verdict(flat, differs="size") == "not shown"


def test_saturation():
    near = [scored(f"m{n}", 0.6, 0.61 + n / 1000, 0.59) for n in range(5)]
    assert verdict(near, saturates=True) == "yes"
    assert verdict([GOOD, FAIR, ALIKE], saturates=True) == "no"
    assert verdict([GOOD, ONCE], saturates=True) == "not shown"


def test_correlation_over_all_trainings():
    random = np.random.default_rng(1)
    rows = []
    for n in range(12):
        density = n / 10
        runs = [
            {
                "recall@1": 0.5 + 0.1 * density + random.normal(0, 0.01),
                "pi-ratio": density,
                "rho": 1,
            }
            for _ in range(3)
        ]
        rows.append(Scored(f"m{n}", runs, year=2010 + (7 * n) % 12))
    found = correlation(rows, "pi-ratio", "recall@1")
    assert found.trainings == 36
    assert 0.9 < found.low < found.r < found.high <= 1
    assert verdict(rows, correlates={"pi-ratio": "positive"}) == "yes"
    assert verdict(rows, correlates={"pi-ratio": "negative"}) == "no"
    assert verdict(rows, correlates={"pi-ratio": "none"}) == "no"
    assert verdict(rows, correlates={"rho": "positive"}) == "not shown"  # it does not vary
    assert verdict(rows, correlates={"year": "none"}) == "yes"
    assert verdict(rows[:2], correlates={"pi-ratio": "positive"}) == "not shown"


def test_small_scale_does_not_decide_between_networks():
    large, other = ({"network": name} for name in ("resnet50", "googlenet"))
    rows = [scored("m", 0.7, 0.71, axes=large), scored("m", 0.6, 0.61, axes=other)]
    claim = Claim(says="x", axis="network", better=[("resnet50", "googlenet")])
    assert judge(claim, rows).verdict == "yes"
    told = judge(claim, rows, "small")
    assert (told.verdict, told.evidence) == ("not shown", "small networks stood in for the paper's")


def test_what_papers_report():
    ours = [scored("contrastive", 0.60, 0.61, 0.62), scored("triplet", 0.2, 0.21, 0.22)]
    claim = Claim(says="x", above_reported=["contrastive"])
    assert judge(claim, ours, dataset="cub").verdict == "yes"
    assert judge(claim, ours, dataset="glyphs").verdict == "not shown"
    assert judge(claim, ours, "small", "cub").verdict == "not shown"
    low = Claim(says="x", above_reported=["triplet"])
    assert judge(low, ours, dataset="cub").verdict == "no"
