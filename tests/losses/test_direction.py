"""Direction regularisation where an anchor and its positive are the same image."""

import pytest
import torch

from lookalike import losses

CLASSES = 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [3, 64])
@pytest.mark.parametrize("name", ["multi-similarity", "proxy-nca"])
def test_a_copy_has_no_direction(name, dim, dtype):
    """``cos(x_p - x_a, x_n - x_a)`` of equal x_p and x_a counts as 0, not as what rounding left.

    The squared distance of the two is 0 on one processor and 1e-16 on another, and the gradient is
    divided by its root.
    """
    torch.manual_seed(0)
    rows = torch.randn(CLASSES, dim, dtype=torch.float64).to(dtype)
    labels = torch.arange(CLASSES).repeat_interleave(2)
    found = []
    for direction in (0.3, 0):
        sizes = (
            {} if name == "multi-similarity" else {"num_classes": CLASSES, "embedding_size": dim}
        )
        loss = losses.create(name, direction=direction, **sizes).to(dtype)
        if name == "proxy-nca":
            with torch.no_grad():
                loss.proxies.copy_(rows)
        leaf = rows.repeat_interleave(2, 0).requires_grad_()
        value = loss(leaf, labels)
        found.append((value, torch.autograd.grad(value, leaf)[0]))
    (value, gradient), (expected, wanted) = found
    scale = 10 * torch.finfo(dtype).eps
    torch.testing.assert_close(value, expected, rtol=0, atol=scale)
    torch.testing.assert_close(gradient, wanted, rtol=0, atol=scale)
