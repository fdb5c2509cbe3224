"""HIST against loops over images, classes, edges and components."""

import math

import pytest
import torch
from torch.nn.functional import normalize

import lookalike.losses as losses

CLASSES, DIM, HIDDEN = 5, 4, 3


@pytest.fixture
def loss():
    torch.manual_seed(0)
    built = losses.HISTLoss(CLASSES, DIM, tau=7, alpha=0.8, lambda_s=0.6, hidden=HIDDEN).double()
    with torch.no_grad():
        built.bn1.weight.copy_(torch.tensor([1.5, 0.5, -1.0]))
        built.bn1.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
        built.log_vars.copy_(torch.linspace(-1, 7, CLASSES * DIM).view(CLASSES, DIM))
    return built


def naive(loss, rows, labels):
    x, means = normalize(rows).tolist(), normalize(loss.means.detach()).tolist()
    variances = [[math.exp(min(max(v, 0), 6)) for v in row] for row in loss.log_vars.tolist()]
    size = len(x)
    apart = [
        [
            sum((x[i][k] - means[c][k]) ** 2 / variances[c][k] for k in range(DIM))
            for c in range(CLASSES)
        ]
        for i in range(size)
    ]
    first = [_cross_entropy([-loss.tau * d for d in apart[i]], labels[i]) for i in range(size)]
    edges = sorted(set(labels))
    inside = [
        [1.0 if labels[i] == c else math.exp(-loss.alpha * apart[i][c]) for c in edges]
        for i in range(size)
    ]
    of_image = [sum(row) for row in inside]
    of_edge = [sum(row[e] for row in inside) for e in range(len(edges))]
    graph = [
        [
            sum(inside[i][e] * inside[j][e] / of_edge[e] for e in range(len(edges)))
            / math.sqrt(of_image[i] * of_image[j])
            for j in range(size)
        ]
        for i in range(size)
    ]
    hidden = _times(graph, _linear(loss.theta1, rows.tolist()))
    for k in range(HIDDEN):
        column = [row[k] for row in hidden]
        mean = sum(column) / size
        spread = math.sqrt(sum((v - mean) ** 2 for v in column) / size + 1e-5)
        for row in hidden:
            v = (row[k] - mean) / spread * loss.bn1.weight[k].item() + loss.bn1.bias[k].item()
            row[k] = v if v > 0 else 0.1 * v
    logits = _times(graph, _linear(loss.theta2, hidden))
    second = [_cross_entropy(logits[i], labels[i]) for i in range(size)]
    return sum(first) / size + loss.lambda_s * sum(second) / size


def _cross_entropy(logits, right):
    return math.log(sum(math.exp(v) for v in logits)) - logits[right]


def _linear(layer, rows):
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [
        [
            sum(w * v for w, v in zip(weight[k], row, strict=True)) + bias[k]
            for k in range(len(bias))
        ]
        for row in rows
    ]


def _times(matrix, rows):
    return [
        [sum(m * row[k] for m, row in zip(line, rows, strict=True)) for k in range(len(rows[0]))]
        for line in matrix
    ]


def test_equals_loops(loss):
    rows = torch.randn(7, DIM, dtype=torch.float64)
    labels = torch.tensor([0, 0, 3, 3, 3, 1, 0])
    assert loss(rows, labels).item() == pytest.approx(naive(loss, rows, labels.tolist()), rel=1e-9)


def test_gradients_of_everything(loss):
    rows = torch.randn(6, DIM, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 0, 3, 3, 1, 0])
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), rows)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, labels), rows)
    loss(rows, labels).backward()
    assert all(weight.grad.isfinite().all() for weight in loss.parameters())
    assert all(weight.grad.any() for name, weight in loss.named_parameters())


def test_logits_name_the_class(loss):
    found = loss.get_logits(loss.means.detach())
    assert found.shape == (CLASSES, CLASSES)
    assert found.argmax(1).tolist() == list(range(CLASSES))
    torch.testing.assert_close(found.diagonal(), torch.zeros(CLASSES).double(), atol=1e-12, rtol=0)


def test_state_of_a_larger_type(loss):
    """Parameters in float32 with embeddings in float64: computed in float64."""
    rows = torch.randn(4, DIM, dtype=torch.float64)
    assert loss.float()(rows, torch.tensor([0, 0, 1, 1])).dtype == torch.float64
