"""Batches, and PML's reducer beside ours."""

import pytest
import pytorch_metric_learning.reducers as theirs
import torch

import lookalike.reducers as ours

WEIGHTS = [0.5, 2.0, 1.0, 3.0, 0.0, 1.5, 1.0, 0.25]

CASES = {
    "mean": ("MeanReducer", {}),
    "sum": ("SumReducer", {}),
    "avg-non-zero": ("AvgNonZeroReducer", {}),
    "low": ("ThresholdReducer", {"low": 0.3}),
    "high": ("ThresholdReducer", {"high": 0.9}),
    "low and high": ("ThresholdReducer", {"low": 0.1, "high": 1.1}),
    "class weights": ("ClassWeightedReducer", {"weights": torch.tensor(WEIGHTS)}),
    "per anchor": ("PerAnchorReducer", {}),
}


@pytest.fixture(params=CASES)
def both(request):
    """A reducer of ours and the same of PML."""
    name, settings = CASES[request.param]
    return getattr(ours, name)(**settings), getattr(theirs, name)(**settings)


@pytest.fixture
def batch():
    """Embeddings in float64 and labels of eight unequal classes."""

    def make(size=24, dim=6, seed=0):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(size, dim, dtype=torch.float64, generator=generator)
        return rows, torch.randint(0, 8, (size,), generator=generator)

    return make
