"""Claims are decided by the rule of compare: yes, no, or not shown, and for what."""

import math

import numpy as np
import pytest
from scipy import stats

from lookalike.compare.contenders import sample_of
from lookalike.compare.uncertainty import differences
from lookalike.papers import rows as rows_of
from lookalike.papers.catalogue import Claim, entries, entry
from lookalike.papers.claims import correlation, judge
from lookalike.papers.selection import printed_rows
from lookalike.published import Published
from tests.papers.worlds import Scored, World, by_class, scored

GOOD = scored("good", 0.70, 0.712, 0.69)
FAIR = scored("fair", 0.60, 0.611, 0.59)
ALIKE = scored("alike", 0.605, 0.59, 0.61)
ONCE = scored("once", 0.50)


def found(rows, printed=(), **claim):
    return judge(Claim(says="So it is.", **claim), rows, printed)


def verdict(rows, **claim):
    return found(rows, **claim).verdict


def gap(first, second, **limits):
    return {"pairs": [{"first": first, "second": second, **limits}]}


SAME = {"least": -1, "most": 1}
NONE = {"least": -0.3, "most": 0.3}
SATURATES = {"pairs": [{"first": "highest", "second": "others", "most": 1}], "of": "half"}
LARGE = {
    "axis": "sampler",
    "pairs": [{"first": "any", "second": "any", "least": 2}],
    "of": "some",
}


def test_a_pair_is_decided_by_the_interval_of_its_difference():
    rows = [GOOD, FAIR, ALIKE, ONCE]
    assert verdict(rows[:3], pairs=[("good", "fair")]) == "yes"
    assert verdict(rows[:3], pairs=[("fair", "good")]) == "no"
    assert verdict(rows[:3], pairs=[("fair", "alike")]) == "not shown"
    assert verdict(rows, pairs=[("good", "once")]) == "not shown"  # one training
    assert verdict(rows, pairs=[("good", "absent")]) == "not shown"
    assert verdict(rows, pairs=[("good", "fair"), ("fair", "good")]) == "no"
    told = found(rows, pairs=[("good", "fair")])
    assert told.evidence.startswith("good - fair: +10.03, [")
    assert told.scope == "this test set"  # no scores by class were kept


def test_the_interval_is_that_of_a_paired_t_test():
    first, second = [0.10, 0.42, 0.31], [0.05, 0.30, 0.22]
    rows = [scored("a", *first), scored("b", *second)]
    wanted = stats.ttest_rel(first, second).confidence_interval(0.95)
    shown = f"[{100 * wanted.low:+.2f}, {100 * wanted.high:+.2f}] over 3 trainings"
    assert shown in found(rows, pairs=[("a", "b")]).evidence
    p = stats.ttest_rel(first, second).pvalue
    assert f"p {p:.2g} (Holm)" in found(rows, pairs=[("a", "b")]).evidence


def on_these_classes_only(rng, trainings=5, classes=40):
    """Trainings agree that ``a`` is better on these classes, most of which say the opposite."""
    level = rng.normal(0.4, 0.1, classes)
    own = np.where(np.arange(classes) < 4, 0.15, -0.008)
    noise = rng.normal(0, 0.001, (2, trainings, classes))
    return [by_class("a", level + own + noise[0]), by_class("b", level + noise[1])]


def test_a_verdict_says_for_what_it_holds_as_compare_does():
    """As of DR-Triplet: +0.44 [0.23, 0.66] over trainings, -0.09 to +0.98 over classes too."""
    rows = on_these_classes_only(np.random.default_rng(0))
    told = found(rows, pairs=[("a", "b")])
    (same,) = differences(sample_of([row.contender for row in rows], "recall@1"))
    assert (told.verdict, told.scope) == ("yes", "this test set")
    assert same.scope == "this test set"
    low, high = same.over_classes.low, same.over_classes.high
    assert low < 0 < high
    assert f"[{100 * low:+.2f}, {100 * high:+.2f}] over 40 test classes too" in told.evidence
    world = World(of_class=0.005, of_training=0.002)
    sure, _ = world.rows(np.random.default_rng(1), [0.02, 0.0])
    told = found(sure, pairs=[("a", "b")])
    assert (told.verdict, told.scope) == ("yes", "generalizes")
    once, _ = World(0.005, 0.002, trainings=1).rows(np.random.default_rng(1), [0.02, 0.0])
    told = found(once, pairs=[("a", "b")])
    assert (told.verdict, told.scope) == ("yes", "these training runs")


@pytest.mark.parametrize("seed", range(4))
def test_every_pair_gets_the_scope_of_compare(seed):
    rng = np.random.default_rng(seed)
    rows, _ = World(of_class=0.02, of_training=0.004).rows(rng, [0.01, 0.0])
    told = found(rows, pairs=[("a", "b")])
    (same,) = differences(sample_of([row.contender for row in rows], "recall@1"))
    expected = {"open": "not shown"}.get(same.scope, "yes" if same.better == "a" else "no")
    assert told.verdict == expected
    assert told.scope == ("" if same.scope == "open" else same.scope)


def test_the_scope_of_several_differences_is_the_narrowest():
    rng = np.random.default_rng(0)
    a, b = on_these_classes_only(rng)
    far = by_class("far", np.stack([one.values[:, 0] - 0.1 for one in b.tables]))
    told = found([a, b, far], pairs=[("a", "others")])
    assert (told.verdict, told.scope) == ("yes", "this test set")
    assert found([b, far], pairs=[("b", "others")]).scope == "generalizes"
    told = found([a, b, far], pairs=[("others", "a")])  # contradicted for other classes, too
    assert (told.verdict, told.scope) == ("no", "generalizes")


def test_several_pairs_are_corrected_for_their_number():
    """A difference at p 0.03 holds alone, and not as one of three (Holm)."""
    base = scored("base", 0.5, 0.5, 0.5)
    rows = [scored(name, *(0.54 + np.array(g))) for name, g in {
        "a": (0.012, -0.012, 0.0), "b": (0.0121, -0.012, 0.0), "c": (0.0119, -0.012, 0.0),
    }.items()]  # fmt: skip
    p = stats.ttest_1samp([0.552 - 0.5, 0.528 - 0.5, 0.54 - 0.5], 0).pvalue
    assert 0.02 < p < 0.05
    assert verdict([base, *rows], pairs=[("a", "base")]) == "yes"
    pairs = [(name, "base") for name in "abc"]
    told = found([base, *rows], pairs=pairs)
    assert told.verdict == "not shown"
    assert told.evidence.count("(Holm)") == 3
    assert verdict([base, *rows], pairs=[(b, a) for a, b in pairs]) == "not shown"
    clear = [scored(name, 0.7, 0.711, 0.69) for name in "abc"]
    assert verdict([FAIR, *clear], pairs=[(name, "fair") for name in "abc"]) == "yes"


def test_cells_are_paired_and_averaged():
    """The difference counts, however much cells differ from each other."""
    random = np.random.default_rng(0)
    rows = []
    for size, level in {"64": 0.3, "128": 0.5, "512": 0.6, "1024": 0.62}.items():
        for method, gain in {"a": 0.0, "b": 0.02}.items():
            values = level + gain + random.normal(0, 0.002, 3)
            rows.append(scored(method, *values, axes={"size": size}))
    assert verdict(rows, pairs=[("b", "a")]) == "yes"
    assert verdict(rows, pairs=[("b", "others")]) == "yes"
    assert verdict(rows, pairs=[("others", "b")]) == "no"
    told = found(rows, pairs=[("b", "others")]).evidence
    means = {name: np.mean([[s["recall@1"] for s in r.cells] for r in rows if r.method == name])
             for name in "ab"}  # fmt: skip
    assert told.startswith(f"b - a: {100 * (means['b'] - means['a']):+.2f}, [")
    assert "mean of 4 cells" in told
    assert (
        verdict(rows, axis="size", pairs=[("1024", "512"), ("512", "128"), ("128", "64")]) == "yes"
    )
    assert verdict(rows[:2], axis="size", pairs=[["64", "128"]]) == "not shown"


def test_what_cannot_be_told_apart_is_not_the_same():
    """Until now, "not distinguishable" was taken for sameness: few trainings showed it."""
    wide = [scored("a", 0.58, 0.62), scored("b", 0.57, 0.60)]
    assert verdict(wide, **gap("a", "b", **SAME)) == "not shown"
    close = [scored("a", 0.600, 0.601, 0.602), scored("b", 0.598, 0.600, 0.601)]
    told = found(close, **gap("a", "b", **SAME))
    assert told.verdict == "yes"
    assert "to be between -1.00 and +1.00" in told.evidence
    apart = [scored("a", 0.600, 0.601, 0.602), scored("b", 0.570, 0.572, 0.570)]
    assert verdict(apart, **gap("a", "b", **SAME)) == "no"


def test_sameness_is_two_one_sided_tests():
    """Against two paired t-tests of the difference shifted by the margin, each at 2.5 %."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        center, spread = rng.uniform(-0.015, 0.015), rng.uniform(0.001, 0.01)
        other = rng.normal(0.5, 0.02, 5)
        gaps = rng.normal(center, spread, 5)
        rows = [scored("a", *(other + gaps)), scored("b", *other)]
        below = stats.ttest_1samp(gaps, 0.01, alternative="less").pvalue
        above = stats.ttest_1samp(gaps, -0.01, alternative="greater").pvalue
        low, high = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
        same = max(below, above) < 0.025
        assert same == (low > -0.01 and high < 0.01)
        assert (verdict(rows, **gap("a", "b", **SAME)) == "yes") == same


def test_a_gain_is_little_or_significant_by_its_size():
    sizes = {
        "128": (0.500, 0.501, 0.502),
        "512": (0.550, 0.551, 0.552),
        "1024": (0.5700, 0.5712, 0.5721),  # +2.0, until now "almost the same"
    }
    rows = [scored("m", *values, axes={"size": size}) for size, values in sizes.items()]
    by_size = {"axis": "size"}
    assert verdict(rows, **by_size, **gap("1024", "512", **SAME)) == "no"
    assert verdict(rows, **by_size, **gap("1024", "512", least=0, most=1)) == "no"
    assert verdict(rows, **by_size, **gap("1024", "512", least=1)) == "yes"
    assert verdict(rows, **by_size, **gap("512", "128", most=1)) == "no"
    little = [scored("m", 0.5500, 0.5512, 0.5521, axes={"size": "512"}),
              scored("m", 0.5540, 0.5550, 0.5561, axes={"size": "1024"})]  # fmt: skip
    assert verdict(little, **by_size, **gap("1024", "512", least=0, most=1)) == "yes"
    assert verdict(little, **by_size, **gap("1024", "512", least=1)) == "no"


def test_rising_without_a_step_down_is_shown_step_by_step():
    """Until now "it rises" held if no step was shown to fall, however wide its interval."""
    claim = next(c for c in entry("roth/batch-size-cub").claims if c.pairs)
    levels = {"28": 0.50, "56": 0.52, "112": 0.54, "168": 0.56}
    noise = np.array([0.001, 0.0, -0.001])
    rows = [scored("m", *(v + noise * k), axes={"batch": b})
            for k, (b, v) in enumerate(levels.items(), 1)]  # fmt: skip
    assert judge(claim, rows).verdict == "yes"
    unsure = scored("m", 0.52, 0.58, 0.46, axes={"batch": "56"})
    assert judge(claim, [rows[0], unsure, *rows[2:]]).verdict == "not shown"
    fallen = scored("m", *(0.45 + noise), axes={"batch": "112"})
    assert judge(claim, [*rows[:2], fallen, rows[3]]).verdict == "no"


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_saturation_does_not_depend_on_few_repeats(repeats):
    """A true spread of 6 points: until now yes with 2 repeats, no with 3, 5 or 10."""
    rng = np.random.default_rng(repeats)
    spread = [
        scored(f"m{n}", *(0.6 - 0.06 * n / 9 + rng.normal(0, 0.01, repeats))) for n in range(10)
    ]
    assert verdict(spread, **SATURATES) in ("no", "not shown")
    rng = np.random.default_rng(0)
    near = [scored(f"m{n}", *(0.6 + rng.normal(0, 0.0005, 5))) for n in range(6)]
    assert verdict(near, **SATURATES) == "yes"


def test_saturation_is_contradicted_where_most_are_shown_below():
    rng = np.random.default_rng(0)
    levels = (0.66, 0.655, 0.60, 0.59, 0.58, 0.57)
    rows = [scored(f"m{n}", *(at + rng.normal(0, 0.001, 5))) for n, at in enumerate(levels)]
    assert verdict(rows, **SATURATES) == "no"
    assert verdict([GOOD, ONCE], **SATURATES) == "not shown"


def test_a_large_deviation_is_large():
    """Until now a range of 0.15 points was a "large deviation", as it was significant."""
    tiny = [
        scored("m", 0.5, 0.5001, 0.4999, axes={"sampler": "spc-2"}),
        scored("m", 0.5015, 0.5016, 0.5014, axes={"sampler": "spc-4"}),
    ]
    assert stats.f_oneway(*([s["recall@1"] for s in row.cells] for row in tiny)).pvalue < 1e-4
    told = found(tiny, **LARGE)
    assert told.verdict == "no"  # shown to be smaller
    assert "to be above +2.00" in told.evidence
    large = [tiny[0], scored("m", 0.53, 0.5303, 0.5298, axes={"sampler": "spc-4"})]
    assert verdict(large, **LARGE) == "yes"
    unsure = [tiny[0], scored("m", 0.53, 0.50, 0.56, axes={"sampler": "spc-4"})]
    assert verdict(unsure, **LARGE) == "not shown"
    one = [*large, scored("n", 0.5, 0.6, 0.55, axes={"sampler": "spc-2"})]
    assert verdict(one, **LARGE) == "yes"  # of one method is enough


def correlated(r, rows, seed=0, spread=0.02):
    """Rows whose years and mean scores correlate exactly by ``r``."""
    rng = np.random.default_rng(seed)
    years = np.arange(rows) - (rows - 1) / 2
    x = years / np.linalg.norm(years)
    other = rng.normal(size=rows)
    other -= other.mean() + (other @ x) * x
    y = r * x + math.sqrt(1 - r * r) * other / np.linalg.norm(other)
    scores = 0.6 + spread * math.sqrt(rows) * y
    return [scored(f"m{n}", v, v, year=2010 + n) for n, v in enumerate(scores)]


def test_no_correlation_needs_an_interval_round_zero():
    """Until now r = +0.64 [-0.38, +0.94] was "none"."""
    few = correlated(0.64, 5)
    told = found(few, correlates={"year": NONE})
    assert (told.verdict, told.scope) == ("not shown", "")
    assert "r +0.64" in told.evidence
    assert verdict(correlated(0.0, 10), correlates={"year": NONE}) == "not shown"
    many = correlated(0.0, 120)
    told = found(many, correlates={"year": NONE})
    assert (told.verdict, told.scope) == ("yes", "this test set")
    assert verdict(correlated(0.8, 40), correlates={"year": NONE}) == "no"
    assert verdict(correlated(-0.8, 40), correlates={"year": NONE}) == "no"
    assert verdict(correlated(0.8, 40), correlates={"year": {"least": 0}}) == "yes"
    assert verdict(correlated(0.8, 40), correlates={"year": {"most": 0}}) == "no"
    assert verdict(correlated(0.64, 5), correlates={"year": {"least": 0}}) == "not shown"


def test_a_correlation_is_of_rows_with_fishers_interval():
    random = np.random.default_rng(1)
    rows = [
        Scored(
            f"m{n}",
            [
                {"recall@1": 0.5 + n / 100 + random.normal(0, 0.02), "pi-ratio": n / 10, "rho": 1.0}
                for _ in range(3)
            ],
        )
        for n in range(12)
    ]
    told = correlation(rows, "pi-ratio")
    means = [np.mean([one["recall@1"] for one in row.cells]) for row in rows]
    wanted = stats.pearsonr(np.arange(12) / 10, means)
    interval = wanted.confidence_interval(0.95)
    assert told.rows == 12
    assert (told.r, told.low, told.high) == pytest.approx(
        (wanted.statistic, interval.low, interval.high)
    )
    assert verdict(rows, correlates={"pi-ratio": {"least": 0}}) == "yes"
    assert verdict(rows, correlates={"rho": {"least": 0}}) == "not shown"  # it does not vary
    assert verdict(rows[:3], correlates={"pi-ratio": {"least": 0}}) == "not shown"


def test_networks_that_stood_in_decide_nothing():
    """At small scale axes have the names of what was used."""
    claim = entry("thesis/networks").claims[0]
    used = ({"network": "resnet10t"}, {"network": "small-cnn"})
    rows = [scored("m", *(v + np.array([0, 0.001, 0.002])), axes=a)
            for v, a in zip((0.7, 0.6), used, strict=True)]  # fmt: skip
    told = judge(claim, rows)
    assert told.verdict == "not shown"
    assert "not tested" in told.evidence
    assert {row.axes["network"] for row in rows_of(entry("thesis/networks"), "small")}.isdisjoint(
        {"resnet50", "bn-inception", "googlenet"}
    )


def test_what_papers_report():
    ours = [
        scored("contrastive", 0.60, 0.61, 0.62, dataset="cub"),
        scored("triplet", 0.2, 0.21, 0.22, dataset="cub"),
    ]
    told = found(ours, pairs=[("contrastive", "reported")])
    assert (told.verdict, told.scope) == ("yes", "this test set")
    assert "papers report" in told.evidence
    assert verdict(ours, pairs=[("triplet", "reported")]) == "no"
    other = [scored("contrastive", 0.60, 0.61, 0.62)]  # other images, or another network
    assert verdict(other, pairs=[("contrastive", "reported")]) == "not shown"


def test_papers_are_of_the_same_images_and_network():
    small = rows_of(entry("reality-check/papers-versus-reality-cub"), "small")
    assert {row.dataset for row in small} == {""}
    whole = rows_of(entry("reality-check/papers-versus-reality-cub"))
    assert {row.dataset for row in whole} == {"cub"}


def printed(method, value, **more):
    number = Published(*("made", "cub", "n", 1, method, method, "recall@1", value, None, "test"),
                       *("paper", "", "", None, "table", ""))  # fmt: skip
    return Scored(method, [], published={"recall@1": number}, **more)


def test_the_printed_numbers_are_judged_beside():
    paper = [printed("a", 60.0), printed("b", 59.2), printed("c", 61.0)]
    assert found([], paper, pairs=[("a", "b")]).published == "yes"
    assert found([], paper, pairs=[("a", "others")]).published == "no"
    assert found([], paper, pairs=[("c", "a"), ("a", "b")]).published == "yes"
    assert found([], paper, **gap("a", "b", **SAME)).published == "yes"
    assert found([], paper, **gap("c", "b", **SAME)).published == "no"
    assert found([], paper, **gap("c", "a", most=1)).published == "no"  # not below 1.00
    assert found([], paper, pairs=[("a", "absent")]).published is None
    assert found([], [printed("a", None), printed("b", 1.0)], pairs=[("a", "b")]).published is None
    years = [printed(f"m{n}", 60 + n, year=2015 + n) for n in range(5)]
    assert found([], years, correlates={"year": NONE}).published == "no"
    assert found([], years, correlates={"rho": {"least": 0}}).published is None


def on_paper(name):
    """What the document's own numbers say of each claim of an entry."""
    one = entry(name)
    return [judge(claim, [], printed_rows(one)).published for claim in one.claims]


def test_four_tables_of_the_thesis_contradict_a_claim_of_their_slide():
    tables = [
        name for name in entries()
        if name.startswith(("thesis/cub-", "thesis/cars-"))
    ]  # fmt: skip
    assert len(tables) == 16
    contradicted = [name for name in tables if "no" in on_paper(name)]
    assert contradicted == [
        *("thesis/cub-resnet50-128", "thesis/cub-bn-inception-64", "thesis/cub-googlenet-128"),
        "thesis/cars-bn-inception-64",
    ]
    for name in tables:  # the slides say it of a network, over its sizes
        assert all("Said of the network" in claim.says for claim in entry(name).claims)


def test_claims_of_size_by_the_theses_own_numbers():
    """512 to 1024 gains 0.49, 0.67 and 0.66: the same, little, and "significantly"."""
    assert on_paper("thesis/sizes-cub-resnet50")[0] == "yes"
    assert on_paper("thesis/sizes-cub-bn-inception")[0] == "yes"
    assert on_paper("thesis/sizes-cub-googlenet")[0] == "no"
    assert on_paper("thesis/embeddings") == ["yes"]
    assert on_paper("metrix/cub") == ["yes", "yes"]
    assert on_paper("roth/sampler-cub") == [None]


def test_a_claim_says_one_thing():
    for given in ({}, {"pairs": [("a", "b")], "correlates": {"year": NONE}}):
        with pytest.raises(ValueError, match="either pairs or correlates"):
            Claim(says="x", **given)
    (one,) = Claim(says="x", pairs=[["a", "b"]]).pairs
    assert one.ends == (0, math.inf)
    several = Claim(says="x", pairs=[[["a", "b"], "others"]]).pairs
    assert [(pair.first, pair.second) for pair in several] == [("a", "others"), ("b", "others")]
