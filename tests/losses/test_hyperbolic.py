"""Pairwise cross-entropy in the Poincare ball, against Moebius addition pair by pair."""

import math

import pytest
import torch

import lookalike.losses as losses
from lookalike.distances import HyperbolicDistance
from lookalike.errors import BadInput


def mapped(v, c, clip):
    """The exponential map at 0 of a list of numbers."""
    length = math.sqrt(sum(x * x for x in v))
    if length == 0:
        return v
    if clip is not None and length > clip:
        v, length = [x * clip / length for x in v], clip
    factor = math.tanh(math.sqrt(c) * length) / (math.sqrt(c) * length)
    return [factor * x for x in v]


def moebius(x, y, c):
    dot, xx, yy = (
        sum(a * b for a, b in zip(*pair, strict=True)) for pair in ((x, y), (x, x), (y, y))
    )
    below = 1 + 2 * c * dot + c * c * xx * yy
    one, other = (1 + 2 * c * dot + c * yy) / below, (1 - c * xx) / below
    return [one * a + other * b for a, b in zip(x, y, strict=True)]


def distance(v, w, c=0.1, clip=2.3):
    x, y = mapped(v, c, clip), mapped(w, c, clip)
    apart = math.sqrt(sum(a * a for a in moebius([-a for a in x], y, c)))
    return 2 / math.sqrt(c) * math.atanh(math.sqrt(c) * apart)


def rows_of(*scales):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(len(scales), 5, dtype=torch.float64, generator=generator)
    return rows * torch.tensor(scales, dtype=torch.float64).unsqueeze(1)


@pytest.mark.parametrize(("c", "clip"), [(0.1, 2.3), (1.0, 1.0), (0.05, None)])
def test_distances(c, clip):
    rows = rows_of(0, 0.1, 0.5, 1, 1, 2)
    kind = HyperbolicDistance(c, clip)
    expected = torch.tensor(
        [[distance(v, w, c, clip) for w in rows.tolist()] for v in rows.tolist()]
    ).double()
    torch.testing.assert_close(kind(rows), expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(kind(rows[:2], rows[2:]), expected[:2, 2:], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(kind.similarity(rows), -kind(rows))


def test_long_rows_stay_in_the_ball():
    far = HyperbolicDistance(clip_r=None)(rows_of(1e8, 1e8, 1e-8).float())
    assert far.isfinite().all()
    assert far[0, 1] > 20


def test_rows_of_one_length_are_ordered_as_by_the_cosine():
    rows = torch.nn.functional.normalize(rows_of(*[1.0] * 8))
    order = HyperbolicDistance()(rows).argsort(1)
    assert torch.equal(order, (rows @ rows.T).argsort(1, descending=True))


def naive(rows, labels, t):
    """The paper's loss: every positive pair against everything that is no other positive."""
    values, size = [], range(len(rows))
    for i in size:
        for j in size:
            if i == j or labels[i] != labels[j]:
                continue
            others = [k for k in size if k == j or labels[k] != labels[i]]
            below = sum(math.exp(-distance(rows[i], rows[k]) / t) for k in others)
            values.append(-math.log(math.exp(-distance(rows[i], rows[j]) / t) / below))
    return sum(values) / len(values)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 2]])
def test_equals_loops(labels):
    rows = rows_of(0.3, 0.5, 1, 1, 2, 0.1)
    found = losses.HyperbolicLoss(0.4)(rows, torch.tensor(labels))
    assert found.item() == pytest.approx(naive(rows.tolist(), labels, 0.4), rel=1e-9)


def test_gradients_at_every_length():
    rows = rows_of(0.3, 0.5, 1, 1, 2, 0.1).requires_grad_()
    loss = losses.HyperbolicLoss(0.4)
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), rows)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, labels), rows)


def test_settings():
    assert losses.HyperbolicLoss().distance == HyperbolicDistance(0.1, 2.3)
    assert losses.HyperbolicLoss(c=0.3, clip_r=None).distance == HyperbolicDistance(0.3, None)
    assert losses.create("triplet", distance="hyperbolic").distance == HyperbolicDistance()
    assert losses.create("hyperbolic", distance="l2").distance.p == 2
    with pytest.raises(BadInput, match="above 0"):
        HyperbolicDistance(c=0)
