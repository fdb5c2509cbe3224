"""Batches and a way to get value and gradient, shared by the tests of losses."""

import pytest
import torch


def _batch(classes, size, dtype=torch.float64, dim=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if classes == "balanced":
        labels = torch.arange(size) % (size // 4)
    else:
        labels = torch.randint(0, size // 4, (size,), generator=generator)
    embeddings = torch.randn(size, dim, dtype=torch.float64, generator=generator)
    return embeddings.to(dtype), labels


@pytest.fixture
def batch():
    return _batch


def _value_and_gradient(loss, embeddings, *rest, **named):
    loss.to(embeddings.dtype)
    leaf = embeddings.detach().clone().requires_grad_()
    wanted = [leaf, *loss.parameters()]
    torch.manual_seed(1)
    value = loss(leaf, *rest, **named).sum()
    found = torch.autograd.grad(value, wanted, allow_unused=True, materialize_grads=True)
    return value.detach(), found


@pytest.fixture
def value_and_gradient():
    return _value_and_gradient


def _assert_same(ours, theirs, tolerance=1e-9):
    assert len(ours[1]) == len(theirs[1])
    torch.testing.assert_close(ours[0], theirs[0], rtol=tolerance, atol=tolerance / 10)
    for mine, other in zip(ours[1], theirs[1], strict=True):
        scale = other.abs().max().item() or 1.0
        torch.testing.assert_close(mine / scale, other / scale, rtol=0, atol=tolerance)


@pytest.fixture
def assert_same():
    return _assert_same
