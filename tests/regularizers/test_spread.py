"""What keeps embeddings from collapsing: the entropy (KoLeo) and the coding rate."""

import math

import pytest
import torch

from lookalike.regularizers import CodingRateRegularizer, KoLeoRegularizer

ROWS = [[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1], [0, 0.6, 0.8]]
"""The unit rows of the examples that were worked out by hand."""


def koleo(rows):
    """``-1/n sum_i log min_(j != i) |x_i - x_j|``, row by row."""
    nearest = [
        min((a - b).norm() for j, b in enumerate(rows) if j != i) for i, a in enumerate(rows)
    ]
    return -sum(distance.log() for distance in nearest) / len(rows)


def coding_rate(rows, eps):
    """``-1/2 log det(I + d/(n eps^2) sum_i x_i x_i')``, by the eigenvalues of the sum."""
    total = sum(torch.outer(row, row) for row in rows)
    values = torch.linalg.eigvalsh(total)
    return -(1 + rows.shape[1] / (len(rows) * eps**2) * values).log().sum() / 2


def test_by_hand():
    rows = torch.tensor(ROWS, dtype=torch.float64)
    assert float(KoLeoRegularizer()(rows)) == pytest.approx(0.284859, abs=5e-7)
    for squared, rate in ((0.5, 1.566145), (0.1, 3.427515)):
        found = CodingRateRegularizer(eps=math.sqrt(squared))(rows)
        assert float(found) == pytest.approx(-rate, abs=5e-7)
    torch.testing.assert_close(CodingRateRegularizer()(rows), coding_rate(rows, math.sqrt(0.5)))


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_against_loops(shape):
    torch.manual_seed(0)
    rows = torch.randn(shape, dtype=torch.float64)
    unit = rows / rows.norm(dim=1, keepdim=True)
    torch.testing.assert_close(KoLeoRegularizer(eps=0)(rows), koleo(unit))
    torch.testing.assert_close(CodingRateRegularizer(eps=0.3)(rows), coding_rate(unit, 0.3))
    rows.requires_grad_()
    for penalty in (KoLeoRegularizer(), CodingRateRegularizer()):
        assert torch.autograd.gradcheck(penalty, rows)
        assert torch.autograd.gradgradcheck(penalty, rows)


@pytest.mark.parametrize("penalty", [KoLeoRegularizer(), CodingRateRegularizer()])
def test_rows_that_have_collapsed(penalty):
    torch.manual_seed(0)
    spread = torch.randn(6, 4)
    for rows in (torch.ones(6, 4), torch.zeros(6, 4), torch.ones(1, 4), torch.ones(0, 4)):
        rows.requires_grad_()
        found = penalty(rows)
        (gradient,) = torch.autograd.grad(found, rows)
        assert found.isfinite()
        assert gradient.isfinite().all()
        if len(rows) == 6:
            assert found > penalty(spread)
    for dtype in (torch.float16, torch.bfloat16):
        torch.testing.assert_close(penalty(spread.to(dtype)), penalty(spread.to(dtype).float()))
