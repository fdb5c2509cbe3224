"""Matryoshka and the divergence of similarities: by hand, by loops, and with any other part."""

import math

import pytest
import torch

import lookalike as la
from lookalike.errors import BadInput
from lookalike.losses import MatryoshkaLoss, similarity_divergence
from lookalike.memory import CrossBatchMemory

ROWS = [[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1], [0, 0.6, 0.8]]
LABELS = torch.tensor([0, 0, 1, 1])


def unit(rows):
    return rows / rows.norm(dim=1, keepdim=True)


def test_matryoshka_by_hand():
    rows = torch.tensor(
        [[1, 0.2, 0.1], [0.6, 0.8, 0], [0.1, 0.3, 1], [0.2, 0.6, 0.8]], dtype=torch.float64
    )
    contrastive = la.losses.ContrastiveLoss(pos_margin=0, neg_margin=1)
    for dims, expected in (((2,), 1.393440), ((3,), 0.632376), ((2, 3), 1.393440 + 0.632376)):
        found = MatryoshkaLoss(contrastive, dims)(rows, LABELS)
        assert float(found) == pytest.approx(expected, abs=1e-6)
    found = MatryoshkaLoss(contrastive, (2, 3), weights=(0.5, 2))(rows, LABELS)
    assert float(found) == pytest.approx(0.5 * 1.393440 + 2 * 0.632376, abs=2e-6)


@pytest.mark.parametrize(
    "name", ["proxy-anchor", "proxy-nca", "normalized-softmax", "soft-triple", "arcface", "cosface"]
)
def test_class_vectors_are_cut_as_embeddings_are(name):
    """Each prefix is the loss of cut rows and a loss whose vectors are the cut ones."""
    torch.manual_seed(0)
    rows, labels = torch.randn(8, 6, dtype=torch.float64), torch.arange(4).repeat(2)
    whole = la.losses.create(name, num_classes=4, embedding_size=6).double()
    loss = MatryoshkaLoss(whole, (2, 4, 6), (1, 0.5, 2))
    expected = 0
    for size, weight in zip(loss.dims, loss.weights, strict=True):
        small = la.losses.create(name, num_classes=4, embedding_size=size).double()
        vectors = getattr(whole, whole.columns or "proxies")
        cut = vectors[:size] if whole.columns else vectors[:, :size]
        getattr(small, whole.columns or "proxies").data = cut
        expected = expected + weight * small(unit(rows[:, :size]), labels)
    torch.testing.assert_close(loss(rows, labels), expected)
    loss(rows, labels).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in whole.parameters())


def test_matryoshka_with_a_miner_a_memory_and_candidates():
    torch.manual_seed(0)
    rows, labels = torch.randn(12, 8), torch.arange(4).repeat(3)
    base = la.losses.MultiSimilarityLoss()
    loss, miner = MatryoshkaLoss(base, (4, 8)), la.miners.MultiSimilarityMiner()
    mined = miner(rows, labels)
    expected = sum(base(unit(rows[:, :size]), labels, mined) for size in (4, 8))
    torch.testing.assert_close(loss(rows, labels, mined), expected)
    others, classes = torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 0])
    expected = sum(
        base(unit(rows[:, :size]), labels, None, unit(others[:, :size]), classes) for size in (4, 8)
    )
    torch.testing.assert_close(loss(rows, labels, None, others, classes), expected)
    memory = CrossBatchMemory(loss, 8, 24, la.miners.MultiSimilarityMiner())
    for _ in range(3):
        rows = torch.randn(12, 8, requires_grad=True)
        value = memory(rows, labels)
    assert value.isfinite()
    assert torch.autograd.grad(value, rows)[0].isfinite().all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dims": ()}, "dims"),
        ({"dims": (4, 2)}, "dims"),
        ({"dims": (0, 2)}, "dims"),
        ({"dims": (2, 4), "weights": (1,)}, "weights"),
    ],
)
def test_what_matryoshka_refuses(change, named):
    with pytest.raises(BadInput, match=named):
        MatryoshkaLoss(la.losses.ContrastiveLoss(), **change)
    with pytest.raises(BadInput, match="HIST"):
        MatryoshkaLoss(la.losses.create("hist", num_classes=2, embedding_size=4), (2, 4))
    with pytest.raises(BadInput, match="3 columns"):
        MatryoshkaLoss(la.losses.ContrastiveLoss(), (4,))(torch.eye(3), torch.arange(3))


def divergence(student, teacher, temperature):
    """``T^2/n sum_i KL(softmax(S'_i/T) || softmax(S_i/T))``, pair by pair."""
    total = 0
    student, teacher = unit(student), unit(teacher)
    for i in range(len(student)):
        q = [math.exp(float(student[i] @ row) / temperature) for row in student]
        p = [math.exp(float(teacher[i] @ row) / temperature) for row in teacher]
        total += sum(
            a / sum(p) * math.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True)
        )
    return temperature**2 * total / len(student)


def test_similarity_divergence():
    student = torch.tensor(ROWS, dtype=torch.float64)
    teacher = torch.tensor(
        [[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0, 1, 0], [0, 0, 0.8, 0.6]], dtype=torch.float64
    )
    for temperature, expected in ((1, 0.011317), (0.5, 0.007909)):
        found = float(similarity_divergence(student, teacher, temperature))
        assert found == pytest.approx(expected, abs=5e-7)
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 3).double(), torch.randn(5, 7).double()
    found = similarity_divergence(student, teacher, 0.3)
    assert float(found) == pytest.approx(divergence(student, teacher, 0.3))
    student.requires_grad_()
    teacher.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: similarity_divergence(x, teacher, 0.3), student)
    assert torch.autograd.grad(
        similarity_divergence(student, teacher, 1), teacher, allow_unused=True
    ) == (None,)
    for rows in (torch.ones(4, 3), torch.zeros(4, 3), torch.ones(0, 3), torch.ones(4, 3).half()):
        assert similarity_divergence(rows, rows) == 0
    with pytest.raises(BadInput, match="temperature"):
        similarity_divergence(student, teacher, 0)
    with pytest.raises(BadInput, match="5 rows"):
        similarity_divergence(student, teacher[:3])
