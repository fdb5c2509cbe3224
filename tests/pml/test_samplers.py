"""Samplers with PML's arguments."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lookalike.errors import BadInput
from lookalike.pml.miners import EmbeddingsAlreadyPackagedAsTriplets, MultiSimilarityMiner
from lookalike.pml.samplers import (
    FixedSetOfTriplets,
    HierarchicalSampler,
    MPerClassSampler,
    TuplesToWeightsSampler,
)


@pytest.fixture
def labels():
    return np.random.default_rng(0).integers(0, 10, 200)


@pytest.mark.parametrize(("m", "batch_size"), [(1, 10), (4, 12), (5, 50), (50, 100)])
def test_m_per_class_in_batches(labels, m, batch_size):
    sampler = MPerClassSampler(labels, m, batch_size, length_before_new_iter=1003)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 1003 - 1003 % batch_size
    for at in range(0, len(drawn), batch_size):
        counts = Counter(labels[drawn[at : at + batch_size]].tolist())
        assert set(counts.values()) == {m}
        assert len(counts) == batch_size // m
        if m <= 4:  # every class has that many images
            assert len(set(drawn[at : at + batch_size])) == batch_size
    data = TensorDataset(torch.from_numpy(labels))
    loader = DataLoader(data, batch_size, sampler=sampler)
    assert len(loader) == 1003 // batch_size


def test_m_per_class_without_batches(labels):
    sampler = MPerClassSampler(torch.from_numpy(labels), m=3, length_before_new_iter=100)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 90
    for at in range(0, 90, 30):  # every class before any comes twice
        counts = Counter(labels[drawn[at : at + 30]].tolist())
        assert counts == dict.fromkeys(range(10), 3)


def test_seeds(labels):
    first, second = (list(MPerClassSampler(labels, 2, 20, 200, seed=1)) for _ in range(2))
    assert first == second
    found = []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        found.append(list(MPerClassSampler(labels, 2, 20, 200)))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3, 10), "not a multiple"),
        ((2, 40), "needs 20 classes"),
        ((2, 20, 10), "less than a batch"),
    ],
)
def test_m_per_class_refuses(labels, arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        MPerClassSampler(labels, *arguments)


def test_fixed_triplets(labels):
    sampler = FixedSetOfTriplets(labels, num_triplets=40, seed=0)
    epochs = [np.array(list(sampler)).reshape(-1, 3) for _ in range(2)]
    assert len(sampler) == 120
    assert sorted(map(tuple, epochs[0])) == sorted(map(tuple, epochs[1]))
    assert not np.array_equal(*epochs)
    a, p, n = epochs[0].T
    assert (labels[a] == labels[p]).all()
    assert (labels[a] != labels[n]).all()
    assert (a != p).all()
    found = EmbeddingsAlreadyPackagedAsTriplets()(torch.randn(9, 2), torch.zeros(9))
    assert [part.tolist() for part in found] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    with pytest.raises(BadInput, match="two classes"):
        FixedSetOfTriplets([0, 0], 3)


@pytest.mark.parametrize("tuples", [1, 2, 3])
def test_super_class_tuples(labels, tuples):
    table = np.stack([labels, labels // 2], 1)
    sampler = HierarchicalSampler(
        table, 4 * tuples, 2, batches_per_super_tuple=3, super_classes_per_batch=tuples
    )
    batches = list(sampler)
    assert len(sampler) == len(batches)
    seen = Counter()
    for batch in batches:
        assert set(Counter(table[batch, 0].tolist()).values()) == {2}
        groups = Counter(table[batch, 1].tolist())
        assert set(groups.values()) == {4}
        seen[tuple(sorted(groups))] += 1
    assert seen == dict.fromkeys(combinations(range(5), tuples), 3)


def test_whole_classes(labels):
    table = torch.from_numpy(np.stack([labels // 2, labels], 1))
    sampler = HierarchicalSampler(table, 60, "all", inner_label=1, outer_label=0, seed=1)
    sizes = np.bincount(labels)
    for batch in sampler:
        counts = Counter(labels[batch].tolist())
        assert all(counts[c] == sizes[c] for c in counts)
        assert len(batch) <= 60
    with pytest.raises(BadInput, match="not a multiple"):
        HierarchicalSampler(table, 10, 3)
    with pytest.raises(BadInput, match="row of levels"):
        HierarchicalSampler(labels, 10, 5)


def test_images_that_a_miner_names(labels):
    images = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(images, torch.from_numpy(labels))
    model = torch.nn.Linear(4, 3)
    sampler = TuplesToWeightsSampler(model, MultiSimilarityMiner(), data, subset_size=60)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 60
    assert (sampler.weights[drawn] > 0).all()
    assert (sampler.weights > 0).sum() <= 60
    assert model.training
    nothing = TuplesToWeightsSampler(model, lambda *_: (torch.zeros(0).long(),) * 3, data)
    assert len(list(nothing)) == 200
    with pytest.raises(BadInput, match="200 images"):
        TuplesToWeightsSampler(model, MultiSimilarityMiner(), data, subset_size=201)
