"""Pairs and triplets that the data gives."""

import pytest
import torch
from torch.nn.functional import normalize

from lookalike import losses
from lookalike.errors import BadInput


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 7, 4, dtype=torch.float64, generator=generator)


SAME = torch.tensor([True, True, False, True, False, False, True])


def test_pairs_equal_a_loop(rows):
    first, second = normalize(rows[0]), normalize(rows[1])
    pull, push = [], []
    for x, y, same in zip(first, second, SAME.tolist(), strict=True):
        apart = (x - y).norm().item()
        (pull if same else push).append(max(apart - 0.3, 0) if same else max(1.5 - apart, 0))
    pull, push = ([value for value in part if value > 0] for part in (pull, push))
    expected = sum(pull) / len(pull) + sum(push) / len(push)
    loss = losses.FixedPairsLoss(losses.ContrastiveLoss(0.3, 1.5))
    assert loss(rows[0], rows[1], SAME).item() == pytest.approx(expected)
    assert loss(rows[0], rows[1], SAME.long()).item() == pytest.approx(expected)


@pytest.mark.parametrize("swap", [False, True])
def test_triplets_equal_torch(rows, swap):
    units = [normalize(part) for part in rows]
    loss = losses.FixedTripletsLoss(losses.TripletMarginLoss(0.4, swap=swap, reducer="mean"))
    theirs = torch.nn.TripletMarginLoss(0.4, swap=swap)
    torch.testing.assert_close(loss(*rows), theirs(*units), rtol=1e-5, atol=1e-6)


def test_gradients(rows):
    leaves = [part.clone().requires_grad_() for part in rows]
    triplets = losses.FixedTripletsLoss(losses.TripletMarginLoss(2.0))
    assert torch.autograd.gradcheck(triplets, leaves)
    pairs = losses.FixedPairsLoss(losses.BinomialDevianceLoss())
    assert torch.autograd.gradcheck(lambda x, y: pairs(x, y, SAME), leaves[:2])


@pytest.mark.parametrize(
    "name", ["contrastive", "binomial-deviance", "margin", "triplet", "supcon"]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_any_loss_and_type(name, dtype):
    loss = losses.create(name)
    for rows in (torch.randn(3, 6, 4), torch.ones(3, 6, 4), torch.zeros(3, 6, 4)):
        leaf = rows.to(dtype).requires_grad_()
        (
            losses.FixedTripletsLoss(loss)(*leaf)
            + losses.FixedPairsLoss(loss)(leaf[0], leaf[1], torch.ones(6))
        ).backward()
        assert leaf.grad.isfinite().all()


def test_on_a_device_without_numbers():
    rows = torch.randn(3, 6, 4, device="meta", requires_grad=True)
    losses.FixedTripletsLoss(losses.TripletMarginLoss())(*rows).backward()
    same = torch.ones(6, device="meta")
    losses.FixedPairsLoss(losses.ContrastiveLoss())(rows[0], rows[1], same).backward()
    assert rows.grad.shape == rows.shape


def test_refusals(rows):
    with pytest.raises(BadInput, match="truth value"):
        losses.FixedPairsLoss(losses.ContrastiveLoss())(rows[0], rows[1], SAME[:3])
    with pytest.raises(BadInput, match="shapes differ"):
        losses.FixedTripletsLoss(losses.TripletMarginLoss())(rows[0], rows[1], rows[2][:3])
    with pytest.raises(BadInput, match="needs labels"):
        losses.FixedTripletsLoss(losses.SmoothAPLoss())(*rows)
