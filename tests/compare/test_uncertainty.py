import itertools

import numpy as np
import pytest
from scipy import stats

from lookalike.compare.uncertainty import (
    Sample,
    class_intervals,
    differences,
    resampled_scores,
    sign_flip_tests,
)
from lookalike.errors import BadInput


def make(by_class, queries=None, names=None):
    """A sample of ``by_class[method, training, class]``."""
    by_class = np.asarray(by_class, float)
    queries = np.ones(by_class.shape[2], np.int64) if queries is None else queries
    names = names or tuple("abcdefgh"[: len(by_class)])
    totals = np.average(by_class, axis=2, weights=queries)
    return Sample(names, totals, dict(zip(names, by_class, strict=True)), queries)


@pytest.fixture
def scores():
    """Three methods, 6 trainings, 30 classes: a is better than b, b and c are equal."""
    rng = np.random.default_rng(1)
    level = rng.normal(0.5, 0.2, 30)
    found = level + rng.normal(0, 0.03, (3, 1, 30)) + rng.normal(0, 0.01, (3, 6, 30))
    found[0] += 0.08
    return found


def test_a_resample_is_the_weighted_mean_of_drawn_trainings_and_classes():
    """Against loops, with the same draws: all queries of a class move together."""
    rng = np.random.default_rng(3)
    tables, queries = rng.random((2, 3, 7)), rng.integers(1, 9, 7)
    found = resampled_scores(tables, queries, resamples=50, seed=8)
    drawing = np.random.default_rng(8)
    classes = drawing.integers(0, 7, (50, 6))
    trainings = drawing.integers(0, 3, (50, 2))
    for at in range(50):
        for method in range(2):
            scores = [
                sum(tables[method, r, c] * queries[c] for c in classes[at])
                / sum(queries[c] for c in classes[at])
                for r in trainings[at]
            ]
            assert found[at, method] == pytest.approx(np.mean(scores))


def test_large_sets_are_resampled_in_several_rounds(monkeypatch):
    tables, queries = np.random.default_rng(0).random((2, 2, 50)), np.ones(50, np.int64)
    whole = resampled_scores(tables, queries, resamples=2_995)
    monkeypatch.setattr("lookalike.compare.uncertainty.NUMBERS_AT_ONCE", 1_000)
    found = resampled_scores(tables, queries, resamples=2_995)
    assert found.mean(axis=0) == pytest.approx(whole.mean(axis=0), abs=0.01)
    assert found.std(axis=0) == pytest.approx(whole.std(axis=0), rel=0.1)


@pytest.mark.parametrize("trainings", [2, 3, 10])
def test_the_variance_of_few_trainings_is_not_underestimated(trainings):
    """Of n, n - 1 are drawn: the bootstrap's variance is s^2 / n also for n = 2."""
    rng = np.random.default_rng(5)
    tables = np.repeat(rng.normal(size=(1, trainings, 1)), 8, axis=2)  # classes do not vary
    found = resampled_scores(tables, np.ones(8, np.int64), resamples=40_000)
    expected = tables[0, :, 0].var(ddof=1) / trainings
    assert found[:, 0].var() == pytest.approx(expected, rel=0.03)


def test_random_signs_agree_with_all_signs():
    rng = np.random.default_rng(2)
    values, queries = rng.normal(0.4, 1, (3, 8)), rng.integers(1, 5, 8)
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    weighted = values * queries
    exact = (np.abs(signs @ weighted.T) >= np.abs(weighted.sum(axis=1)) - 1e-12).mean(axis=0)
    found = sign_flip_tests(values, queries, permutations=20_000)
    assert found == pytest.approx(exact.tolist(), abs=0.012)
    assert sign_flip_tests(np.zeros((1, 8)), queries) == [1.0]


def test_enough_signs_for_many_pairs():
    (p, *_) = sign_flip_tests(np.ones((1_000, 30)), np.ones(30, np.int64))
    assert p * 1_000 < 0.05


def test_both_intervals_of_every_pair(scores):
    found = {(d.better, d.worse): d for d in differences(make(scores))}
    one = found["a", "b"]
    gap = (scores[0] - scores[1]).mean(axis=1)
    expected = stats.ttest_1samp(gap, 0).confidence_interval(0.95)
    bounds = one.over_trainings
    assert (bounds.low, bounds.high) == pytest.approx((expected.low, expected.high))
    assert one.over_classes.low < bounds.low < one.mean < bounds.high < one.over_classes.high
    assert (one.scope, one.holds, one.trainings, one.classes) == ("generalizes", True, 6, 30)
    assert one.share == 1.0
    (rest,) = [d for pair, d in found.items() if "a" not in pair]
    assert not rest.holds
    assert rest.adjusted >= rest.p


def test_what_holds_for_these_classes_only():
    """Trainings agree to the last, classes do not."""
    rng = np.random.default_rng(9)
    own = rng.normal(0.01, 0.1, (1, 1, 40))
    scores = np.concatenate(
        [0.5 + own + rng.normal(0, 0.001, (1, 5, 40)), np.full((1, 5, 40), 0.5)]
    )
    (one,) = differences(make(scores))
    assert one.over_trainings.above_zero
    assert not one.over_classes.above_zero
    assert one.scope == "this test set"
    assert not one.holds


def test_one_training_is_never_better(scores):
    (one, *_) = differences(make(scores[:, :1]))
    assert one.over_trainings is None
    assert one.p_trainings is None
    assert one.over_classes.above_zero
    assert (one.scope, one.holds) == ("these training runs", False)


def test_without_scores_per_class_nothing_is_said_of_other_classes(scores):
    sample = make(scores)
    bare = Sample(sample.names, sample.totals, {}, np.empty(0, np.int64))
    assert bare.classes == 0
    assert class_intervals({}, bare.queries) == {}
    for one in differences(bare):
        assert (one.over_classes, one.adjusted, one.share, one.classes) == (None, None, None, 0)
        assert one.scope in ("this test set", "open")
    some = Sample(sample.names, sample.totals, {"a": scores[0], "c": scores[2]}, sample.queries)
    known = {(d.better, d.worse): d.over_classes is not None for d in differences(some)}
    assert {pair for pair, has in known.items() if has} == {("a", "c")}


def test_four_classes_are_too_few(scores):
    for one in differences(make(scores[:, :, :4])):
        assert one.over_classes is None


def test_equal_methods():
    same = np.full((3, 4, 10), 0.5)
    for one in differences(make(same)):
        assert (one.p, one.p_trainings, one.scope, one.share) == (1.0, 1.0, "open", 0.5)


def test_baselines_are_not_compared_with_each_other(scores):
    found = differences(make(scores), not_among=("b", "c"))
    assert {(d.better, d.worse) for d in found} == {("a", "b"), ("a", "c")}


def test_the_interval_of_a_score(scores):
    tables = dict(zip("abc", scores, strict=True))
    found = class_intervals(tables, np.ones(30, np.int64))
    mean, half = scores[1].mean(), 1.96 * scores[1].mean(axis=0).std(ddof=1) / 30**0.5
    assert found["b"].low == pytest.approx(mean - half, abs=0.012)
    assert found["b"].high == pytest.approx(mean + half, abs=0.012)
    assert found == class_intervals(tables, np.ones(30, np.int64))  # seeded


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make([[[0.5, np.nan]]]), "every training run needs"),
        (lambda: make(np.ones((2, 2, 5)), names=("a", "a")), "a name of its own"),
        (
            lambda: Sample(("a",), np.ones((1, 2)), {"a": np.ones((3, 5))}, np.ones(5)),
            "2 training runs",
        ),
        (lambda: differences(make(np.ones((2, 2, 5))), 95), "between 0 and 1"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_a_permutation_test_never_says_zero():
    """The observed signs are one of the permutations: ``(beyond + 1) / (count + 1)``."""
    ones = np.ones((1, 40))
    assert sign_flip_tests(ones, np.ones(40, np.int64), permutations=99) == [pytest.approx(0.01)]
