import itertools

import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.evaluation import Mixes, distance_histogram


def unit(points):
    points = points.astype(np.float64)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.fixture(params=[7, 2048], autouse=True)
def _block(request, monkeypatch):
    monkeypatch.setattr("lookalike.evaluation.space.BLOCK", request.param)


def test_clean_pairs_equal_a_loop(clusters):
    points, labels = clusters(40, 6, 5)
    rows = unit(points)
    gaps = {True: [], False: []}
    for i, j in itertools.combinations(range(40), 2):
        gaps[bool(labels[i] == labels[j])].append(np.linalg.norm(rows[i] - rows[j]))
    found = distance_histogram(3 * points, [f"class {label}" for label in labels], bins=20)
    edges = np.linspace(0, 2, 21)
    assert found.edges == pytest.approx(edges)
    assert found.positive == pytest.approx(np.histogram(gaps[True], edges)[0])
    assert found.negative == pytest.approx(np.histogram(gaps[False], edges)[0])
    assert [part.sum() * 0.1 for part in found.densities()] == pytest.approx([1, 1])


def test_a_mix_counts_by_its_share(clusters):
    points, labels = clusters(20, 6, 4)
    random = np.random.default_rng(1)
    mixes = [(i, j) for i, j in random.integers(0, 20, (30, 2)) if labels[i] != labels[j]]
    first, second = np.array(mixes).T
    share = random.beta(2, 2, len(mixes))
    rows = unit(points)
    mixed = unit(share[:, None] * rows[first] + (1 - share)[:, None] * rows[second])
    edges = np.linspace(0, 2, 16)
    positive, negative = np.zeros(15), np.zeros(15)
    for (anchor, own), (m, v) in itertools.product(enumerate(labels.tolist()), enumerate(mixed)):
        if own not in (labels[first[m]], labels[second[m]]):
            continue
        y = share[m] if own == labels[first[m]] else 1 - share[m]
        place = np.searchsorted(edges, np.linalg.norm(rows[anchor] - v), "right") - 1
        positive[place] += y
        negative[place] += 1 - y
    given = Mixes(mixed, labels[first], labels[second], share)
    found = distance_histogram(points, labels, given, bins=15)
    assert found.positive == pytest.approx(positive)
    assert found.negative == pytest.approx(negative)


def test_the_ends_of_the_range():
    found = distance_histogram([[1.0, 0], [1.0, 0], [-1.0, 0]], [0, 0, 1], bins=4)
    assert found.positive.tolist() == [1, 0, 0, 0]
    assert found.negative.tolist() == [0, 0, 0, 2]
    none = distance_histogram([[1.0, 0], [-1.0, 0]], [0, 1], bins=4)
    assert none.densities()[0].tolist() == [0, 0, 0, 0]


def test_refusals(clusters):
    points, labels = clusters(10, 4, 3)
    with pytest.raises(BadInput, match="bins must be at least 1"):
        distance_histogram(points, labels, bins=0)
    with pytest.raises(BadInput, match="there are 10 embeddings but 9 labels"):
        distance_histogram(points, labels[1:])
    with pytest.raises(BadInput, match="4 columns and mixed ones 3"):
        distance_histogram(points, labels, Mixes(points[:, :3], labels, labels, np.ones(10)))
    with pytest.raises(BadInput, match="10 numbers from 0 to 1"):
        distance_histogram(points, labels, Mixes(points, labels, labels, np.full(10, 1.5)))
