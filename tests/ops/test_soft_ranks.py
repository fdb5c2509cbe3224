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
        soft_ranks(similarity, weights, pairs, T), expected, rtol=1e-6, atol=0
    )
    with as_on_a_device():  # where all pairs are listed
        everywhere = soft_ranks(similarity, weights, listed_pairs(chosen), T).view_as(chosen)
    torch.testing.assert_close(everywhere[chosen > 0], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("block", [1, 20, None])
def test_gradients(block, matrices, monkeypatch):
    similarity, weights, chosen = matrices
    if block is not None:
        monkeypatch.setattr("lookalike.ops.triplets._BLOCK", block)
    pairs = listed_pairs(chosen)
    leaf = similarity.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: soft_ranks(s, weights, pairs, T), leaf)
    assert torch.autograd.gradgradcheck(lambda s: soft_ranks(s, weights, pairs, T), leaf)
    warm = torch.tensor(T, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda t: soft_ranks(similarity.detach(), weights, pairs, t), warm
    )
    with formulas_only():
        expected = soft_ranks(leaf, weights, pairs, T)
    torch.testing.assert_close(soft_ranks(leaf, weights, pairs, T), expected)


def test_no_pairs(matrices):
    similarity, weights, chosen = matrices
    leaf = similarity.requires_grad_()
    found = soft_ranks(leaf, weights, listed_pairs(chosen * 0), T)
    assert found.shape == (0,)
    found.sum().backward()
    assert not leaf.grad.any()
