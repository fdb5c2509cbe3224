import numpy as np
import pytest
from scipy import stats

from lookalike.evaluation.results import bootstrap_intervals


def test_agrees_with_scipy():
    values = np.random.default_rng(0).random(400) ** 2
    low, high = bootstrap_intervals({"map": values}, resamples=4000)["map"]
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method="percentile", random_state=1
    ).confidence_interval
    assert low == pytest.approx(theirs.low, abs=2e-3)
    assert high == pytest.approx(theirs.high, abs=2e-3)


def test_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(1)
    inside = 0
    for seed in range(200):
        low, high = bootstrap_intervals(
            {"recall@1": (random.random(150) < 0.7).astype(float)},
            confidence=0.8,
            resamples=200,
            seed=seed,
        )["recall@1"]
        inside += low <= 0.7 <= high
    assert 0.7 < inside / 200 < 0.9


def test_left_out_queries_and_seeds():
    values = np.array([0.1, np.nan, 0.5, 0.9, np.nan])
    found = bootstrap_intervals({"map": values}, seed=1)
    assert found == bootstrap_intervals({"map": values[[0, 2, 3]]}, seed=1)
    assert found["map"][0] < 0.5 < found["map"][1]
    empty = bootstrap_intervals({"map": np.array([np.nan])})["map"]
    assert np.isnan(empty).all()
    assert bootstrap_intervals({}) == {}


def test_in_several_rounds(monkeypatch):
    values = {"map": np.random.default_rng(2).random(100)}
    monkeypatch.setattr("lookalike.evaluation.results.DRAWS_AT_ONCE", 1000)
    low, high = bootstrap_intervals(values, resamples=995)["map"]
    assert low < values["map"].mean() < high
