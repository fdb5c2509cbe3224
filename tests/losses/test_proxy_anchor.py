"""Proxy-anchor with one exponent a pair is proxy-anchor with two."""

import pytest
import torch

from lookalike.losses import ProxyAnchorLoss


@pytest.mark.parametrize("labels", [[0, 0, 1, 4, 4, 4], [3, 3, 3, 3, 3, 3]])
@pytest.mark.parametrize("margin", [0.1, -0.4, 0.0])
@pytest.mark.parametrize("weighed", [False, True])
def test_hard_labels_need_one_exponent(labels, margin, weighed):
    torch.manual_seed(0)
    loss = ProxyAnchorLoss(5, 8, margin=margin).double()
    rows = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    found = []
    for hard in (True, False):
        relations = loss.relations(rows, torch.tensor(labels))
        assert relations.binary
        if weighed:
            valid = torch.arange(30, dtype=torch.float64).view(5, 6).remainder(3)
            relations = relations._replace(valid=valid)
        value = loss.compute(relations._replace(binary=hard))
        found.append((value, *torch.autograd.grad(value, [rows, loss.proxies])))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("alpha", "margin"), [(500, 0.1), (45, 1.0), (45, -1.0)])
def test_large_exponents_take_the_careful_way(alpha, margin):
    loss = ProxyAnchorLoss(5, 8, alpha=alpha, margin=margin)
    rows = torch.cat([-loss.proxies.detach(), loss.proxies.detach()[:1]]).requires_grad_()
    value = loss(rows, torch.tensor([0, 0, 1, 4, 4, 4]))
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()
