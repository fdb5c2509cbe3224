"""Who is mixed with whom, against plain loops."""

import pytest
import torch

from lookalike.errors import BadInput
from lookalike.mixing.pairs import (
    MixedPairs,
    all_pairs,
    columns_of,
    hard_pairs,
    random_pairs,
)


def listed(*indices):
    return list(zip(*(values.tolist() for values in indices), strict=True))


def test_all_pairs_of_two_classes():
    labels = torch.tensor([1, 2, 1, 3])
    wanted = [(i, j) for i in range(4) for j in range(4) if labels[i] != labels[j]]
    assert listed(*all_pairs(labels)) == wanted


@pytest.mark.parametrize("k", [1, 2, 3, 50])
def test_the_negatives_most_similar_to_the_anchor(k):
    labels = torch.tensor([1, 2, 1, 3, 1, 1])  # class 1 has two others only
    similarity = torch.randn(6, 6, generator=torch.Generator().manual_seed(k))
    wanted = []
    for a in range(6):
        others = [j for j in range(6) if labels[j] != labels[a]]
        others.sort(key=lambda j, a=a: -float(similarity[a, j]))
        wanted += [(a, a, j) for j in others[:k]]
    assert listed(*hard_pairs(labels, similarity, k, draw_positive=False)) == wanted
    with_positive = [(a, j) for a, _, j in wanted if labels[a] == 1]
    anchor, first, second = hard_pairs(labels, similarity, k, draw_positive=True)
    assert listed(anchor, second) == with_positive
    assert all(a != i and labels[a] == labels[i] for a, i in listed(anchor, first))


def test_every_positive_is_drawn_equally_often():
    labels = torch.tensor([1, 2, 1, 1, 1])
    torch.manual_seed(0)
    drawn = torch.zeros(5, 5)
    for _ in range(3000):
        anchor, first, _ = hard_pairs(labels, torch.zeros(5, 5), 1, draw_positive=True)
        drawn[anchor, first] += 1
    same = [0, 2, 3, 4]
    for a in same:
        for i in same:
            expected = 0 if a == i else 1000
            assert abs(drawn[a, i] - expected) < 5 * (3000 * (1 / 3) * (2 / 3)) ** 0.5


def test_one_class_has_no_pairs():
    labels = torch.tensor([7, 7, 7])
    assert listed(*all_pairs(labels)) == []
    for draw in (True, False):
        assert listed(*hard_pairs(labels, torch.eye(3), 2, draw_positive=draw)) == []


def test_large_labels_are_told_apart():
    assert listed(*all_pairs(torch.tensor([2**24, 2**24 + 1]))) == [(0, 1), (1, 0)]


def test_multi_hot_labels_are_refused():
    with pytest.raises(BadInput, match="one class index per image"):
        all_pairs(torch.eye(3))


def test_the_columns_of_each_row_and_which_of_them_are_there():
    mask = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    columns, there = columns_of(mask)
    assert there.tolist() == [[True, True], [False, False], [True, False]]
    assert columns[0].tolist() == [1, 2]
    assert int(columns[2, 0]) == 0


def test_mixes_of_embeddings_and_of_maps():
    pairs = MixedPairs(torch.tensor([0, 2]), torch.tensor([1, 1]), torch.tensor([0.25, 1.0]))
    rows = torch.tensor([[4.0], [8.0], [2.0]])
    assert pairs.of(rows).tolist() == [[7.0], [2.0]]
    assert pairs.part(torch.tensor([1])).of(rows).tolist() == [[2.0]]
    maps = rows.view(3, 1, 1, 1).expand(3, 2, 3, 3)
    assert torch.equal(pairs.of(maps)[0], torch.full((2, 3, 3), 7.0))


def test_random_pairs_are_uniform_over_the_pairs_of_different_classes():
    labels = torch.tensor([3, 1, 3, 0, 1, 3])
    pairs = random_pairs(labels, 40_000, alpha=2, seed=1)
    assert (labels[pairs.first] != labels[pairs.second]).all()
    firsts = torch.bincount(pairs.first, minlength=6) / 40_000
    assert firsts.tolist() == pytest.approx([1 / 6] * 6, abs=0.01)
    seconds = torch.bincount(pairs.second[pairs.first == 0], minlength=6).double()
    assert (seconds / seconds.sum()).tolist() == pytest.approx(
        [0, 1 / 3, 0, 1 / 3, 1 / 3, 0], abs=0.03
    )
    assert float(pairs.share.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(pairs.share.var()) == pytest.approx(1 / 20, abs=0.002)  # of Beta(2, 2)
    again = random_pairs(labels, 40_000, alpha=2, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(pairs, again, strict=True))
    with pytest.raises(BadInput, match="two classes"):
        random_pairs(torch.zeros(4, dtype=torch.long), 2)
