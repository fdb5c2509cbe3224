"""Cross-batch memory: equal to PML's, to a naive reading, and at its limits."""

import io

import pytest
import pytorch_metric_learning.losses as pml
import pytorch_metric_learning.miners as pml_miners
import torch

from lookalike import losses, miners
from lookalike.errors import BadInput
from lookalike.memory import CrossBatchMemory

DIM = 5


def batches(number, size=6, classes=4, dtype=torch.float64, seed=0):
    """Batches of unit embeddings that want gradients, and labels."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(number):
        rows = torch.randn(size, DIM, generator=generator, dtype=torch.float64).to(dtype)
        rows = torch.nn.functional.normalize(rows, dim=1).requires_grad_()
        yield rows, torch.randint(classes, (size,), generator=generator)


def compare(ours, theirs, number=6, **arguments):
    for rows, labels in batches(number, **arguments):
        mine, other = ours(rows, labels), theirs(rows, labels)
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)
        (a,) = torch.autograd.grad(mine, rows)
        (b,) = torch.autograd.grad(other, rows)
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


# not LiftedStructureLoss: PML takes places in the memory for places in the batch there
LOSSES = {
    "ContrastiveLoss": {},
    "TripletMarginLoss": {"margin": 0.3},
    "MultiSimilarityLoss": {},
    "NTXentLoss": {"temperature": 0.5},  # PML adds a small number inside its log
    "SupConLoss": {},
    "CircleLoss": {},
    "GeneralizedLiftedStructureLoss": {},
    "MarginLoss": {},
    "SignalToNoiseRatioContrastiveLoss": {},
    "TupletMarginLoss": {},
}


@pytest.mark.parametrize("name", LOSSES)
def test_equals_pml_while_it_fills_and_wraps(name):
    size = 20  # not a multiple of the batch: some batches lie across the end
    compare(
        CrossBatchMemory(getattr(losses, name)(**LOSSES[name]), DIM, size),
        pml.CrossBatchMemory(getattr(pml, name)(**LOSSES[name]), DIM, size),
    )


MINERS = [
    ("TripletMarginLoss", "multi-similarity", pml_miners.MultiSimilarityMiner()),
    ("MultiSimilarityLoss", "multi-similarity", pml_miners.MultiSimilarityMiner()),
    ("TripletMarginLoss", "triplet-margin", pml_miners.TripletMarginMiner()),
    ("ContrastiveLoss", "triplet-margin", pml_miners.TripletMarginMiner()),
    ("TripletMarginLoss", "hard", pml_miners.BatchHardMiner()),
    ("ContrastiveLoss", "pair-margin", pml_miners.PairMarginMiner()),
]


@pytest.mark.parametrize(("loss", "miner", "theirs"), MINERS)
def test_equals_pml_with_a_miner(loss, miner, theirs):
    # two classes: every image has another of its class, where the miners agree on what is left
    compare(
        CrossBatchMemory(getattr(losses, loss)(), DIM, 20, miners.create(miner)),
        pml.CrossBatchMemory(getattr(pml, loss)(), DIM, 20, miner=theirs),
        size=8,
        classes=2,
    )


def test_a_loss_and_a_miner_of_pml():
    compare(
        CrossBatchMemory(pml.ContrastiveLoss(), DIM, 20, pml_miners.PairMarginMiner()),
        pml.CrossBatchMemory(pml.ContrastiveLoss(), DIM, 20, miner=pml_miners.PairMarginMiner()),
    )


def test_a_loss_of_pml_alone():
    compare(
        CrossBatchMemory(pml.ContrastiveLoss(), DIM, 20),
        pml.CrossBatchMemory(pml.ContrastiveLoss(), DIM, 20),
    )


@pytest.mark.parametrize("build", [pml_miners.TripletMarginMiner, miners.TripletMarginMiner])
def test_a_miner_with_a_forward_of_its_own(build):
    """What it found is relieved of copies afterwards, whatever its form: lists, a condition."""

    class Own(build):
        def forward(self, *data):
            return super().forward(*data)

    compare(
        CrossBatchMemory(losses.TripletMarginLoss(), DIM, 20, Own()),
        pml.CrossBatchMemory(
            pml.TripletMarginLoss(), DIM, 20, miner=pml_miners.TripletMarginMiner()
        ),
        size=8,
        classes=2,
    )


def test_enqueue_mask_as_pml():
    ours = CrossBatchMemory(losses.NTXentLoss(), DIM, 20)
    theirs = pml.CrossBatchMemory(pml.NTXentLoss(), DIM, 20)
    mask = torch.tensor([True, True, True, False, False, False])
    for rows, labels in batches(5):
        torch.testing.assert_close(
            ours(rows, labels, enqueue_mask=mask),
            theirs(rows, labels, enqueue_mask=mask),
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["nca", "fast-ap"])
def test_a_loss_of_whole_anchors_does_not_see_copies(name):
    # PML's NCA compares an image with its own copy, at distance 0
    loss = losses.create(name)
    memory = CrossBatchMemory(loss, DIM, 100)
    stored, classes = [], []
    for rows, labels in batches(3):
        before = sum(len(part) for part in stored)
        stored.append(rows.detach())
        classes.append(labels)
        everything, known = torch.cat(stored), torch.cat(classes)
        values = []
        for i in range(len(rows)):
            others = torch.arange(len(everything)) != before + i
            one = loss.relations(rows[[i]], labels[[i]], everything[others], known[others])
            if one.positives.sum():
                values.append(loss.total_loss(one))
        torch.testing.assert_close(memory(rows, labels), torch.stack(values).mean())


OVER_IMAGES = [
    name for name in losses.names() if issubclass(losses.LOSSES.find(name).build, losses.PairLoss)
]


@pytest.mark.parametrize("name", OVER_IMAGES)
@pytest.mark.parametrize("miner", [None, "semi-hard", "multi-similarity", "easy-positive"])
def test_every_pair_and_triplet_loss(name, miner):
    loss = losses.create(name)
    memory = CrossBatchMemory(loss, DIM, 16, None if miner is None else miners.create(miner))
    for rows, labels in batches(4, dtype=torch.float32):
        value = memory(rows, labels)
        (gradient,) = torch.autograd.grad(value, rows)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", miners.names())
def test_every_miner(name):
    torch.manual_seed(0)
    memory = CrossBatchMemory(losses.TripletMarginLoss(margin=1), DIM, 16, miners.create(name))
    values = [memory(*batch) for batch in batches(4, dtype=torch.float32)]
    assert all(torch.isfinite(value) for value in values)
    assert any(value > 0 for value in values)


def test_near_positives_are_others_not_copies():
    found = []

    class Watching(miners.BatchEasyHardMiner):
        def mine(self, relations):
            found.append(super().mine(relations))
            return found[-1]

    memory = CrossBatchMemory(losses.TripletMarginLoss(), DIM, 64, Watching("easy", "hard"))
    for at, (rows, labels) in enumerate(batches(3)):
        memory(rows, labels)
        anchor, positive = found[-1].positives.nonzero(as_tuple=True)
        assert len(anchor)
        assert not (positive == anchor + 6 * at).any()


def test_rho_regularisation_keeps_the_copy_it_means():
    torch.manual_seed(0)
    rho = miners.RhoMiner("random", probability=1.0)
    memory = CrossBatchMemory(losses.TripletMarginLoss(margin=3), DIM, 64, rho)
    for rows, labels in batches(4):
        value = memory(rows, labels)
    assert 0 < value <= 3  # d_ap = 0: the margin less the distance to a classmate


def test_until_it_starts_the_loss_is_that_of_the_batch():
    loss, miner = losses.ContrastiveLoss(), miners.PairMarginMiner()
    memory = CrossBatchMemory(loss, DIM, 64, miner, start=2)
    for at, (rows, labels) in enumerate(batches(3)):
        alone = loss(rows, labels, miner(rows, labels))
        assert torch.equal(memory(rows, labels), alone) == (at < 2)
    assert len(memory) == 18  # filled from the first batch on


def test_state_goes_on_where_it_was():
    memory = CrossBatchMemory(losses.ContrastiveLoss(), DIM, 20, start=1)
    *first, last = batches(5)
    for batch in first:
        memory(*batch)
    assert all(isinstance(value, torch.Tensor) for value in memory.state_dict().values())
    saved = io.BytesIO()
    torch.save(memory.state_dict(), saved)
    saved.seek(0)
    other = CrossBatchMemory(losses.ContrastiveLoss(), DIM, 20, start=1)
    other.load_state_dict(torch.load(saved, weights_only=True))
    assert len(other) == len(memory) == 20
    assert torch.equal(memory(*last), other(*last))
    other.reset_queue()
    assert len(other) == 0


def test_half_precision_and_large_labels():
    memory = CrossBatchMemory(losses.MultiSimilarityLoss(), DIM, 20)
    for rows, labels in batches(3, dtype=torch.bfloat16):
        assert memory(rows, labels + 2**24).dtype == torch.float32
    assert memory.label_memory.max() > 2**24


def test_no_gradient_stays_in_the_memory():
    memory = CrossBatchMemory(losses.ContrastiveLoss(), DIM, 20)
    for rows, labels in batches(3):
        memory(rows, labels).backward()
    assert not memory.embedding_memory.requires_grad


def test_what_does_not_fit_is_refused():
    ((rows, labels),) = batches(1)
    with pytest.raises(BadInput, match="cannot hold a batch of 6"):
        CrossBatchMemory(losses.ContrastiveLoss(), DIM, 5)(rows, labels)
    with pytest.raises(BadInput, match="one class index"):
        CrossBatchMemory(losses.ContrastiveLoss(), DIM, 9)(rows, torch.eye(6))


@pytest.mark.parametrize("build", [losses.TripletMarginLoss, losses.MarginLoss])
def test_triplets_per_anchor_is_heeded_without_a_miner(build):
    """So many random triplets of each anchor, drawn from the memory: their mean differs by draw."""
    torch.manual_seed(0)
    rows, labels = torch.randn(24, DIM), torch.arange(24) % 4

    def values(**settings):
        found = []
        for seed in range(4):
            memory = CrossBatchMemory(build(margin=1, **settings), DIM, 64)
            memory(rows + 1, labels)
            torch.manual_seed(seed)
            found.append(memory(rows, labels))
        return torch.stack(found)

    assert values().unique().numel() == 1
    assert values(triplets_per_anchor=1).unique().numel() == 4


@pytest.mark.parametrize("name", [name for name in losses.names() if name not in OVER_IMAGES])
def test_for_proxies_the_memory_has_further_images(name):
    """The loss of the batch and all stored images together; only the batch gets a gradient."""
    torch.manual_seed(0)
    loss = losses.create(name, num_classes=4, embedding_size=DIM).double()
    memory = CrossBatchMemory(loss, DIM, 18)
    stored = []
    for rows, labels in batches(5):
        expected = loss(
            torch.cat([rows, *(before.detach() for before, _ in stored)]),
            torch.cat([labels, *(classes for _, classes in stored)]),
        )
        value = memory(rows, labels)
        torch.testing.assert_close(value, expected)
        leaves = [rows, *loss.parameters()]
        ours, theirs = (torch.autograd.grad(each, leaves) for each in (value, expected))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)
        stored = [*stored, (rows, labels)][-2:]  # three batches fill the memory


def test_proxies_need_to_know_which_images_are_copies():
    memory = CrossBatchMemory(losses.ProxyAnchorLoss(4, DIM).double(), DIM, 18)
    ((rows, labels),) = batches(1)
    with pytest.raises(BadInput, match="learned vectors"):
        memory(rows, labels, enqueue_mask=torch.arange(6) < 3)


@pytest.mark.parametrize("miner", [None, "multi-similarity", "triplet-margin"])
@pytest.mark.parametrize("name", ["ContrastiveLoss", "TripletMarginLoss", "NTXentLoss"])
def test_further_pairs_equal_pml(name, miner):
    """Indices of the batch and of the memory count beside what is found there."""
    theirs = {"multi-similarity": "MultiSimilarityMiner", "triplet-margin": "TripletMarginMiner"}
    ours = CrossBatchMemory(getattr(losses, name)(), DIM, 20, miner=miner and miners.create(miner))
    pml_miner = miner and getattr(pml_miners, theirs[miner])()
    other = pml.CrossBatchMemory(getattr(pml, name)(), DIM, 20, miner=pml_miner)
    pairs = torch.tensor([[0, 1, 2], [3, 4, 5], [0, 1, 5], [1, 2, 0]])
    for number, (rows, labels) in enumerate(batches(4)):
        if not number:
            ours(rows, labels), other(rows, labels)
            continue
        given = tuple(pairs[:3] if miner == "triplet-margin" else pairs)
        mine, expected = ours(rows, labels, given), other(rows, labels, given)
        torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(BadInput, match="not both"):
        ours(rows, labels, tuple(pairs), torch.ones(6, dtype=torch.bool))


def test_triplets_beside_all_pairs_equal_pml():
    """Without a miner the pairs of triplets count beside all pairs."""
    ours = CrossBatchMemory(losses.ContrastiveLoss(), DIM, 20)
    theirs = pml.CrossBatchMemory(pml.ContrastiveLoss(), DIM, 20)
    triplets = tuple(torch.tensor([[0, 1, 2], [3, 4, 5], [1, 2, 0]]))
    for number, (rows, labels) in enumerate(batches(4)):
        given = triplets if number else None
        torch.testing.assert_close(ours(rows, labels, given), theirs(rows, labels, given))


@pytest.mark.parametrize("name", ["contrastive", "proxy-anchor"])
def test_labels_stay_where_they_are(name):
    """Those of a loader are on the CPU: comparing them does not wait for a device."""
    sizes = {"num_classes": 4, "embedding_size": DIM} if name == "proxy-anchor" else {}
    loss = losses.create(name, **sizes).to("meta")
    miner = None if sizes else miners.create("multi-similarity")
    memory = CrossBatchMemory(loss, DIM, 12, miner)
    for rows, labels in batches(3, dtype=torch.float32):
        value = memory(rows.detach().to("meta").requires_grad_(), labels)
        value.backward()
    assert memory.embedding_memory.device.type == "meta"
    assert memory.label_memory.device == labels.device
