"""The Recall@k surrogate against loops over queries, items and k, as the paper writes it."""

import math

import pytest
import torch
from torch.nn.functional import normalize

import lookalike.losses as losses
import lookalike.miners as miners
from lookalike.errors import BadInput
from lookalike.losses.ranking import drawn_partners, with_virtual_images
from lookalike.memory import CrossBatchMemory
from lookalike.relations import relate

K, RANKS, SHORT_LIST = (1, 2, 5), 0.05, 0.7


def sigmoid(x):
    return 1 / (1 + math.exp(-max(-700.0, x)))


def naive(similarity, labels, ks=K, short_list=SHORT_LIST):
    """Of lists of numbers; a label of None is no image."""
    values = []
    images = [i for i, label in enumerate(labels) if label is not None]
    for query in images:
        items = [i for i in images if i != query]
        positives = [i for i in items if labels[i] == labels[query]]
        if not positives:
            continue
        recalls = []
        for k in ks:
            inside = 0.0
            for p in positives:
                before = sum(
                    sigmoid((similarity[query][z] - similarity[query][p]) / RANKS)
                    for z in items
                    if z != p
                )
                inside += sigmoid((k - 1 - before) / short_list)
            recalls.append(min(inside, k) / min(len(positives), k))
        values.append(1 - sum(recalls) / len(recalls))
    return sum(values) / len(values)


@pytest.fixture
def loss():
    return losses.RecallAtKLoss(K, RANKS, SHORT_LIST)


@pytest.mark.parametrize("classes", ["balanced", "unbalanced"])
def test_equals_loops(classes, batch, loss):
    embeddings, labels = batch(classes, 16)
    similarity = normalize(embeddings) @ normalize(embeddings).T
    expected = pytest.approx(naive(similarity.tolist(), labels.tolist()), rel=1e-9)
    assert loss(embeddings, labels).item() == expected


def test_no_more_than_k_positives_count_among_the_first_k():
    """Eight of a class at k = 1, a soft threshold: the sigmoids add up to more than one."""
    torch.manual_seed(0)
    rows = normalize(torch.randn(10, 3, dtype=torch.float64))
    labels = torch.tensor([0] * 8 + [1] * 2)
    expected = naive((rows @ rows.T).tolist(), labels.tolist(), ks=(1,), short_list=5.0)
    found = losses.RecallAtKLoss((1,), RANKS, 5.0)(rows, labels)
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_sharp_sigmoids_give_recall():
    """One minus the mean of recall@1 and recall@2, counted by hand."""
    angles = torch.tensor([0.0, 0.1, 0.5, 0.55], dtype=torch.float64)
    rows = torch.stack([angles.cos(), angles.sin()], 1)
    labels = torch.tensor([0, 0, 0, 1])
    # neighbours: 0: 1 2 3, 1: 0 2 3, 2: 3 1 0; recall@1 1 1 0, recall@2 1 1 1/2
    loss = losses.RecallAtKLoss((1, 2), temperature=1e-6, k_temperature=1e-3)
    # a rank of exactly k is half inside
    assert loss(rows, labels).item() == pytest.approx(1 - (0.5 + 0.75 + 0.5 + 0.75 + 0.25) / 6)


def test_similarity_mixup_equals_loops(batch, loss):
    """A virtual image is a mix of two rows, not normalised; it is query and item alike."""
    embeddings, labels = batch("unbalanced", 10)
    rows = normalize(embeddings)
    relations = relate(embeddings, labels)
    torch.manual_seed(0)
    partner, share = drawn_partners(relations, 2)
    assert len(partner) == len(share) == 20
    everything, classes = rows.tolist(), labels.tolist()
    for number, (other, part) in enumerate(zip(partner.tolist(), share.tolist(), strict=True)):
        image = number % 10
        assert labels[other] == labels[image]
        assert (other == image) == (classes[:10].count(classes[image]) == 1)
        everything.append((part * rows[image] + (1 - part) * rows[other]).tolist())
        classes.append(None if other == image else classes[image])
    similarity = [
        [sum(a * b for a, b in zip(x, y, strict=True)) for y in everything] for x in everything
    ]
    mixed = with_virtual_images(relations, partner, share)
    assert loss.total_loss(mixed).item() == pytest.approx(naive(similarity, classes), rel=1e-9)


def test_partners_are_even_over_the_class():
    labels = torch.tensor([0, 0, 0, 0, 1])
    relations = relate(torch.randn(5, 3), labels)
    torch.manual_seed(1)
    partner, share = drawn_partners(relations, 3000)
    counts = partner.view(3000, 5)[:, 1].bincount(minlength=5)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert (counts[[0, 2, 3]] - 1000).abs().max() < 150  # 5 deviations
    assert 0.45 < share.mean() < 0.55


def test_gradients_of_mixup(batch):
    embeddings, labels = batch("balanced", 8, dim=4)
    loss = losses.RecallAtKLoss((1, 2), 0.1, 0.5, mixup=1)

    def value(rows):
        torch.manual_seed(2)
        return loss(rows, labels)

    leaf = embeddings.requires_grad_()
    assert torch.autograd.gradcheck(value, leaf)
    assert torch.autograd.gradgradcheck(value, leaf)


@pytest.mark.parametrize("labels", [torch.arange(6), torch.zeros(6, dtype=torch.long)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_mixup_of_degenerate_batches(labels, dtype):
    loss = losses.RecallAtKLoss(mixup=2)
    for rows in (torch.randn(6, 4), torch.ones(6, 4), torch.zeros(6, 4)):
        leaf = rows.to(dtype).requires_grad_()
        loss(leaf, labels).backward()
        assert leaf.grad.isfinite().all()
    assert loss(torch.randn(1, 4), torch.tensor([0])) == 0


def test_mixup_with_reducers(batch):
    embeddings, labels = batch("balanced", 8)
    weights = torch.tensor([1.0, 3.0], dtype=torch.float64)
    reducer = losses.RecallAtKLoss(reducer="sum", mixup=1)
    assert reducer(embeddings, labels).isfinite()
    from lookalike.reducers import ClassWeightedReducer

    weighed = losses.RecallAtKLoss(reducer=ClassWeightedReducer(weights), mixup=1)
    assert weighed(embeddings, labels).isfinite()


def test_refusals(batch):
    embeddings, labels = batch("balanced", 8)
    loss = losses.RecallAtKLoss(mixup=1)
    with pytest.raises(BadInput, match="miner"):
        loss(embeddings, labels, miners.MultiSimilarityMiner()(embeddings, labels))
    with pytest.raises(BadInput, match="one batch"):
        CrossBatchMemory(loss, 12, 16)(embeddings, labels)
    with pytest.raises(BadInput, match="cosine"):
        losses.RecallAtKLoss(mixup=1, distance="l2")
    with pytest.raises(BadInput, match="from 1"):
        losses.RecallAtKLoss(k_vals=(0, 1))


def test_each_k_may_have_its_temperature(batch):
    embeddings, labels = batch("unbalanced", 16)
    each = [losses.RecallAtKLoss((k,), RANKS, k / 2)(embeddings, labels) for k in K]
    together = losses.RecallAtKLoss(K, RANKS, tuple(k / 2 for k in K))(embeddings, labels)
    assert together.item() == pytest.approx(sum(each).item() / len(K))
    with pytest.raises(BadInput, match="one for each k"):
        losses.RecallAtKLoss(K, RANKS, (1, 2))
