"""The two ways of counting agree with each other, with sorting, and with PML."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from lookalike.evaluation import evaluate
from lookalike.evaluation.counting import TileCounter
from lookalike.evaluation.inputs import embeddings_of
from lookalike.evaluation.ranks import (
    Ranks,
    Similarities,
    count_in_rows,
    rank_embeddings,
    rank_rows,
)
from lookalike.evaluation.relevance import Relevance


def both_ways(points, labels, distance="cosine", gallery=None, gallery_labels=None):
    rows = embeddings_of(points, "points", distance)
    items = None if gallery is None else embeddings_of(gallery, "gallery", distance)
    relevance = Relevance(labels, gallery_labels)
    lists = relevance.lists(0, len(rows))
    fast = TileCounter(rows, items, distance).count(0, *lists, relevance.symmetric)
    exact = Similarities(rows, items, distance, torch.float64)
    slow = count_in_rows(exact.rows(0, len(rows)), *lists)
    return fast, slow


def assert_equal_counts(one, other):
    for ours, theirs in zip(one, other, strict=True):  # above, equal
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("distance", ["cosine", "l2"])
@pytest.mark.parametrize(
    ("number", "classes", "noise"),
    [
        pytest.param(1500, 300, 1.0, id="few relevant"),
        pytest.param(1500, 30, 2.0, id="some"),
        pytest.param(1300, 3, 0.7, id="many, searched"),
        pytest.param(1300, 3, 3.0, id="many, noisy"),
    ],
)
def test_tiles_and_whole_rows_agree(clusters, distance, number, classes, noise):
    points, labels = clusters(number, 20, classes, noise)
    points[100:200] = points[300:400]  # the same pictures twice, mostly of other classes
    assert_equal_counts(*both_ways(points, labels, distance))


def test_tiles_and_whole_rows_agree_for_a_gallery(clusters):
    points, labels = clusters(2400, 20, 80)
    halves = both_ways(
        points[:1100], labels[:1100], gallery=points[1100:], gallery_labels=labels[1100:]
    )
    assert_equal_counts(*halves)


@pytest.mark.parametrize("most", [1, 64])
def test_single_precision_rows_agree_where_nothing_is_in_doubt(clusters, most, monkeypatch):
    """The way of a GPU, run on the CPU: by passes and by sorting."""
    monkeypatch.setattr("lookalike.evaluation.ranks.FEW", most)
    points, labels = clusters(300, 20, 12)
    rows = embeddings_of(points, "points")
    relevance = Relevance(labels)
    tiles = list(rank_embeddings(rows, None, relevance, memory_mb=64))
    dense = list(rank_rows(Similarities(rows), relevance, memory_mb=1))
    assert len(dense) > 1
    np.testing.assert_array_equal(
        np.concatenate([part.values for part in tiles]),
        np.concatenate([part.values for part in dense]),
    )


def test_repeated_pictures_tie_in_single_precision_rows():
    random = np.random.default_rng(0)
    few = random.normal(size=(40, 61)).astype(np.float32)
    points, labels = few[random.integers(0, 40, 300)], random.integers(0, 30, 300)
    rows, relevance = embeddings_of(points, "points"), Relevance(labels)
    lists = relevance.lists(0, 300)
    single = count_in_rows(Similarities(rows).rows(0, 300), *lists)
    assert_equal_counts(single, TileCounter(rows, None).count(0, *lists, True))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_small_whole_numbers_are_counted_exactly(data):
    """Ties everywhere, lists of any length, some empty."""
    number = data.draw(st.integers(1, 24))
    values = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    points = np.array(data.draw(st.lists(values, min_size=number, max_size=number)), np.float32)
    classes = st.lists(st.integers(0, 4), min_size=number, max_size=number)
    labels = np.array(data.draw(classes))
    assert_equal_counts(*both_ways(points, labels, "l2"))


def test_equal_queries_get_equal_ranks_wherever_they_stand(clusters):
    """A matrix product may round by position; the counts may not."""
    points, labels = clusters(2500, 512, 600, noise=4)
    points[2490], labels[2490] = points[3], labels[3]
    rows = embeddings_of(points, "points")
    (ranks,) = rank_embeddings(rows, None, Relevance(labels))
    first, second = (np.sort(ranks.values[slice(*ranks.offsets[q : q + 2])]) for q in (3, 2490))
    np.testing.assert_array_equal(first, second)


def test_the_share_of_queries_is_ranked_alone(clusters):
    points, labels = clusters(200, 8, 10)
    rows, relevance = embeddings_of(points, "points"), Relevance(labels)
    (whole,) = rank_embeddings(rows, None, relevance)
    (part,) = rank_embeddings(rows, None, relevance, span=(50, 90))
    expected = whole.values[whole.offsets[50] : whole.offsets[90]]
    np.testing.assert_array_equal(part.values, expected)


def test_a_collapsed_network_is_noticed(clusters):
    points, labels = clusters(300, 16, 10)
    relevance = Relevance(labels)
    assert TileCounter(embeddings_of(points, "points"), None).near_tie_fraction(relevance) < 0.01
    flat = embeddings_of(1 + 1e-7 * points, "points")
    assert TileCounter(flat, None).near_tie_fraction(relevance) > 0.9


def test_equals_pml(clusters):
    points, labels = clusters(600, 16, 25, noise=1.5)
    names = {
        "recall@1": "precision_at_1",
        "r-precision": "r_precision",
        "map@r": "mean_average_precision_at_r",
        "map": "mean_average_precision",
        "mrr": "mean_reciprocal_rank",
    }
    unit = torch.nn.functional.normalize(torch.from_numpy(points)), torch.from_numpy(labels)
    for k, *parts in ((599, slice(None)), (400, slice(200), slice(200, None))):
        calculator = AccuracyCalculator(include=tuple(names.values()), k=k)
        theirs = calculator.get_accuracy(*(tensor[part] for part in parts for tensor in unit))
        (own, *others) = [(points[part], labels[part]) for part in parts]
        found = evaluate(*own, tuple(names), *(each for other in others for each in other))
        for ours, name in names.items():
            assert found[ours] == pytest.approx(theirs[name], abs=1e-6), name


def test_ranks_of_nothing():
    relevance = Relevance(np.array([1, 2, 3]))
    (ranks,) = rank_embeddings(torch.eye(3), None, relevance)
    assert isinstance(ranks, Ranks)
    assert ranks.relevant.tolist() == [0, 0, 0]
    assert len(ranks.values) == 0
    (dense,) = rank_rows(Similarities(torch.eye(3)), relevance)
    assert len(dense.values) == 0


def test_importing_is_light():
    import subprocess
    import sys

    code = "import sys, lookalike.evaluation; print('numba' in sys.modules, 'faiss' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]
