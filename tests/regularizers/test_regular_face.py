"""The mean cosine to the nearest other class vector."""

import torch
from torch.nn.functional import normalize

from lookalike.regularizers import RegularFaceRegularizer


def test_against_loops():
    torch.manual_seed(0)
    rows = torch.randn(7, 5, dtype=torch.float64)
    unit = list(normalize(rows))
    nearest = [max(float(a @ b) for b in unit if b is not a) for a in unit]
    found = RegularFaceRegularizer()(rows)
    torch.testing.assert_close(found, torch.tensor(nearest, dtype=torch.float64).mean())


def test_one_vector_has_no_other():
    row = torch.ones(1, 5, requires_grad=True)
    found = RegularFaceRegularizer()(row)
    assert found == 0
    assert not torch.autograd.grad(found, row)[0].any()
