"""No step waits for the device while its labels are on the CPU, as a loader leaves them.

torch's ``meta`` device has shapes and no numbers: whoever reads one there gets an error. It takes
the branches of every device that is not the CPU, forwards and backwards. The cases that read one
number, once a step, are listed with the reason.
"""

import pytest
import torch

from lookalike import losses, miners, regularizers
from lookalike.losses import LOSSES
from lookalike.miners.mined import anchor_weights, chosen_triplets

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
    ("multi-similarity", {"label_comparison": "jaccard"}),
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


KINDS = [None, "multi-similarity", "semi-hard"]
"""No miner, and one for each form of what miners choose: pairs, and triplets."""

LISTED_AGAIN = {
    "angular", "hyperbolic", "lifted-structure", "margin", "ntxent", "pnp", "quadruplet",
    "recall-at-k", "smooth-ap", "triplet", "tuplet-margin",
}  # fmt: skip
"""Losses over listed pairs or triplets: where a miner chooses other pairs than the labels say,
those are listed on the device, once. Triplets of a miner are a list already."""


LISTS_TRIPLETS = [{"miner": "triplet-margin"}]
"""Settings of the rho miner with which it draws from triplets whose number nobody knows."""
NEEDS_ITS_OWN_IMAGES = {"pnp", "smooth-ap"}
"""Losses that list each anchor as a positive of its own, by its copy among the references."""


def waits(name, settings, miner, *, references=False):
    """Whether a step of this loss with this miner reads numbers of the device."""
    if references and name in NEEDS_ITS_OWN_IMAGES:
        return True
    if miner is None or name not in LISTED_AGAIN or "triplets_per_anchor" in settings:
        return False
    from_miner = LOSSES.find(name).build.from_miner
    if from_miner is anchor_weights:  # all pairs, each anchor with a factor
        return False
    return not (from_miner is chosen_triplets and chooses_triplets(miner))


def chooses_triplets(miner):
    chosen = miners.create(miner)(torch.eye(6), torch.arange(6) // 2)
    return chosen.relations.triplets is not None


def build(name, **arguments):
    sizes = {"num_classes": CLASSES, "embedding_size": DIM}
    if "embedding_size" in LOSSES.arguments(name):
        arguments |= sizes
    return losses.create(name, **arguments).to("meta")


def batch(size=SIZE):
    """Embeddings on the device, labels on the CPU."""
    return torch.randn(size, DIM, device="meta", requires_grad=True), torch.arange(size) % CLASSES


def goes_back(value, leaf):
    assert value.shape == ()
    assert value.device.type == "meta"
    value.backward()
    assert leaf.grad.shape == leaf.shape


def goes_back_or_waits(step, leaf, wait):
    """A step that needs no number, or one that is known to need one."""
    if not wait:
        goes_back(step(), leaf)
        return
    with pytest.raises(NotImplementedError):
        step()


def mined(miner, *data):
    return None if miner is None else miners.create(miner)(*data)


def test_reading_a_number_is_an_error():
    rows, _ = batch()
    for read in (rows.sum().item, rows.nonzero, rows.tolist, lambda: bool(rows[0, 0] > 0)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            read()


@pytest.mark.parametrize(("name", "settings"), DEFAULTS + OTHERWISE)
@pytest.mark.parametrize("miner", KINDS)
def test_every_loss(name, settings, miner):
    rows, labels = batch()
    loss = build(name, **settings)
    wait = waits(name, settings, miner)
    goes_back_or_waits(lambda: loss(rows, labels, mined(miner, rows, labels)), rows, wait)
    if not wait:
        assert all(weight.grad is not None for weight in loss.parameters())


@pytest.mark.parametrize(("name", "settings"), PAIR_LOSSES)
@pytest.mark.parametrize("miner", KINDS)
def test_every_loss_over_images_with_references(name, settings, miner):
    rows, labels = batch()
    others, classes = batch(20)
    loss = build(name, **settings)

    def step():
        found = mined(miner, rows, labels, others, classes)
        return loss(rows, labels, found, others, classes)

    goes_back_or_waits(step, rows, waits(name, settings, miner, references=True))


@pytest.mark.parametrize(("name", "settings"), MINERS)
@pytest.mark.parametrize("loss", ["triplet", "margin", "contrastive", "fast-ap", "proxy-anchor"])
def test_every_miner(name, settings, loss):
    rows, labels = batch()
    miner = miners.create(name, **settings)
    wait = settings in LISTS_TRIPLETS or waits(loss, {}, name)
    goes_back_or_waits(lambda: build(loss)(rows, labels, miner(rows, labels)), rows, wait)


def test_index_tensors_of_pairs_are_listed_once():
    """Triplets are a list as they come; pairs for a loss over pairs are not."""
    rows, labels = batch()
    indices = [torch.arange(3), torch.arange(3) + 6, torch.arange(3), torch.arange(3) + 1]
    goes_back(build("triplet")(rows, labels, tuple(indices[:2] + indices[3:])), rows)
    goes_back(build("contrastive")(rows, labels, tuple(indices)), rows)
    with pytest.raises(NotImplementedError):
        build("triplet")(rows, labels, tuple(indices))


@pytest.mark.parametrize("comparison", [None, "jaccard"])
@pytest.mark.parametrize(("name", "settings"), PAIR_LOSSES)
def test_multi_hot_labels(name, settings, comparison):
    if "num_classes" in settings or name == "quadruplet":
        pytest.skip("it needs class indices")
    if "label_comparison" in settings:
        pytest.skip("it has a comparison of its own")
    rows, _ = batch()
    labels = (torch.arange(SIZE * CLASSES) % 5 == 0).long().view(SIZE, CLASSES)
    goes_back(build(name, label_comparison=comparison, **settings)(rows, labels), rows)


@pytest.mark.parametrize("name", regularizers.names())
def test_regularizers(name):
    rows, _ = batch()
    groups = {"num_classes": 3, "centers_per_class": 4} if name == "sparse-centers" else {}
    goes_back(regularizers.create(name, **groups)(rows), rows)
