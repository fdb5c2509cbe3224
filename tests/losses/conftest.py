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


def _value_and_gradient(loss, embeddings, *rest):
    loss.to(embeddings.dtype)
    leaf = embeddings.detach().clone().requires_grad_()
    for weight in loss.parameters():
        weight.grad = None
    value = loss(leaf, *rest)
    value.sum().backward()
    gradients = [leaf.grad] + [w.grad for w in loss.parameters() if w.grad is not None]
    return value.detach().reshape(()), gradients


@pytest.fixture
def value_and_gradient():
    return _value_and_gradient
