"""Labels that agree as the user says: in losses, miners, memory and runs."""

import pytest
import torch

from lookalike import losses, miners
from lookalike.errors import BadInput
from lookalike.memory import CrossBatchMemory, EmbeddingMemory
from lookalike.mixing import Mixing
from lookalike.registry import LOSSES
from lookalike.training.objective import Objective

pytestmark = pytest.mark.trust("torch:eq", "torch:no_such_function")

PAIR_LOSSES = [
    entry.name
    for entry in LOSSES.entries()
    if isinstance(entry.build, type) and issubclass(entry.build, losses.PairLoss)
    if entry.name != "quadruplet"  # of classes only
]


def near(x, y):
    """A comparison that is no classes: 1 and 2 agree, 2 and 3, but not 1 and 3."""
    return (x - y).abs() <= 1


def shared(x, y):
    """Of rows: how much two have in common."""
    return torch.minimum(x, y).sum(2) / torch.maximum(x, y).sum(2)


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_equality_is_what_losses_do(name, batch):
    embeddings, labels = batch("unbalanced", 14)
    memory, others = batch("unbalanced", 9, seed=3)
    own = losses.create(name, label_comparison=torch.eq)
    for rest in ((), (None, memory, others)):
        expected = losses.create(name)(embeddings, labels, *rest)
        torch.testing.assert_close(own(embeddings, labels, *rest), expected)


@pytest.mark.parametrize("name", ["contrastive", "multi-similarity", "triplet", "ntxent"])
def test_a_comparison_that_is_no_classes(name, batch):
    """The same as naming every pair."""
    embeddings, labels = batch("unbalanced", 14)
    lists = [[], [], [], []]
    for i, one in enumerate(labels.tolist()):
        for j, other in enumerate(labels.tolist()):
            if i != j:
                where = 0 if abs(one - other) <= 1 else 2
                lists[where].append(i)
                lists[where + 1].append(j)
    named = losses.create(name)(embeddings, None, [torch.tensor(part) for part in lists])
    found = losses.create(name, label_comparison=near)(embeddings, labels)
    torch.testing.assert_close(found, named)
    miner = miners.AllMiner(label_comparison=near)(embeddings, labels)
    torch.testing.assert_close(losses.create(name)(embeddings, labels, miner), named)


def test_numbers_between(batch):
    """As multi-hot labels by their overlap."""
    embeddings, _ = batch("unbalanced", 10)
    rows = (torch.rand(10, 4, generator=torch.Generator().manual_seed(1)) > 0.5).long()
    rows[:, 0] = 1
    found = losses.ContrastiveLoss(label_comparison=shared)(embeddings, rows)
    expected = losses.ContrastiveLoss(label_comparison="jaccard")(embeddings, rows)
    torch.testing.assert_close(found, expected)


def build_miner(name, comparison):
    if name == "rho":  # the miner inside compares
        return miners.create(name, settings={"label_comparison": comparison})
    return miners.create(name, label_comparison=comparison)


@pytest.mark.parametrize("name", miners.names())
def test_every_miner(name, batch):
    embeddings, labels = batch("unbalanced", 16)
    torch.manual_seed(0)
    expected = tuple(miners.create(name)(embeddings, labels))
    torch.manual_seed(0)
    found = tuple(build_miner(name, torch.eq)(embeddings, labels))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    a, p, *_ = build_miner(name, near)(embeddings, labels)
    assert near(labels[a], labels[p]).all()


def test_in_memory_and_in_a_step(batch):
    embeddings, labels = batch("unbalanced", 12)
    loss = losses.ContrastiveLoss(label_comparison=near)
    memory = CrossBatchMemory(loss, 12, 24).double()
    torch.testing.assert_close(memory(embeddings, labels), loss(embeddings, labels))
    assert memory(embeddings, labels).isfinite()
    # a miner without a comparison of its own reads the loss's
    step = Objective(loss, miners.MultiSimilarityMiner(), None, EmbeddingMemory(12, 24).double())
    assert step.of_batch(embeddings, labels).isfinite()
    plain = Objective(loss, miners.AllMiner()).of_batch(embeddings, labels)
    torch.testing.assert_close(plain, loss(embeddings, labels))
    # one with its own, for a loss that has none
    own = Objective(losses.ContrastiveLoss(), miners.AllMiner(label_comparison=near))
    torch.testing.assert_close(own.of_batch(embeddings, labels), plain)


def test_by_name(batch):
    embeddings, labels = batch("unbalanced", 12)
    loss = losses.create("contrastive", label_comparison="torch:eq")
    torch.testing.assert_close(
        loss(embeddings, labels), losses.ContrastiveLoss()(embeddings, labels)
    )


def test_refusals(batch):
    embeddings, labels = batch("unbalanced", 12)
    with pytest.raises(BadInput, match="module:function"):
        losses.ContrastiveLoss(label_comparison="equal")
    with pytest.raises(BadInput, match="cannot import"):
        miners.AllMiner(label_comparison="torch:no_such_function")
    with pytest.raises(BadInput, match=r"\(12, 12\)"):
        losses.ContrastiveLoss(label_comparison=lambda x, y: x == x)(embeddings, labels)
    with pytest.raises(BadInput, match="mixing reads classes"):
        Mixing("embed")(losses.ContrastiveLoss(label_comparison=near), embeddings, labels)
