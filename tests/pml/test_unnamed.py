"""What must hold for the losses that are classes only, as for those with a name."""

import pytest
import torch

from lookalike.pml import losses

DIM, CLASSES = 5, 6
DEGENERATE = {
    "no positives": (torch.randn(6, DIM), torch.arange(6)),
    "one class": (torch.randn(6, DIM), torch.zeros(6, dtype=torch.long)),
    "one image": (torch.randn(1, DIM), torch.zeros(1, dtype=torch.long)),
    "identical": (torch.ones(6, DIM), torch.arange(6) // 2),
    "zero vectors": (torch.zeros(6, DIM), torch.arange(6) // 2),
    "very long": (torch.randn(6, DIM) * 1e6, torch.arange(6) // 2),
}


def two_views(loss):
    return lambda rows, labels: loss(rows, ref_emb=rows.flip(0) * 0.9 + 0.1)


def labelled(loss):
    return loss


def unlabelled(loss):
    return lambda rows, labels: loss(rows)


def numbered(loss):
    return lambda rows, labels: loss(rows, labels.float() / 7)


MAKE = {
    "VICRegLoss": (losses.VICRegLoss, two_views),
    "ManifoldLoss": (lambda: losses.ManifoldLoss(l=DIM, K=4), unlabelled),
    "DynamicSoftMarginLoss": (losses.DynamicSoftMarginLoss, labelled),
    "P2SGradLoss": (lambda: losses.P2SGradLoss(DIM, CLASSES), labelled),
    "SupCRLoss": (losses.SupCRLoss, numbered),
    "RecallAtKLoss with virtual images": (lambda: losses.RecallAtKLoss(mixup=1), labelled),
}
SMOOTH = [name for name in MAKE if name != "DynamicSoftMarginLoss"]  # its weights are constants


def build(name, dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    make, call = MAKE[name]
    return call(make().to(device, dtype))


def seeded(function):
    """Losses that draw numbers draw the same ones each time."""

    def value(rows, labels):
        torch.manual_seed(1)
        return function(rows, labels)

    return value


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", MAKE)
def test_degenerate_batches_are_finite(name, case):
    rows, labels = DEGENERATE[case]
    leaf = rows.clone().requires_grad_()
    value = build(name)(leaf, labels)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(leaf.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MAKE)
def test_half_precision(name, dtype):
    rows, labels = torch.randn(8, DIM).to(dtype), torch.arange(8) // 2
    leaf = rows.clone().requires_grad_()
    value = seeded(build(name))(leaf, labels)
    value.backward()
    assert value.dtype == torch.float32
    assert leaf.grad.dtype == dtype
    if name != "VICRegLoss":  # whose second view is made in half precision here
        torch.testing.assert_close(value, seeded(build(name))(rows.float(), labels))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name):
    rows = torch.randn(8, DIM, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(8) // 2
    loss = seeded(build(name, torch.float64))
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), rows, atol=1e-4)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, labels), rows, atol=1e-4, rtol=1e-3)


# virtual images wait for the device once: how many there are depends on the labels
@pytest.mark.parametrize("name", [name for name in MAKE if "virtual" not in name])
def test_on_a_device_without_numbers(name):
    rows = torch.randn(8, DIM, device="meta", requires_grad=True)
    labels = torch.zeros(8, dtype=torch.long)
    build(name, device="meta")(rows, labels).backward()
    assert rows.grad.shape == rows.shape
