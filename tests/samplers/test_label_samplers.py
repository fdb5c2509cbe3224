"""Samplers that look at labels only."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lookalike import samplers
from lookalike.errors import BadInput

LABELS = np.random.default_rng(0).integers(0, 23, 400)
SUPER = {"per_class": 5, "super_classes": 2, "super_labels": LABELS // 6}
ALL = pytest.mark.parametrize(
    ("name", "extra"), [("random", {}), ("spc", {}), ("spc-r", {}), ("hierarchical", SUPER)]
)


def sampler_of(name, **arguments):
    return samplers.create(name, LABELS, batch_size=20, seed=5, **arguments)


def batches_of(name, epochs=1, **arguments):
    sampler = sampler_of(name, **arguments)
    return [batch for _ in range(epochs) for batch in sampler]


@ALL
def test_same_seed_same_batches_and_another_epoch_others(name, extra):
    both = batches_of(name, 2, **extra)
    assert both == batches_of(name, 2, **extra)
    assert both[:20] != both[20:]
    assert len(both) == 2 * (400 // 20)


@ALL
def test_goes_on_inside_an_epoch(name, extra):
    whole = batches_of(name, 3, **extra)
    first = sampler_of(name, **extra)
    stream = iter(first)
    seen = list(first) + [next(stream) for _ in range(13)]
    second = sampler_of(name, **extra)
    second.load_state_dict(first.state_dict())
    assert seen + list(second) + list(second) == whole


@ALL
def test_works_as_a_batch_sampler_of_torch(name, extra):
    data = TensorDataset(torch.from_numpy(LABELS))
    batches = DataLoader(data, batch_sampler=sampler_of(name, **extra))
    assert sum(len(batch) for (batch,) in batches) == 400


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


def test_spc_remembers_the_unseen_classes_over_epochs():
    labels = np.repeat(np.arange(30), 2)  # an epoch of 60 images meets 15 of 30 classes
    sampler = samplers.create("spc", labels, batch_size=12, per_class=4)
    seen = [c for _ in range(2) for batch in sampler for c in set(labels[batch].tolist())]
    assert sorted(seen) == list(range(30))


def spc_r_batches(classes: int, images: int, batch: int, epochs: int) -> tuple[np.ndarray, list]:
    labels = np.repeat(np.arange(classes), images)
    sampler = samplers.create("spc-r", labels, batch_size=batch, seed=3)
    return labels, [batch for _ in range(epochs) for batch in sampler]


def test_spc_r_draws_classes_with_replacement():
    """111 draws from 100 classes meet ``100 (1 - 0.99^111)`` of them on average, about 67."""
    labels, batches = spc_r_batches(classes=100, images=60, batch=112, epochs=8)
    distinct = np.array([len(set(labels[batch[:-1]].tolist())) for batch in batches])
    # chances that one class, and that two classes, are not drawn: the variance of their number
    rest, two = 0.99**111, 0.98**111
    variance = 100 * rest * (1 - rest) + 100 * 99 * (two - rest**2)
    error = (distinct.mean() - 100 * (1 - rest)) / np.sqrt(variance / len(distinct))
    assert abs(error) < 4
    assert distinct.std() == pytest.approx(np.sqrt(variance), rel=0.15)


def test_spc_r_draws_every_class_and_image_alike():
    labels, batches = spc_r_batches(classes=10, images=30, batch=31, epochs=60)
    drawn = np.concatenate([batch[:-1] for batch in batches])
    for counts in (np.bincount(labels[drawn], minlength=10), np.bincount(drawn, minlength=300)):
        even = len(drawn) / len(counts)
        assert counts.sum() == len(drawn)
        assert np.abs(counts - even).max() < 5 * np.sqrt(even)


def test_spc_r_does_not_weigh_classes_by_their_size():
    labels = np.repeat([0, 1], [10, 190])
    sampler = samplers.create("spc-r", labels, batch_size=5)
    drawn = np.concatenate([labels[batch[:-1]] for _ in range(10) for batch in sampler])
    assert abs(drawn.mean() - 0.5) < 4 * np.sqrt(0.25 / len(drawn))


def test_spc_r_ends_with_a_partner():
    labels, batches = spc_r_batches(classes=40, images=6, batch=5, epochs=3)
    alone = 0
    for *others, last in batches:
        assert labels[last] in labels[others]
        assert last not in others
        assert len(set(others)) == 4
        alone += len(set(labels[others].tolist())) == 4
    assert alone > 0  # without the partner such a batch would have no positive pair


def test_spc_r_repeats_images_only_of_classes_that_are_too_small():
    labels = np.repeat(np.arange(3), 4)
    for batch in samplers.create("spc-r", labels, batch_size=12):
        images = np.bincount(batch[:-1], minlength=12).reshape(3, 4)
        for counts in images:
            assert counts.max() - counts.min() <= 1


def test_spc_r_with_one_image_a_class_repeats_one():
    for *others, last in samplers.create("spc-r", np.arange(30), batch_size=10):
        assert last in others


def test_hierarchical_batches_hold_few_super_classes():
    for batch in batches_of("hierarchical", **SUPER):
        assert len(set((LABELS[batch] // 6).tolist())) == 2
        assert np.bincount(LABELS[batch])[np.unique(LABELS[batch])].tolist() == [5] * 4


def test_spc_sees_every_image_of_a_class_before_any_twice():
    labels = np.repeat(np.arange(5), 12)
    sampler = samplers.create("spc", labels, batch_size=20, per_class=4)
    seen = [image for batch in sampler for image in batch]
    assert sorted(seen) == list(range(60))


def test_spc_fills_up_small_classes():
    labels = np.repeat(np.arange(10), 2)
    (first, *_) = samplers.create("spc", labels, batch_size=20, per_class=4)
    assert np.bincount(labels[first])[np.unique(labels[first])].tolist() == [4] * 5


@pytest.mark.parametrize(
    ("classes", "together", "each"), [(5, 4, 8), (8, 8, 4), (12, 8, 4), (1, 1, 32)]
)
def test_spc_with_fewer_classes_than_a_batch_has_takes_more_images_of_each(classes, together, each):
    labels = np.repeat(np.arange(classes), 40)
    for batch in samplers.create("spc", labels, batch_size=32, per_class=4, fewer_classes=True):
        counts = np.bincount(labels[batch], minlength=classes)
        assert sorted(counts)[-together:] == [each] * together
        assert len(batch) == len(set(batch)) == 32


def test_random_sees_every_image_once():
    assert sorted(i for batch in batches_of("random") for i in batch) == list(range(400))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("spc", {"batch_size": 20, "per_class": 3}, "not a multiple"),
        ("spc", {"batch_size": 100, "per_class": 2}, "needs 50 classes"),
        ("random", {"batch_size": 401}, "more than the 400 images to train on"),
        ("random", {"batch_size": 0}, "at least 1"),
        ("random", {"batch_size": 20, "world_size": 3}, "takes no argument 'world_size'"),
        ("hierarchical", {"batch_size": 20}, "needs super_labels"),
        ("hierarchical", SUPER | {"batch_size": 12}, "not a multiple"),
        ("hierarchical", SUPER | {"batch_size": 200}, "at least 20 classes"),
        ("hierarchical", SUPER | {"batch_size": 20, "super_labels": LABELS[::-1]}, "more than one"),
        ("spcc", {"batch_size": 20}, "did you mean 'spc'"),
    ],
)
def test_what_cannot_be_is_refused(name, arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        samplers.create(name, LABELS, **arguments)
