"""The analysis of variance behind intervals, the detectable difference and the shares."""

import numpy as np
import pytest
from scipy import stats

from lookalike.compare.uncertainty import Sample, differences
from lookalike.compare.variance import Variance, detectable

ONES = np.ones(30, np.int64)


@pytest.fixture
def gap():
    """A difference that varies by class and, less, by training run: [6, 30]."""
    rng = np.random.default_rng(1)
    return 0.08 + rng.normal(0, 0.04, (1, 30)) + rng.normal(0, 0.01, (6, 30))


def test_the_standard_errors_are_those_of_students_tests(gap):
    found, mean = Variance.of(gap, ONES), gap.mean()
    over_runs, over_classes = (stats.ttest_1samp(gap.mean(axis=axis), 0) for axis in (1, 0))
    assert mean / found.over_runs**0.5 == pytest.approx(over_runs.statistic)
    assert mean / found.over_classes**0.5 == pytest.approx(over_classes.statistic)
    one = Variance.of(gap[:1], ONES)
    assert one.runs is None
    assert one.p(gap[0].mean()) == pytest.approx(stats.ttest_1samp(gap[0], 0).pvalue)
    # min F' of Clark (1973): 1 / F' = 1 / F1 + 1 / F2, for t^2 = F
    first, second = mean**2 / found.over_runs, mean**2 / found.over_classes
    assert mean**2 / found.of_mean == pytest.approx(first * second / (first + second))
    # Cochran and Cox (1950): between the quantiles of the two, nearer to the larger source
    few, many = stats.t.ppf(0.975, 5), stats.t.ppf(0.975, 29)
    weights = [found.over_runs, found.over_classes]
    assert found.quantile(0.975) == pytest.approx(np.average([few, many], weights=weights))
    assert one.quantile(0.975) == pytest.approx(many)


def test_unequal_classes_have_the_variance_of_a_ratio():
    """Against the linearised ratio by many draws from a population."""
    rng = np.random.default_rng(7)
    means, claimed = [], []
    for _ in range(2_000):
        queries = rng.integers(5, 60, 40)
        values = rng.normal(0, 1, (1, 40)) * (queries / 30)
        means.append(np.average(values[0], weights=queries))
        claimed.append(Variance.of(values, queries).over_classes)
    assert np.mean(claimed) == pytest.approx(np.var(means), rel=0.12)


def test_p_is_not_below_that_over_training_runs():
    """Two training runs that differ say little, however many classes there are."""
    found = Variance(runs=0.1, classes=5.0, both=0.0, n_runs=2, n_classes=100)
    over_runs, over_classes = (2 * stats.t.sf(1 / 0.1**0.5, count) for count in (1, 99))
    alone = 2 * stats.t.sf(1 / 0.05**0.5, 1)  # 0.140
    assert (over_runs + over_classes) / 2 < 0.1 < alone
    assert found.p(1.0) == pytest.approx(alone)


def sample(rng, gap, runs=6, classes=80, by_class=0.03, by_run=0.002, both=0.02):
    shape = (2, runs, classes)
    scores = 0.5 + rng.normal(0, by_class, (2, 1, classes)) + rng.normal(0, both, shape)
    scores += rng.normal(0, by_run, (2, runs, 1))
    scores[0] += gap
    tables = dict(zip("ab", scores, strict=True))
    return Sample(("a", "b"), scores.mean(axis=2), tables, np.full(classes, 20))


def test_the_parts_of_the_variance_are_found():
    """What is seen of runs and of classes contains its share of what varies by both."""
    rng = np.random.default_rng(0)
    drawn = [sample(rng, 0.0, by_run=0.01).by_class for _ in range(200)]
    found = [Variance.of(one["a"] - one["b"], np.full(80, 20)) for one in drawn]
    both = 2 * 0.02**2
    assert np.mean([one.both for one in found]) == pytest.approx(both, rel=0.1)
    runs, classes = (np.mean([getattr(one, name) for one in found]) for name in ("runs", "classes"))
    assert runs == pytest.approx(2 * 0.01**2 + both / 80, rel=0.1)
    assert classes == pytest.approx(2 * 0.03**2 + both / 6, rel=0.1)


@pytest.mark.parametrize(("runs", "classes"), [(5, 60), (10, 150)])
def test_the_detectable_difference_is_told_as_often_as_it_says(runs, classes):
    rng = np.random.default_rng(1)
    both, many = 2 * 0.02**2, 10**6  # of so many, each source is seen as it is
    true = Variance(2 * 0.002**2, 2 * 0.03**2, both, many, many)
    gap = float(detectable([true], runs, classes, power=0.8))
    told = 0
    for _ in range(200):
        (one,) = differences(sample(rng, gap, runs, classes), resamples=500)
        told += one.holds and one.better == "a"
    assert 0.7 < told / 200 < 0.9


def test_one_training_run_says_nothing_of_training_runs():
    drawn = sample(np.random.default_rng(6), 0.02, runs=1).by_class
    found = Variance.of(drawn["a"] - drawn["b"], np.full(80, 20))
    assert float(detectable([found], 1, 80)) > float(detectable([found], 1, 800))
