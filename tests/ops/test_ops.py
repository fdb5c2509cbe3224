"""Similarities, labels and the sums that losses are made of."""

import pytest
import pytorch_metric_learning.distances as theirs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lookalike.distances as ours
from lookalike.errors import BadInput
from lookalike.labels import agreement, as_tensor, jaccard
from lookalike.losses import TripletMarginLoss
from lookalike.ops.rows import euclidean, normalize_rows, products
from lookalike.ops.sums import log1p_sum_exp, log_sum_exp, soft_histogram
from lookalike.relations import relate

DISTANCES = [
    ("CosineSimilarity", {}),
    ("DotProductSimilarity", {}),
    ("DotProductSimilarity", {"normalize_embeddings": False, "power": 2}),
    ("LpDistance", {}),
    ("LpDistance", {"normalize_embeddings": False}),
    ("LpDistance", {"power": 2}),
    ("LpDistance", {"power": 3}),
    ("LpDistance", {"p": 1}),
    ("SNRDistance", {}),
    ("SNRDistance", {"normalize_embeddings": False}),
]


@pytest.fixture
def rows():
    torch.manual_seed(0)
    return torch.randn(40, 7, dtype=torch.float64), torch.randn(30, 7, dtype=torch.float64)


@pytest.mark.parametrize(("name", "settings"), DISTANCES)
@pytest.mark.parametrize("alone", [True, False])
def test_distances_against_pml(name, settings, alone, rows):
    mine, other = getattr(ours, name)(**settings), getattr(theirs, name)(**settings)
    gradients = []
    for distance in (mine, other):
        x, y = (part.clone().requires_grad_() for part in rows)
        matrix = distance(x) if alone else distance(x, y)
        # leave the diagonal out: PML's is not exactly 0 there
        weights = torch.linspace(-1, 2, matrix.numel(), dtype=x.dtype).view(matrix.shape)
        keep = 1 - torch.eye(len(matrix), dtype=x.dtype) if alone else 1
        (matrix * weights * keep).sum().backward()
        gradients.append((matrix.detach() * keep, x.grad, y.grad))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "settings"), DISTANCES)
def test_similarity_is_larger_when_closer(name, settings, rows):
    distance = getattr(ours, name)(**settings)
    x, y = rows
    sign = 1 if distance.is_inverted else -1
    torch.testing.assert_close(distance.similarity(x, y), sign * distance(x, y))
    assert distance.to_similarity(0.3) == sign * 0.3
    assert distance == getattr(ours, name)(**settings)


def test_distances_by_name():
    assert [type(ours.create(name)).__name__ for name in ours.names()] == [
        "CosineSimilarity",
        "DotProductSimilarity",
        "HyperbolicDistance",
        "LpDistance",
        "LpDistance",
        "SNRDistance",
    ]
    with pytest.raises(BadInput, match="did you mean 'l2'"):
        ours.create("l3")
    with pytest.raises(BadInput, match="none of the distances"):
        TripletMarginLoss(distance=3)
    with pytest.raises(BadInput, match="Euclidean"):
        ours.create("snr").squared_euclidean(torch.zeros(1, 1))


@pytest.mark.parametrize("name", ["cosine", "l2", "l2-squared"])
def test_squared_euclidean(name, rows):
    distance = ours.create(name)
    x, y = rows
    expected = torch.cdist(normalize_rows(x), normalize_rows(y)) ** 2
    torch.testing.assert_close(distance.squared_euclidean(distance.similarity(x, y)), expected)


@pytest.mark.parametrize("unit_rows", [True, False])
def test_gradcheck(unit_rows, rows):
    x, y = (part[:6].clone().requires_grad_() for part in rows)
    check = torch.autograd.gradcheck
    assert check(normalize_rows, (x,))
    assert check(lambda a, b: products(a, b, unit_rows=unit_rows), (x, y))
    assert check(lambda a: products(a, unit_rows=unit_rows), (x,))
    off = 1 - torch.eye(6, dtype=x.dtype)
    for squared in (True, False):
        kind = {"unit_rows": unit_rows, "squared": squared}
        assert check(lambda a, b, kind=kind: euclidean(a, b, **kind), (x, y))
        assert check(lambda a, kind=kind: euclidean(a, **kind) * off, (x,))


@settings(max_examples=30, deadline=None)
@given(
    scale=st.sampled_from([1.0, -3.0, 64.0, -5000.0]),
    plus_one=st.booleans(),
    seed=st.integers(0, 99),
)
def test_log_sum_exp(scale, plus_one, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(5, 9, dtype=torch.float64, generator=generator).requires_grad_()
    weights = torch.rand(5, 9, dtype=torch.float64, generator=generator) * 3
    weights = weights * (torch.rand(5, 9, generator=generator) > 0.4)
    weights[:, 0] = 0.5
    terms = scale * (values - 0.2) + weights.log()
    if plus_one:
        terms = torch.cat([terms, torch.zeros(5, 1)], 1)
    expected = terms.logsumexp(1)
    slope = torch.autograd.grad(expected.sum(), values)[0]
    summed = log1p_sum_exp if plus_one else log_sum_exp
    found = summed(scale * (values - 0.2), weights)
    gradient = torch.autograd.grad(found.sum(), values)[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, slope)


def test_log_sum_exp_of_nothing():
    values = torch.randn(2, 3, requires_grad=True)
    for plus_one, expected in ((True, 0.0), (False, -1e30)):
        found = (log1p_sum_exp if plus_one else log_sum_exp)(values, torch.zeros(2, 3))
        torch.testing.assert_close(found, torch.full((2,), expected))
        assert (torch.autograd.grad(found.sum(), values)[0] == 0).all()


def test_labels_of_all_kinds():
    numbers = torch.tensor([2**24, 2**24 + 1, 2**24])
    assert agreement(numbers, numbers).sum() == 5
    names = ["a", "b", "a"]
    same = relate(torch.eye(3), names, torch.eye(3), ["b", "a", "c"]).positives
    assert same.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert as_tensor(numbers.numpy(), len(numbers)).dtype == torch.int64
    rows = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]])
    assert agreement(rows, rows).tolist() == [[True, True, False], [True, True, False], [False] * 3]
    assert agreement(rows, rows, jaccard)[2].tolist() == [0, 0, 0]
    with pytest.raises(BadInput, match="cannot be compared"):
        agreement(rows, numbers)


def test_relations():
    x = torch.eye(3)
    alone = relate(x, [1, 1, 2])
    assert alone.self_comparison
    assert relate(x, [1, 1, 2], x, [1, 1, 2]).self_comparison
    apart = relate(x, [1, 1, 2], x.clone(), [1, 1, 2])
    assert (apart.positives + apart.negatives == 1).all()
    assert not apart.self_comparison
    assert apart.negatives.sum() == 4
    assert alone.positives.sum() == 2
    with pytest.raises(BadInput, match="rows"):
        relate(torch.zeros(3), [1, 1, 2])
    with pytest.raises(BadInput, match="ref_labels"):
        relate(x, [1, 1, 2], torch.eye(4, 3))


def test_a_zero_row_stays_zero_with_zero_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    normalize_rows(x).sum().backward()
    assert (normalize_rows(x) == 0).all()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("far", [2**24 + 1, -(2**24) - 1, 2**53 + 1])
def test_large_labels_agree_with_themselves_only(far):
    small, large = torch.arange(5), torch.tensor([0, 4, 2**24, far, far + 1])
    exact = (small[:, None] == large).float()
    assert torch.equal(agreement(small, large), exact)
    assert torch.equal(agreement(large, small), exact.T)
    assert torch.equal(agreement(large, large), torch.eye(5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("width", [1, 3, 128, 2048])
@pytest.mark.parametrize("power", [1, 2])
def test_equal_rows_have_distance_0(dtype, normalize, width, power):
    """Whatever rounding left of ``|x|^2 + |y|^2 - 2 x.y``, and whichever way it was added up."""
    torch.manual_seed(0)
    x = torch.randn(40, width, dtype=dtype) * 3
    distance = ours.LpDistance(normalize_embeddings=normalize, power=power)
    left = x.clone().requires_grad_()
    # as one matrix with itself, as two matrices, and one row at a time: three ways to add
    whole = distance(left)
    assert (whole.diagonal() == 0).all()
    assert (distance(left, x.clone()).diagonal() == 0).all()
    assert all(distance(row[None], row[None].clone()) == 0 for row in x)
    (gradient,) = torch.autograd.grad(whole.diagonal().sum(), left)
    assert gradient.abs().max() <= (0 if power == 1 else 1e-4)


def test_distances_above_rounding_are_kept():
    """Two rows 0.01 apart are not taken for one, nor is any distance changed."""
    x = torch.nn.functional.normalize(torch.randn(200, 128, dtype=torch.float64))
    y = torch.nn.functional.normalize(x + 0.01 / 128**0.5 * torch.randn_like(x))
    exact = (x[:, None] - y).norm(dim=2)
    found = ours.LpDistance()(x.float(), y.float()).double()
    assert (found > 0).all()
    # d = sqrt(d^2), and d^2 is off by a few units in the last place of 2
    bound = 40 * torch.finfo(torch.float32).eps / exact.clamp_min(1e-3)
    assert ((found - exact).abs() <= bound).all()


OPS = {
    "normalize_rows": (normalize_rows, (5, 4)),
    "products": (lambda x: products(x, unit_rows=True), (5, 4)),
    "raw products": (lambda x: products(x, x[:3] * 2), (5, 4)),
    "distances": (lambda x: euclidean(x, x.flip(0) + 1, unit_rows=True), (5, 4)),
    "squared distances": (lambda x: euclidean(x, squared=True), (5, 4)),
    "log_sum_exp": (lambda x: log_sum_exp(x, (x.detach() > 0).double()), (5, 4)),
    "log1p_sum_exp": (lambda x: log1p_sum_exp(3 * x, (x.detach() > 0).double()), (5, 4)),
    "soft_histogram": (lambda x: soft_histogram(3 * x.sigmoid(), torch.ones_like(x), 3), (5, 4)),
}


@pytest.mark.parametrize("name", OPS)
def test_every_op_can_be_differentiated_twice(name):
    op, shape = OPS[name]
    torch.manual_seed(1)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x,))
    assert torch.autograd.gradgradcheck(op, (x,))
