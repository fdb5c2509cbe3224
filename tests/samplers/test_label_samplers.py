"""Samplers that look at labels only."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lookalike import samplers
from lookalike.errors import BadInput

LABELS = np.random.default_rng(0).integers(0, 23, 400)


def batches_of(name, epochs=1, **arguments):
    sampler = samplers.create(name, LABELS, batch_size=20, seed=5, **arguments)
    return [batch for _ in range(epochs) for batch in sampler]


@pytest.mark.parametrize("name", ["random", "spc"])
def test_same_seed_same_batches_and_another_epoch_others(name):
    assert batches_of(name, 2) == batches_of(name, 2)
    both = batches_of(name, 2)
    assert both[:20] != both[20:]
    assert len(both) == 2 * (400 // 20)


@pytest.mark.parametrize("name", ["random", "spc"])
def test_shards_are_disjoint_and_make_up_the_batch(name):
    whole = batches_of(name)
    shards = [batches_of(name, rank=rank, world_size=4) for rank in range(4)]
    for batch, *parts in zip(whole, *shards, strict=True):
        assert sorted(batch) == sorted(sum(parts, []))
        assert {len(part) for part in parts} == {5}


@pytest.mark.parametrize("name", ["random", "spc"])
def test_goes_on_inside_an_epoch(name):
    whole = batches_of(name, 2)
    first = samplers.create(name, LABELS, batch_size=20, seed=5)
    stream = iter(first)
    seen = [next(stream) for _ in range(13)]
    second = samplers.create(name, LABELS, batch_size=20, seed=5)
    second.load_state_dict(first.state_dict())
    assert seen + list(second) + list(second) == whole


@pytest.mark.parametrize("name", ["random", "spc"])
def test_works_as_a_batch_sampler_of_torch(name):
    data = TensorDataset(torch.from_numpy(LABELS))
    sampler = samplers.create(name, torch.from_numpy(LABELS), batch_size=20)
    assert sum(len(batch) for (batch,) in DataLoader(data, batch_sampler=sampler)) == 400


def test_spc_batches_hold_classes_of_equal_size():
    for batch in batches_of("spc", per_class=4):
        assert np.bincount(LABELS[batch])[np.unique(LABELS[batch])].tolist() == [4] * 5
        assert len(set(batch)) == 20


def test_spc_sees_every_class_before_any_twice():
    labels = np.repeat(np.arange(40), 6)
    sampler = samplers.create("spc", labels, batch_size=24, per_class=4)
    seen = [c for batch in sampler for c in dict.fromkeys(labels[batch].tolist())]
    for start in range(0, len(seen) - 39, 40):
        assert len(set(seen[start : start + 40])) == 40


def test_spc_sees_every_image_of_a_class_before_any_twice():
    labels = np.repeat(np.arange(5), 12)
    sampler = samplers.create("spc", labels, batch_size=20, per_class=4)
    seen = [image for batch in sampler for image in batch]
    assert sorted(seen) == list(range(60))


def test_spc_fills_up_small_classes():
    labels = np.repeat(np.arange(10), 2)
    (first, *_) = samplers.create("spc", labels, batch_size=20, per_class=4)
    assert np.bincount(labels[first])[np.unique(labels[first])].tolist() == [4] * 5


def test_random_sees_every_image_once():
    assert sorted(sum(batches_of("random"), [])) == list(range(400))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("spc", {"batch_size": 20, "per_class": 3}, "not a multiple"),
        ("spc", {"batch_size": 100, "per_class": 2}, "needs 50 classes"),
        ("random", {"batch_size": 401}, "more than the 400 images"),
        ("random", {"batch_size": 0}, "at least 1"),
        ("random", {"batch_size": 20, "world_size": 3}, "shared by 3"),
        ("spcc", {"batch_size": 20}, "did you mean 'spc'"),
    ],
)
def test_what_cannot_be_is_refused(name, arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        samplers.create(name, LABELS, **arguments)
