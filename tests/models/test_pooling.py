import pytest
import torch

from lookalike.errors import BadInput
from lookalike.models.pooling import POOLINGS, create_pooling


def looped(name, features, p=3.0):
    rows = []
    for image in features:
        row = []
        for channel in image:
            values = [float(v) for v in channel.flatten()]
            average = sum(values) / len(values)
            general = (sum(max(v, 1e-6) ** p for v in values) / len(values)) ** (1 / p)
            row.append(
                {
                    "avg": average,
                    "max": max(values),
                    "avg+max": average + max(values),
                    "gem": general,
                }[name]
            )
        rows.append(row)
    return torch.tensor(rows, dtype=features.dtype)


@pytest.mark.parametrize("name", sorted(POOLINGS))
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_equals_a_loop(name, layout):
    features = torch.randn(3, 5, 4, 2, dtype=torch.float64).contiguous(memory_format=layout)
    found = create_pooling(name).double()(features)
    torch.testing.assert_close(found, looped(name, features))


@pytest.mark.parametrize("name", sorted(POOLINGS))
def test_gradients(name):
    features = (torch.rand(2, 3, 2, 3, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(create_pooling(name).double(), (features,))


def test_gem_learns_its_power_and_survives_large_ones_and_empty_maps():
    pool = create_pooling("gem")
    assert [name for name, _ in pool.named_parameters()] == ["p"]
    with torch.no_grad():
        pool.p.fill_(80.0)
    features = torch.tensor([[0.0, 0.0], [0.5, 2.0]]).view(1, 2, 1, 2).requires_grad_()
    found = pool(features)
    torch.testing.assert_close(found[0, 1].item(), 2.0 * 0.5 ** (1 / 80), rtol=1e-5, atol=0)
    found.sum().backward()
    assert features.grad.isfinite().all()
    assert pool.p.grad.isfinite()


def test_gem_does_not_overflow_in_half_precision():
    features = torch.full((1, 2, 3, 3), 300.0, dtype=torch.float16)
    torch.testing.assert_close(create_pooling("gem")(features), torch.full((1, 2), 300.0))


def test_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"avg\+max"):
        create_pooling("avg-max")
