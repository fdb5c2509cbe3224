"""Losses, miners, memory and mixing never wait for a device.

torch's ``meta`` device has shapes and no numbers: whoever reads one there gets an error. It takes
the branches of every device that is not the CPU, forwards and backwards; their numbers are compared
in the tests of losses and miners, which force the same branches on the CPU (``without_sync``).
"""

import pytest
import torch

from lookalike import losses, miners, regularizers
from lookalike.losses import LOSSES
from lookalike.memory import CrossBatchMemory
from lookalike.mixing import Mixing, additive_names

SIZE, DIM, CLASSES = 12, 8, 6

DEFAULTS = [
    (entry.name, {})
    for entry in LOSSES.entries()
    if entry.build.__module__.startswith("lookalike.")
]
OTHERWISE = [
    ("contrastive", {"on": "similarity"}),
    ("contrastive", {"distance": "cosine"}),
    ("triplet", {"swap": True}),
    ("triplet", {"smooth_loss": True}),
    ("triplet", {"direction": 0.3}),
    ("triplet", {"triplets_per_anchor": 3}),
    ("triplet", {"distance": "dot"}),
    ("margin", {"learn_beta": True, "nu": 0.1}),
    ("margin", {"learn_beta": True, "nu": 0.1, "num_classes": CLASSES}),
    ("margin", {"triplets_per_anchor": 3}),
    ("multi-similarity", {"direction": 0.3}),
    ("angular", {"distance": "l2"}),
    ("ntxent", {"distance": "snr"}),
    ("ranked-list", {"Tp": 1}),
    ("histogram", {"n_bins": 10}),
    ("hyperbolic", {"clip_r": None}),
    ("triplet", {"distance": "hyperbolic"}),
    ("contrastive", {"label_comparison": torch.eq}),
    ("proxy-nca", {"denominator": "others"}),
    ("proxy-nca", {"direction": 0.3}),
    ("proxy-to-proxy-2", {"average": True}),
    ("soft-triple", {"tau": 0.2}),
]
PAIR_LOSSES = [
    case for case in DEFAULTS + OTHERWISE if issubclass(LOSSES.find(case[0]).build, losses.PairLoss)
]
MINERS = [(name, {}) for name in miners.names()] + [
    ("triplet-margin", {"type_of_triplets": "hard"}),
    ("triplet-margin", {"type_of_triplets": "semihard"}),
    ("triplet-margin", {"type_of_triplets": "easy", "distance": "dot"}),
    ("easy-positive", {"pos_strategy": "all", "neg_strategy": "hard"}),
    ("easy-positive", {"pos_strategy": "semihard", "neg_strategy": "easy"}),
    ("easy-positive", {"allowed_pos_range": (0.5, 1.3), "allowed_neg_range": (1.0, 1.6)}),
    ("rho", {"miner": "semi-hard"}),
    ("rho", {"miner": "triplet-margin"}),
]


KINDS = [None, "multi-similarity", "semi-hard", "triplet-margin"]
"""No miner, and one for each form of what miners find: pairs, triplets, a condition on triplets."""


def build(name, **arguments):
    sizes = {"num_classes": CLASSES, "embedding_size": DIM}
    if "embedding_size" in LOSSES.arguments(name):
        arguments |= sizes
    return losses.create(name, **arguments).to("meta")


def batch(size=SIZE):
    rows = torch.randn(size, DIM, device="meta", requires_grad=True)
    return rows, torch.zeros(size, dtype=torch.long, device="meta")


def goes_back(value, leaf):
    assert value.shape == ()
    assert value.device.type == "meta"
    value.backward()
    assert leaf.grad.shape == leaf.shape


def test_reading_a_number_is_an_error():
    rows, _ = batch()
    for read in (rows.sum().item, rows.nonzero, rows.tolist, lambda: bool(rows[0, 0] > 0)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            read()


def mined(miner, *data):
    return None if miner is None else miners.create(miner)(*data)


@pytest.mark.parametrize(("name", "settings"), DEFAULTS + OTHERWISE)
@pytest.mark.parametrize("miner", KINDS)
def test_every_loss(name, settings, miner):
    rows, labels = batch()
    loss = build(name, **settings)
    goes_back(loss(rows, labels, mined(miner, rows, labels)), rows)
    assert all(weight.grad is not None for weight in loss.parameters())


@pytest.mark.parametrize(("name", "settings"), PAIR_LOSSES)
@pytest.mark.parametrize("miner", KINDS)
def test_every_loss_over_images_with_references(name, settings, miner):
    rows, labels = batch()
    others, classes = batch(20)
    found = mined(miner, rows, labels, others, classes)
    goes_back(build(name, **settings)(rows, labels, found, others, classes), rows)


@pytest.mark.parametrize(("name", "settings"), MINERS)
@pytest.mark.parametrize("loss", ["triplet", "margin", "contrastive", "fast-ap", "proxy-anchor"])
def test_every_miner(name, settings, loss):
    rows, labels = batch()
    miner = miners.create(name, **settings)
    goes_back(build(loss)(rows, labels, miner(rows, labels)), rows)
    if loss != "proxy-anchor":
        memory = CrossBatchMemory(build(loss), DIM, 20, miner).to("meta")
        goes_back(memory(rows, labels), rows)


@pytest.mark.parametrize(("name", "settings"), PAIR_LOSSES)
@pytest.mark.parametrize("miner", KINDS)
def test_memory(name, settings, miner):
    chosen = None if miner is None else miners.create(miner)
    memory = CrossBatchMemory(build(name, **settings), DIM, 20, chosen).to("meta")
    for _ in range(2):  # the second batch lies across the end of the memory
        rows, labels = batch()
        goes_back(memory(rows, labels), rows)


@pytest.mark.parametrize("name", additive_names())
@pytest.mark.parametrize("pairs", ["positive-negative", "anchor-negative"])
@pytest.mark.parametrize("negatives", [None, 2])
@pytest.mark.parametrize("where", ["embed", "feature"])
def test_mixing(name, pairs, negatives, where):
    """Which images are mixed follows from the labels, which stay on the CPU."""
    rows, _ = batch()
    labels = torch.arange(SIZE) % CLASSES
    source = (rows, lambda mixed: mixed * 2) if where == "feature" else ()
    mixing = Mixing(where, pairs=pairs, negatives=negatives)
    if (name, where, pairs) == ("proxy-anchor", "feature", "anchor-negative"):
        pytest.skip("a proxy has no feature map to mix")
    goes_back(mixing(build(name), rows, labels, *source), rows)


@pytest.mark.parametrize("overlap", ["any", "jaccard"])
@pytest.mark.parametrize(("name", "settings"), PAIR_LOSSES)
def test_multi_hot_labels(name, settings, overlap):
    if "num_classes" in settings:
        pytest.skip("a beta for each class needs class indices")
    if "label_comparison" in settings:
        pytest.skip("that comparison is of class indices")
    rows, _ = batch()
    labels = torch.zeros(SIZE, CLASSES, dtype=torch.long, device="meta")
    goes_back(build(name, overlap=overlap, **settings)(rows, labels), rows)


@pytest.mark.parametrize("name", regularizers.names())
def test_regularizers(name):
    rows, _ = batch()
    groups = {"num_classes": 3, "centers_per_class": 4} if name == "sparse-centers" else {}
    goes_back(regularizers.create(name, **groups)(rows), rows)
