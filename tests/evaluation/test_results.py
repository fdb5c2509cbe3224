import numpy as np
import pytest

from lookalike.evaluation.results import bootstrap_intervals


def test_agrees_with_classes_drawn_one_by_one():
    """Of n classes n - 1, each with all its queries: means of what was drawn."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 12, 300)
    values = random.random(300) ** 2 + labels / 10
    means = []
    for _ in range(4000):
        drawn = random.integers(0, 12, 11)
        means.append(np.mean(np.concatenate([values[labels == one] for one in drawn])))
    for summaries in (None, {"map": lambda some: float(np.mean(some))}):
        low, high = bootstrap_intervals(
            {"map": values}, labels, resamples=4000, summaries=summaries
        )["map"]
        assert low == pytest.approx(np.quantile(means, 0.025), abs=0.02)
        assert high == pytest.approx(np.quantile(means, 0.975), abs=0.02)


def test_covers_the_truth_as_often_as_it_says_where_classes_differ():
    """Queries taken for independent would give intervals that hold it in 30 % of 80."""
    random = np.random.default_rng(1)
    inside = 0
    labels = np.repeat(np.arange(40), 20)
    for seed in range(200):
        hard = random.beta(7, 3, 40)
        found = (random.random(800) < hard[labels]).astype(float)
        low, high = bootstrap_intervals(
            {"recall@1": found}, labels, confidence=0.8, resamples=200, seed=seed
        )["recall@1"]
        inside += low <= 0.7 <= high
    assert 0.7 < inside / 200 < 0.9


def test_left_out_queries_and_seeds():
    values, labels = np.array([0.1, np.nan, 0.5, 0.9, np.nan]), np.array([0, 3, 1, 2, 0])
    found = bootstrap_intervals({"map": values}, labels, seed=1)
    kept = [0, 2, 3]
    assert found == bootstrap_intervals({"map": values[kept]}, labels[kept], seed=1)
    assert found["map"][0] < 0.5 < found["map"][1]
    empty = bootstrap_intervals({"map": np.array([np.nan])}, np.array([0]))["map"]
    assert np.isnan(empty).all()
    assert bootstrap_intervals({}, labels) == {}


def test_of_one_class_nothing_is_known():
    found = bootstrap_intervals({"map": np.array([0.1, 0.9, 0.4])}, np.array(["a", "a", "a"]))
    assert np.isnan(found["map"]).all()


def test_multi_hot_queries_of_the_same_labels_are_drawn_together():
    labels = np.array([[True, False], [True, False], [True, True], [True, True]])
    found = bootstrap_intervals({"map": np.array([0.0, 0.2, 0.8, 1.0])}, labels)
    assert found["map"] == (0.1, 0.9)


def test_in_several_rounds(monkeypatch):
    values, labels = {"map": np.random.default_rng(2).random(100)}, np.arange(100) // 5
    whole = bootstrap_intervals(values, labels, resamples=995)
    monkeypatch.setattr("lookalike.evaluation.results.DRAWS_AT_ONCE", 1000)
    low, high = bootstrap_intervals(values, labels, resamples=995)["map"]
    assert low < values["map"].mean() < high
    assert whole["map"] == (low, high)
