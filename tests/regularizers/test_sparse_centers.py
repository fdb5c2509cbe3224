"""The penalty on the centres of a class: against loops, and where centres have merged."""

import pytest
import torch
from torch.nn.functional import normalize

from lookalike.regularizers import SparseCentersRegularizer


def by_loops(rows, classes, centers):
    """``sum_c sum_(k < l) sqrt(2 - 2 w_ck.w_cl) / (C K (K - 1))``."""
    unit = normalize(rows).view(classes, centers, -1)
    total = 0
    for of_class in unit:
        for k in range(centers):
            for l in range(k + 1, centers):  # noqa: E741
                total = total + (of_class[k] - of_class[l]).norm()
    return total / (classes * centers * (centers - 1))


def test_against_loops():
    torch.manual_seed(0)
    rows = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    found, expected = SparseCentersRegularizer(4, 3)(rows), by_loops(rows, 4, 3)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, rows)[0], torch.autograd.grad(expected, rows)[0]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [3, 64, 500])
def test_merged_centres_cost_nothing(dtype, dim):
    """The rounding of ``2 - 2 w.w'`` is no distance: its root would be 10,000 times larger."""
    torch.manual_seed(0)
    rows = torch.randn(20, dim, dtype=torch.float64).to(dtype).repeat_interleave(4, 0)
    rows.requires_grad_()
    found = SparseCentersRegularizer(20, 4)(rows)
    assert found == 0
    assert not torch.autograd.grad(found, rows)[0].any()
