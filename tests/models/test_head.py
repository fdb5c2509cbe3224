import pytest
import torch

from lookalike.errors import BadInput
from lookalike.models.head import OWN_POOLINGS, POOLINGS, Head, create_pooling, l2_normalise


def test_order_is_pool_layer_norm_linear_normalise():
    head = Head(6, dim=4, pooling="avg+max", layer_norm=True).double()
    features = torch.randn(3, 6, 2, 2, dtype=torch.float64)
    pooled = features.flatten(2).mean(2) + features.flatten(2).max(2).values
    centred = pooled - pooled.mean(1, keepdim=True)
    normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    linear = normed @ head.linear.weight.T + head.linear.bias
    expected = linear / linear.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head(features), expected)


def test_no_linear_layer_keeps_the_pooled_features():
    head = Head(6, dim=0, normalize=False)
    features = torch.randn(3, 6, 2, 2)
    assert head.dim == 6
    assert not list(head.parameters())
    torch.testing.assert_close(head(features), features.mean((2, 3)))


def test_normalisation_has_unit_length_and_right_gradients():
    vectors = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(l2_normalise, (vectors,))
    torch.testing.assert_close(l2_normalise(vectors).norm(dim=1), torch.ones(5).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_zero_vectors_have_finite_values_and_gradients(dtype):
    vectors = torch.zeros(2, 4, dtype=dtype, requires_grad=True)
    found = l2_normalise(vectors)
    assert found.dtype == torch.float32
    assert (found == 0).all()
    found.square().sum().backward()
    assert vectors.grad.isfinite().all()


def test_half_precision_vectors_whose_squares_overflow_are_normalised():
    vectors = torch.full((1, 4), 60000.0, dtype=torch.float16)
    torch.testing.assert_close(l2_normalise(vectors), torch.full((1, 4), 0.5))


def test_negative_size_is_refused():
    with pytest.raises(BadInput, match="-1"):
        Head(6, dim=-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_the_normalisation_is_that_of_the_plain_form(dtype):
    """Short rows too; a zero row has none."""
    torch.manual_seed(0)
    head = Head(6, dim=0).to(dtype).train()
    scales = torch.tensor([1.0, 1e3, 1e-3, 2e-6, 1e-7, 0.0], dtype=dtype)
    rows = torch.randn(6, 6, dtype=dtype) * scales[:, None]
    pull = torch.randn(6, 6, dtype=dtype)
    ours, theirs = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    found, expected = head(ours[:, :, None, None]), l2_normalise(theirs)
    torch.testing.assert_close(found, expected)
    (found * pull).sum().backward()
    (expected * pull).sum().backward()
    torch.testing.assert_close(ours.grad[:-1], theirs.grad[:-1], rtol=1e-4, atol=1e-4)
    assert (ours.grad[-1] == 0).all()


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


@pytest.mark.parametrize("name", sorted(set(POOLINGS) - set(OWN_POOLINGS)))
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
