"""Who is mixed with whom, against plain loops."""

import pytest
import torch

from lookalike.errors import BadInput
from lookalike.mixing.pairs import MixedPairs, choose_pairs, partners, serves


def test_all_pairs_of_two_classes():
    labels = torch.tensor([1, 2, 1, 3])
    first, second = choose_pairs(labels, torch.eye(4), None)
    wanted = [(i, j) for i in range(4) for j in range(4) if labels[i] != labels[j]]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("k", [1, 2, 3, 50])
def test_the_most_similar_of_other_classes(k):
    labels = torch.tensor([1, 2, 1, 3, 1, 1])  # class 1 has two others only
    similarity = torch.randn(6, 6, generator=torch.Generator().manual_seed(k))
    first, second = choose_pairs(labels, similarity, k)
    wanted = []
    for i in range(6):
        others = [j for j in range(6) if labels[j] != labels[i]]
        others.sort(key=lambda j: -float(similarity[i, j]))
        wanted += [(i, j) for j in others[:k]]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == wanted


def test_one_class_has_no_pairs():
    first, second = choose_pairs(torch.tensor([7, 7, 7]), torch.eye(3), 2)
    assert first.numel() == second.numel() == 0


def test_large_labels_are_told_apart():
    first, _ = choose_pairs(torch.tensor([2**24, 2**24 + 1]), torch.eye(2), 1)
    assert first.tolist() == [0, 1]


def test_multi_hot_labels_are_refused():
    with pytest.raises(BadInput, match="one class number"):
        choose_pairs(torch.eye(3), torch.eye(3), 1)


def test_which_anchors_a_pair_serves():
    labels = torch.tensor([1, 2, 1, 1])
    alike = (labels[:, None] == labels).float()
    first = torch.tensor([0, 1, 3])
    assert serves(alike, first, "positive-negative").tolist() == [
        [0, 0, 1],
        [0, 0, 0],
        [1, 0, 1],
        [1, 0, 0],
    ]
    assert serves(alike, first, "anchor-negative").tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 0],
        [0, 0, 1],
    ]


def test_partners_of_an_anchor():
    labels = torch.tensor([1, 2, 1, 1, 4])
    first, there = partners(labels, "positive-negative")
    found = [row[mask > 0].tolist() for row, mask in zip(first, there, strict=True)]
    assert found == [[2, 3], [], [0, 3], [0, 2], []]
    first, there = partners(labels, "anchor-negative")
    assert first.squeeze(1).tolist() == [0, 1, 2, 3, 4]
    assert there.all()


def test_mixes_of_embeddings_and_of_maps():
    pairs = MixedPairs(torch.tensor([0, 2]), torch.tensor([1, 1]), torch.tensor([0.25, 1.0]))
    rows = torch.tensor([[4.0], [8.0], [2.0]])
    assert pairs.of(rows).tolist() == [[7.0], [2.0]]
    maps = rows.view(3, 1, 1, 1).expand(3, 2, 3, 3)
    assert torch.equal(pairs.of(maps)[0], torch.full((2, 3, 3), 7.0))
