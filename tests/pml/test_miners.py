"""Miners that PML has, counts of what was found, and index tuples."""

import pytest
import pytorch_metric_learning.distances as their_distances
import pytorch_metric_learning.miners as theirs
import pytorch_metric_learning.utils.loss_and_miner_utils as lmu
import torch

import lookalike.pml.losses as losses
import lookalike.pml.miners as ours
from lookalike.errors import BadInput
from lookalike.pml.utils import loss_and_miner_utils as indices


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(24, 6, dtype=torch.float64, generator=generator)
    others = torch.randn(30, 6, dtype=torch.float64, generator=generator)
    labels, classes = (torch.randint(0, 5, (size,), generator=generator) for size in (24, 30))
    return rows, labels, others, classes


def distances_of(found, matrix):
    a, p, b, n = found
    return matrix[a, p], matrix[b, n]


@pytest.mark.parametrize("distance", ["LpDistance", "CosineSimilarity"])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_hdc(share, distance, data):
    """The same pairs, hardest first, but for the order of two that are equally hard."""
    rows, labels, others, classes = data
    measure = getattr(their_distances, distance)()
    mine = ours.HDCMiner(share, distance={"LpDistance": "l2"}.get(distance, "cosine"))
    pml = theirs.HDCMiner(share, distance=measure)
    for rest in ((), (others, classes)):
        matrix = measure(rows, rest[0] if rest else rows)
        expected = distances_of(pml(rows, labels, *rest), matrix)
        torch.testing.assert_close(distances_of(mine(rows, labels, *rest), matrix), expected)


def test_hdc_narrows_what_another_miner_found(data):
    rows, labels, _, _ = data
    chosen = tuple(ours.MultiSimilarityMiner()(rows, labels))
    mine, pml = ours.HDCMiner(0.3), theirs.HDCMiner(0.3)
    matrix = their_distances.LpDistance()(rows)
    for miner in (mine, pml):
        miner.set_idx_externally(chosen, labels)
    found, expected = (distances_of(miner(rows, labels), matrix) for miner in (mine, pml))
    torch.testing.assert_close(found, expected)
    mine.reset_idx()
    assert mine(rows, labels)[0].numel() > len(found[0])
    with pytest.raises(BadInput, match="filter_percentage"):
        ours.HDCMiner(0)


def test_uniform_histogram(data):
    """So many pairs of every bin that is not empty, the bins being PML's."""
    rows, labels, _, _ = data
    mine = ours.UniformHistogramMiner(num_bins=7, pos_per_bin=4, neg_per_bin=3)
    a, p, b, n = mine(rows, labels)
    matrix = mine.distance(rows)
    same = (labels.unsqueeze(1) == labels) & ~torch.eye(24).bool()
    different = labels.unsqueeze(1) != labels
    for all_pairs, drawn, number in ((same, (a, p), 4), (different, (b, n), 3)):
        assert all_pairs[drawn].all()
        everything = matrix[all_pairs]
        edges = torch.linspace(everything.min(), everything.max(), 8, dtype=torch.float64)
        # a value on an edge may fall on either side of it
        counts = torch.histogram(everything, edges).hist, torch.histogram(matrix[drawn], edges).hist
        assert torch.equal(counts[1], (counts[0] > 0) * float(number))
    assert (mine.num_pos_pairs, mine.num_neg_pairs, mine.num_triplets) == (len(a), len(b), 0)
    one = ours.UniformHistogramMiner(num_bins=3)(rows[:2], torch.tensor([0, 0]))
    assert [len(part) for part in one] == [10, 10, 0, 0]


def test_batches_that_are_triplets(data):
    rows, labels, others, classes = data
    miner = ours.EmbeddingsAlreadyPackagedAsTriplets()
    found = miner(rows, labels)
    expected = theirs.EmbeddingsAlreadyPackagedAsTriplets()(rows, labels)
    assert all(torch.equal(mine, other) for mine, other in zip(found, expected, strict=True))
    assert miner.num_triplets == 8
    assert torch.isfinite(losses.TripletMarginLoss()(rows, labels, found))
    with pytest.raises(BadInput, match="consist of triplets"):
        miner(rows[:4], labels[:4])
    with pytest.raises(BadInput, match="no ref_emb"):
        miner(rows, labels, others, classes)


COUNTED = ["TripletMarginMiner", "MultiSimilarityMiner", "BatchHardMiner", "BatchEasyHardMiner"]


@pytest.mark.parametrize("name", [*COUNTED, "PairMarginMiner", "AngularMiner"])
def test_numbers_after_a_call(name, data):
    rows, labels, _, _ = data
    mine = getattr(ours, name)()
    assert (mine.num_pos_pairs, mine.num_neg_pairs, mine.num_triplets) == (0, 0, 0)
    found = tuple(mine(torch.nn.functional.normalize(rows), labels))
    if len(found) == 3:
        assert (mine.num_triplets, mine.num_pos_pairs) == (len(found[0]), 0)
    else:
        counts = len(found[0]), len(found[2]), 0
        assert (mine.num_pos_pairs, mine.num_neg_pairs, mine.num_triplets) == counts


def test_a_miner_does_not_keep_the_graph(data):
    rows, labels, _, _ = data
    miner = ours.MultiSimilarityMiner()
    miner((rows.requires_grad_() * 2), labels)
    tensors = [part for part in miner.found if isinstance(part, torch.Tensor)]
    assert not any(part.requires_grad for part in tensors)
    assert miner.found.embeddings is None


def test_strategies_by_constant(data):
    rows, labels, _, _ = data
    kind = ours.BatchEasyHardMiner
    mine = kind(pos_strategy=kind.HARD, neg_strategy=kind.EASY)
    theirs_ = theirs.BatchEasyHardMiner
    pml = theirs_(pos_strategy=theirs_.HARD, neg_strategy=theirs_.EASY)
    found, expected = mine(rows, labels), pml(rows, labels)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert kind.ALL == "all"
    assert kind.SEMIHARD == "semihard"


def as_set(found):
    return set(zip(*(part.tolist() for part in found), strict=True))


def test_index_tuples(data):
    _, labels, _, classes = data
    for rest in ((), (classes,)):
        found, expected = (module.get_all_pairs_indices(labels, *rest) for module in (indices, lmu))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        three, of_pml = (
            module.get_all_triplets_indices(labels, *rest) for module in (indices, lmu)
        )
        assert as_set(three) == as_set(of_pml)
        again = indices.convert_to_triplets(expected, labels)
        assert as_set(again) == as_set(of_pml)
        assert all(
            torch.equal(a, b)
            for a, b in zip(
                indices.convert_to_pairs(of_pml, labels),
                lmu.convert_to_pairs(of_pml, labels),
                strict=True,
            )
        )
        drawn = indices.convert_to_triplets(None, labels, *rest, t_per_anchor=3)
        assert as_set(drawn) <= as_set(of_pml)
        for chosen in (None, expected, of_pml):
            arguments = chosen, labels, torch.float64, bool(rest)
            torch.testing.assert_close(
                indices.convert_to_weights(*arguments), lmu.convert_to_weights(*arguments)
            )
    assert as_set(indices.convert_to_triplets(None, labels, None, "all")) == as_set(
        lmu.get_all_triplets_indices(labels)
    )


class Closest(ours.BaseMiner):
    """As a user of PML writes a miner."""

    def mine(self, embeddings, labels, ref_emb, ref_labels):
        mat = self.distance(embeddings, ref_emb)
        a, p, b, n = indices.get_all_pairs_indices(labels, ref_labels)
        near = mat[b, n] < mat.mean()
        return a, p, b[near], n[near]


def test_a_miner_written_as_pmls(data):
    rows, labels, others, classes = data
    miner = Closest()
    for rest in ((), (others, classes)):
        found = miner(rows, labels, *rest)
        assert (miner.num_pos_pairs, miner.num_neg_pairs) == (len(found[0]), len(found[2]))
        value = losses.ContrastiveLoss()(rows, labels, found, *rest)
        assert torch.isfinite(value)


class Odd(ours.BaseMiner):
    def mine(self, embeddings, labels, ref_emb, ref_labels):
        return labels, labels


def test_a_miner_that_returns_neither_pairs_nor_triplets(data):
    rows, labels, _, _ = data
    with pytest.raises(BadInput, match="3 tensors"):
        Odd()(rows, labels)
