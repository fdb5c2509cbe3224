"""Labels are checked in one place, whoever takes them."""

import inspect

import numpy as np
import pytest
import torch

import lookalike as la
from lookalike.errors import BadInput
from lookalike.memory import CrossBatchMemory
from lookalike.registry import LOSSES, MINERS

SIZE, DIM, CLASSES = 8, 6, 4


def _loss(name):
    takes = inspect.signature(LOSSES.find(name).build).parameters
    sizes = {"num_classes": CLASSES, "embedding_size": DIM} if "embedding_size" in takes else {}
    return la.losses.create(name, **sizes)


LOSS_NAMES = [e.name for e in LOSSES.entries() if e.build.__module__.startswith("lookalike.")]
PROXY_NAMES = [name for name in LOSS_NAMES if isinstance(_loss(name), la.losses.ProxyLoss)]
TAKERS = (
    {f"loss {name}": (lambda e, y, name=name: _loss(name)(e, y)) for name in LOSS_NAMES}
    | {
        f"miner {entry.name}": (lambda e, y, name=entry.name: la.miners.create(name)(e, y))
        for entry in MINERS.entries()
    }
    | {
        "memory": lambda e, y: CrossBatchMemory(la.losses.ContrastiveLoss(), DIM, 32)(e, y),
        "margin with a beta per class": lambda e, y: la.losses.MarginLoss(num_classes=CLASSES)(
            e, y
        ),
        "evaluate": lambda e, y: la.evaluate(e, y, metrics=("recall@1",)),
    }
)


@pytest.fixture
def embeddings():
    torch.manual_seed(0)
    return torch.randn(SIZE, DIM)


@pytest.mark.parametrize("taker", TAKERS)
def test_a_column_of_labels_is_not_multi_hot(taker, embeddings):
    labels = (torch.arange(SIZE) % CLASSES).unsqueeze(1)
    with pytest.raises(BadInput, match=r"shape \(8, 1\); give one label per embedding"):
        TAKERS[taker](embeddings, labels)


@pytest.mark.parametrize("number", [SIZE - 1, SIZE + 1, 0])
@pytest.mark.parametrize("taker", TAKERS)
def test_every_embedding_needs_a_label(taker, number, embeddings):
    with pytest.raises(BadInput, match=f"{number} labels"):
        TAKERS[taker](embeddings, torch.arange(number) % CLASSES)


@pytest.mark.parametrize("taker", TAKERS)
def test_labels_have_one_or_two_dimensions(taker, embeddings):
    for shape in [(), (SIZE, 2, 2)]:
        with pytest.raises(BadInput, match="labels have shape"):
            TAKERS[taker](embeddings, torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("wrong", [-1, CLASSES, 2**40])
@pytest.mark.parametrize("name", [*PROXY_NAMES, "margin with a beta per class"])
def test_class_indices_are_in_range(name, wrong, embeddings):
    labels = torch.arange(SIZE) % CLASSES
    labels[3] = wrong
    take = TAKERS.get(name) or TAKERS[f"loss {name}"]
    with pytest.raises(BadInput, match=f"label {wrong} is out of range"):
        take(embeddings, labels)


@pytest.mark.parametrize("name", PROXY_NAMES)
def test_class_indices_are_integers(name, embeddings):
    with pytest.raises(BadInput, match="integers"):
        _loss(name)(embeddings, torch.zeros(SIZE))


@pytest.mark.parametrize("name", PROXY_NAMES)
def test_rows_of_classes_are_as_wide_as_the_loss(name, embeddings):
    with pytest.raises(BadInput, match="rows of 3 classes, but the loss has 4"):
        _loss(name)(embeddings, torch.full((SIZE, 3), 1 / 3))


@pytest.mark.parametrize("name", PROXY_NAMES)
def test_embeddings_are_as_wide_as_the_loss(name, embeddings):
    with pytest.raises(BadInput, match="5 columns, but 6"):
        _loss(name)(embeddings[:, :5], torch.arange(SIZE) % CLASSES)


def test_references_are_as_wide_as_the_anchors(embeddings):
    labels = torch.arange(SIZE) % CLASSES
    with pytest.raises(BadInput, match="ref_emb have 5 columns, but 6"):
        la.losses.ContrastiveLoss()(embeddings, labels, None, embeddings[:, :5], labels)
    with pytest.raises(BadInput, match="without ref_labels"):
        la.losses.ContrastiveLoss()(embeddings, labels, None, embeddings.clone())
    with pytest.raises(BadInput, match="there are 8 embeddings but 7 ref_labels"):
        la.losses.ContrastiveLoss()(embeddings, labels, None, embeddings.clone(), labels[:7])


def test_strings_and_arrays_are_labels_too(embeddings):
    names = [f"class {number % CLASSES}" for number in range(SIZE)]
    expected = la.losses.ContrastiveLoss()(embeddings, torch.arange(SIZE) % CLASSES)
    for labels in (names, np.asarray(names), np.arange(SIZE, dtype=np.uint8) % CLASSES):
        torch.testing.assert_close(la.losses.ContrastiveLoss()(embeddings, labels), expected)
    with pytest.raises(BadInput, match="one string per embedding"):
        la.losses.ContrastiveLoss()(embeddings, [["a", "b"]] * SIZE)
