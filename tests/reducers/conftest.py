"""Batches of unequal classes."""

import pytest
import torch


@pytest.fixture
def batch():
    """Embeddings in float64 and labels of eight unequal classes."""

    def make(size=24, dim=6, seed=0):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(size, dim, dtype=torch.float64, generator=generator)
        return rows, torch.randint(0, 8, (size,), generator=generator)

    return make
