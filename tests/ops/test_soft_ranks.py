"""Soft ranks against a loop, whole and in blocks."""

import math

import pytest
import torch

from lookalike.ops.fused import formulas_only
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.soft_ranks import soft_ranks
from lookalike.ops.sync import as_on_a_device

T = 0.3


@pytest.fixture
def matrices():
    generator = torch.Generator().manual_seed(0)
    similarity, weights, chosen = torch.rand(3, 5, 7, dtype=torch.float64, generator=generator)
    return similarity, weights * (weights > 0.3), (chosen > 0.6).double()


def naive(similarity, weights, i, j):
    return sum(
        weights[i, k].item() / (1 + math.exp((similarity[i, j] - similarity[i, k]).item() / T))
        for k in range(similarity.shape[1])
        if k != j
    )


@pytest.mark.parametrize("block", [1, 20, None])
def test_equals_a_loop(block, matrices, monkeypatch):
    similarity, weights, chosen = matrices
    if block is not None:
        monkeypatch.setattr("lookalike.ops.triplets._BLOCK", block)
    pairs = listed_pairs(chosen)
    places = chosen.nonzero().tolist()
    expected = torch.tensor([naive(similarity, weights, i, j) for i, j in places]).double()
    torch.testing.assert_close(
        soft_ranks(similarity, [weights], pairs, T)[0], expected, rtol=1e-6, atol=0
    )
    with as_on_a_device():  # where all pairs are listed
        everywhere = soft_ranks(similarity, [weights], listed_pairs(chosen), T).view_as(chosen)
    torch.testing.assert_close(everywhere[chosen > 0], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("block", [1, 20, None])
def test_gradients(block, matrices, monkeypatch):
    similarity, weights, chosen = matrices
    if block is not None:
        monkeypatch.setattr("lookalike.ops.triplets._BLOCK", block)
    pairs = listed_pairs(chosen)
    leaf = similarity.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: soft_ranks(s, [weights], pairs, T), leaf)
    assert torch.autograd.gradgradcheck(lambda s: soft_ranks(s, [weights], pairs, T), leaf)
    warm = torch.tensor(T, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda t: soft_ranks(similarity.detach(), [weights], pairs, t), warm
    )
    with formulas_only():
        expected = soft_ranks(leaf, [weights], pairs, T)
    torch.testing.assert_close(soft_ranks(leaf, [weights], pairs, T), expected)


def test_no_pairs(matrices):
    similarity, weights, chosen = matrices
    leaf = similarity.requires_grad_()
    found = soft_ranks(leaf, [weights], listed_pairs(chosen * 0), T)
    assert found.shape == (1, 0)
    found.sum().backward()
    assert not leaf.grad.any()


@pytest.mark.parametrize("block", [1, 3, 40, None])
@pytest.mark.parametrize("width", [1, 2, 7, 16, 29])
def test_all_pairs_in_few_operations(block, width, monkeypatch):
    """Rows in halves, whose halves are halved again; pieces that are too long for a block."""
    generator = torch.Generator().manual_seed(width)
    similarity, first, second, pull = torch.rand(
        4, 3, width, dtype=torch.float64, generator=generator
    )
    if block is not None:
        monkeypatch.setattr("lookalike.ops.blocks._SWEEP", block)

    def ranks(leaf):
        with as_on_a_device():
            return soft_ranks(leaf, [first, second], listed_pairs(torch.ones(3, width)), T)

    leaf = similarity.clone().requires_grad_()
    found = ranks(leaf)
    with formulas_only():
        expected = ranks(leaf)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weighed = torch.stack([pull.flatten(), 1 - pull.flatten()])
    (mine,) = torch.autograd.grad(found, leaf, weighed)
    (right,) = torch.autograd.grad(expected, leaf, weighed)
    torch.testing.assert_close(mine, right, rtol=1e-12, atol=1e-12)
    assert math.isclose(found[0, 0].item(), naive(similarity, first, 0, 0), abs_tol=1e-12)
