"""How often miners draw what, counted, and what they take of candidates that are equally near."""

import math

import pytest
import torch

from lookalike import miners


def on_circle(*chords):
    """Unit vectors in three dimensions at these distances from the first, (0, 0, 1)."""
    rows = [[0.0, 0.0, 1.0]]
    for number, chord in enumerate(chords):
        height = 1 - chord**2 / 2
        turn = 2.1 * number
        side = math.sqrt(1 - height**2)
        rows.append([side * math.cos(turn), side * math.sin(turn), height])
    return torch.tensor(rows)


def test_distance_weighted_draws_by_the_inverse_density():
    """In D dimensions by ``d^(2 - D) (1 - d^2/4)^(-(D - 3)/2)``: for D = 3 by ``1 / d``."""
    torch.manual_seed(0)
    miner = miners.create("distance-weighted")
    embeddings, labels = on_circle(1.0, 0.6, 1.3), torch.tensor([0, 0, 1, 2])
    drawn = []
    for _ in range(3000):
        anchor, _, negative = miner(embeddings, labels)
        drawn += negative[anchor == 0].tolist()
    expected = (1 / 0.6) / (1 / 0.6 + 1 / 1.3)
    assert len(drawn) == 3000
    assert drawn.count(2) / 3000 == pytest.approx(expected, abs=0.025)  # three deviations


def test_distance_weighted_in_many_dimensions():
    torch.manual_seed(0)
    miner = miners.create("distance-weighted")
    size, (near, far) = 8, (1.0, 1.3)
    embeddings = torch.nn.functional.pad(on_circle(1.1, near, far), (0, size - 3))
    drawn = []
    for _ in range(3000):
        anchor, _, negative = miner(embeddings, torch.tensor([0, 0, 1, 2]))
        drawn += negative[anchor == 0].tolist()
    first, second = (d ** (2 - size) * (1 - d**2 / 4) ** (-(size - 3) / 2) for d in (near, far))
    assert drawn.count(2) / 3000 == pytest.approx(first / (first + second), abs=0.025)


def test_rho_replaces_by_every_classmate_alike():
    """Which classmate is pushed away does not depend on whether a triplet is replaced."""
    torch.manual_seed(0)
    size, probability = 6, 0.2
    embeddings = torch.nn.functional.normalize(torch.randn(2 * size, 4), dim=1)
    labels = torch.arange(2).repeat_interleave(size)
    miner = miners.create("rho", miner="semi-hard", probability=probability)
    replaced = torch.zeros(2 * size, 2 * size)
    total = 0
    for _ in range(200):
        anchor, positive, negative = miner(embeddings, labels)
        own = anchor == positive
        assert (labels[anchor[own]] == labels[negative[own]]).all()
        assert (anchor[own] != negative[own]).all()
        replaced.index_put_((anchor[own], negative[own]), torch.ones(int(own.sum())), True)
        total += len(anchor)
    assert float(replaced.sum()) / total == pytest.approx(probability, abs=0.02)
    of_class = replaced[labels.unsqueeze(1) == labels].view(2 * size, size)
    others = of_class[~torch.eye(size, dtype=torch.bool).repeat(2, 1)].view(2 * size, size - 1)
    expected = others.sum(1, keepdim=True) / (size - 1)
    assert (others - expected).abs().max() < 5 * expected.max().sqrt()


AXES = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [-1, 0, 0]])
"""From the first: three at the same distance, one farther; every product is exact."""


@pytest.mark.parametrize(("labels", "found"), [([0, 0, 1, 2, 3], [4]), ([0, 0, 1, 2, 0], [])])
def test_a_negative_as_near_as_the_positive_is_not_semi_hard(labels, found):
    """``d_ap < d_an``, strictly: of the anchor (1, 0, 0) and its positive (0, 1, 0)."""
    miner = miners.create("semi-hard", fallback="none")
    anchor, positive, negative = miner(AXES, torch.tensor(labels))
    mine = (anchor == 0) & (positive == 1)
    assert negative[mine].tolist() == found


def test_a_negative_at_the_margin_is_not_semi_hard():
    """``d_an < d_ap + margin``, strictly: of cosines 1, 0 and -1, which are exact."""
    labels = torch.tensor([0, 0, 1, 2, 3])
    for margin, found in ((1, []), (1.5, [4])):
        miner = miners.create("semi-hard", distance="cosine", margin=margin, fallback="none")
        anchor, positive, negative = miner(AXES, labels)
        assert negative[(anchor == 0) & (positive == 1)].tolist() == found


def test_the_fallback_of_equals_is_the_nearest():
    miner = miners.create("semi-hard", fallback="hardest", margin=0.1)
    anchor, positive, negative = miner(AXES, torch.tensor([0, 0, 1, 2, 3]))
    mine = (anchor == 0) & (positive == 1)
    assert negative[mine].tolist() in ([2], [3])  # both as near; (-1, 0, 0) is beyond the margin


@pytest.mark.parametrize(
    ("kind", "margin", "negatives"),
    [
        ("all", 1, [2, 3, 4]),  # gap <= margin
        ("hard", 1, [2, 3]),  # gap <= 0
        ("semihard", 1, [4]),  # 0 < gap <= margin
        ("easy", 1, []),  # gap > margin
        ("easy", 0, [4]),
        ("easy", 0.5, [4]),
    ],
)
def test_a_gap_of_zero_is_hard_and_of_the_margin_not_easy(kind, margin, negatives):
    """Of the anchor (1, 0, 0) and its positive (0, 1, 0): gaps of cosines 0, 0 and 1, exact."""
    miner = miners.create("triplet-margin", distance="cosine", margin=margin, type_of_triplets=kind)
    anchor, positive, negative = miner(AXES, torch.tensor([0, 0, 1, 2, 3]))
    assert negative[(anchor == 0) & (positive == 1)].tolist() == negatives


@pytest.mark.parametrize(
    ("strategies", "labels", "pairs"),
    [
        # negatives at the distance of the positive are not beyond it
        ({"pos_strategy": "easy", "neg_strategy": "semihard"}, [0, 0, 1, 2, 3], (1, 4)),
        ({"pos_strategy": "easy", "neg_strategy": "semihard"}, [0, 0, 1, 2, 0], None),
        # a positive at the distance of the negative is not before it
        ({"pos_strategy": "semihard", "neg_strategy": "hard"}, [0, 0, 1, 2, 3], None),
        ({"pos_strategy": "semihard", "neg_strategy": "easy"}, [0, 0, 1, 2, 3], (1, 4)),
    ],
)
def test_equal_distances_are_not_semi_hard_for_easy_and_hard(strategies, labels, pairs):
    miner = miners.create("easy-positive", **strategies)
    anchor, positive, other, negative = miner(AXES, torch.tensor(labels))
    found = (positive[anchor == 0].tolist(), negative[other == 0].tolist())
    assert found == (([], []) if pairs is None else ([pairs[0]], [pairs[1]]))


def test_one_of_equal_candidates_is_taken():
    miner = miners.create("easy-positive", pos_strategy="easy", neg_strategy="hard")
    anchor, positive, other, negative = miner(AXES, torch.tensor([0, 0, 1, 2, 0]))
    assert positive[anchor == 0].tolist() == [1]
    assert len(negative[other == 0]) == 1
    assert negative[other == 0].item() in (2, 3)
