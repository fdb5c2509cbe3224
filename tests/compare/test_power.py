import numpy as np
import pytest

from lookalike.compare.power import Variances, variances
from lookalike.compare.uncertainty import Sample, differences


def sample(rng, gap, trainings=6, classes=80, by_class=0.03, by_training=0.002, both=0.02):
    shape = (2, trainings, classes)
    scores = 0.5 + rng.normal(0, by_class, (2, 1, classes)) + rng.normal(0, both, shape)
    scores += rng.normal(0, by_training, (2, trainings, 1))
    scores[0] += gap
    tables = dict(zip("ab", scores, strict=True))
    return Sample(("a", "b"), scores.mean(axis=2), tables, np.full(classes, 20))


def test_the_parts_of_the_variance_are_found():
    rng = np.random.default_rng(0)
    drawn = [sample(rng, 0.0, by_training=0.01).by_class for _ in range(200)]
    parts = [Variances.of(one["a"] - one["b"], np.full(80, 20)) for one in drawn]
    assert np.mean([one.trainings for one in parts]) == pytest.approx(2 * 0.01**2, rel=0.1)
    assert np.mean([one.classes for one in parts]) == pytest.approx(2 * 0.03**2, rel=0.1)
    assert np.mean([one.both for one in parts]) == pytest.approx(2 * 0.02**2, rel=0.1)


@pytest.mark.parametrize(("trainings", "classes"), [(5, 60), (10, 150)])
def test_the_detectable_difference_is_told_as_often_as_it_says(trainings, classes):
    rng = np.random.default_rng(1)
    true = Variances(2 * 0.002**2, 2 * 0.03**2, 2 * 0.02**2)
    gap = float(true.detectable(trainings, classes, power=0.8))
    told = 0
    for _ in range(200):
        (one,) = differences(sample(rng, gap, trainings, classes), resamples=500)
        told += one.holds and one.better == "a"
    assert 0.7 < told / 200 < 0.9


def test_one_training_says_nothing_of_trainings():
    (one,) = differences(found := sample(np.random.default_rng(6), 0.02, trainings=1))
    parts = variances(found, one)
    assert parts.trainings is None
    assert float(parts.detectable(1, 80)) > float(parts.detectable(1, 800))
    bare = Sample(found.names, found.totals, {}, np.empty(0, np.int64))
    (one,) = differences(bare)
    assert variances(bare, one) is None
