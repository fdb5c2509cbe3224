"""Proxy-anchor where exponents are large."""

import pytest
import torch

from lookalike.losses import ProxyAnchorLoss


@pytest.mark.parametrize(("alpha", "margin"), [(500, 0.1), (45, 1.0), (45, -1.0)])
def test_large_exponents_are_finite(alpha, margin):
    loss = ProxyAnchorLoss(5, 8, alpha=alpha, margin=margin)
    rows = torch.cat([-loss.proxies.detach(), loss.proxies.detach()[:1]]).requires_grad_()
    value = loss(rows, torch.tensor([0, 0, 1, 4, 4, 4]))
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()
