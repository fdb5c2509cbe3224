"""Samplers that look at embeddings: better than chance by their own criterion."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch

from lookalike import samplers
from lookalike.errors import BadInput

NAMES = ["gc", "d2", "ddm", "frd"]
RANDOM = np.random.default_rng(3)
LABELS = np.repeat(np.arange(60), 10)
CENTRES = RANDOM.normal(size=(60, 16)) * RANDOM.gamma(1, 1, size=(60, 1))
EMBEDDINGS = torch.from_numpy(CENTRES[LABELS] + 0.4 * RANDOM.normal(size=(600, 16))).float()
UNIT = torch.nn.functional.normalize(EMBEDDINGS, dim=1).double().numpy()


def sampler_of(name, fill=True, **arguments):
    sampler = samplers.create(name, LABELS, batch_size=40, per_class=4, seed=2, **arguments)
    if fill:
        sampler.fill(EMBEDDINGS)
    return sampler


def distances(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)


def smallest_gap(batch):
    heads = UNIT[batch[::4]]
    return (distances(heads) + 9 * np.eye(len(heads))).min()


def wasserstein_to_all(batch):
    upper, whole = np.triu_indices(40, 1), np.triu_indices(600, 1)
    return scipy.stats.wasserstein_distance(
        distances(UNIT[batch])[upper], distances(UNIT)[whole][::7]
    )


def frechet_to_all(batch):
    return frechet(UNIT[batch], UNIT)


def frechet(rows, others):
    s, t = np.cov(rows.T), np.cov(others.T)
    root = scipy.linalg.sqrtm(s @ t).real
    return ((rows.mean(0) - others.mean(0)) ** 2).sum() + np.trace(s + t - 2 * root)


def random_heads():
    """Batches whose groups are headed by random images, as GC's and D2's pools are drawn."""
    random = np.random.default_rng(4)
    return [np.repeat(random.choice(600, 10, replace=False), 4) for _ in range(15)]


def random_groups():
    return list(samplers.create("spc", LABELS, batch_size=40, per_class=4, seed=2))


@pytest.mark.parametrize(
    ("name", "criterion", "by_chance", "factor"),
    [
        ("gc", smallest_gap, random_heads, 1.6),
        ("d2", smallest_gap, random_heads, 1.3),
        ("ddm", wasserstein_to_all, random_groups, 1 / 1.2),
        ("frd", frechet_to_all, random_groups, 1 / 1.1),
    ],
)
def test_better_than_chance_by_its_own_criterion(name, criterion, by_chance, factor):
    chosen = np.mean([criterion(batch) for batch in sampler_of(name)])
    chance = np.mean([criterion(batch) for batch in by_chance()])
    assert chosen > factor * chance if factor > 1 else chosen < factor * chance, chosen / chance


def test_gc_takes_the_farthest_each_time():
    pool = np.random.default_rng([2, 0, 0]).choice(600, 512, replace=False)
    (batch, *_) = sampler_of("gc")
    chosen = batch[::4]
    for count in range(1, len(chosen)):
        gaps = distances(UNIT[np.concatenate([pool, chosen[:count]])])[:512, 512:].min(1)
        at = int(np.flatnonzero(pool == chosen[count])[0])
        assert gaps[at] >= gaps.max() - 1e-6


def test_frechet_distance_is_the_textbook_one():
    sampler = sampler_of("frd")
    batches = np.random.default_rng(0).permutation(600)[:120].reshape(3, 40)
    found = sampler.dissimilarity(UNIT, batches)
    assert found == pytest.approx([frechet(UNIT[batch], UNIT) for batch in batches], rel=1e-6)


def test_histogram_distance_is_scipys_on_bin_centres():
    sampler = sampler_of("ddm")
    batches = np.random.default_rng(0).permutation(600)[:120].reshape(3, 40)
    found = sampler.dissimilarity(UNIT, batches)
    whole = distances(UNIT)[np.triu_indices(600, 1)]
    edges = np.linspace(whole.min(), whole.max(), 51)
    centres = (edges[1:] + edges[:-1]) / 2
    target = np.histogram(whole, edges)[0]
    for value, batch in zip(found, batches, strict=True):
        own = np.histogram(distances(UNIT[batch])[np.triu_indices(40, 1)], edges)[0]
        expected = scipy.stats.wasserstein_distance(centres, centres, own, target)
        assert value == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["ddm", "frd"])
@pytest.mark.parametrize(
    ("classes", "images", "pool"),
    [(100, 58, 512), (75, 58, 512), (2000, 3, 512), (60, 7, 360)],
)
def test_the_pool_is_filled_with_more_images_of_each_class(name, classes, images, pool):
    """100 classes of about 58 images: half of CUB; 75: what a fold leaves of them."""
    labels = np.repeat(np.arange(classes), images)
    sampler = samplers.create(name, labels, batch_size=100, per_class=2, pool=512)
    pools = []
    compare = sampler.dissimilarity
    sampler.dissimilarity = lambda rows, batches: pools.append(rows) or compare(rows, batches)
    sampler.fill(torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(0)))
    batch = next(iter(sampler))
    assert len(pools[0]) == pool
    assert f"pool={pool}" in repr(sampler)
    assert len(set(labels[batch])) == 50
    assert len(np.unique(pools[0], axis=0)) == pool  # no image twice


@pytest.mark.parametrize("name", NAMES)
def test_batches_hold_whole_groups_without_repeats(name):
    for batch in sampler_of(name):
        assert len(batch) == len(set(batch)) == 40
        assert all(len(set(LABELS[batch[i : i + 4]])) == 1 for i in range(0, 40, 4))


@pytest.mark.parametrize("name", NAMES)
def test_seeded_and_resumable(name):
    whole = list(sampler_of(name))
    assert whole == list(sampler_of(name))
    first = sampler_of(name)
    stream = iter(first)
    seen = [next(stream) for _ in range(6)]
    second = sampler_of(name, fill=False)
    second.load_state_dict(first.state_dict())
    assert seen + list(second) == whole


def test_what_a_batch_shows_changes_the_store():
    sampler = sampler_of("gc")
    sampler.observe(torch.tensor([5, 7]), torch.tensor([[3.0] + [0.0] * 15] * 2))
    assert sampler.store[5].tolist() == sampler.store[7].tolist() == [1.0] + [0.0] * 15


@pytest.mark.parametrize("name", NAMES)
def test_equal_embeddings_and_tiny_classes(name):
    labels = np.repeat(np.arange(30), 2)
    sampler = samplers.create(name, labels, batch_size=16, per_class=4, pool=60)
    sampler.fill(torch.ones(60, 8))
    for batch in sampler:
        assert len(batch) == 16


@pytest.mark.parametrize(
    ("arguments", "sentence"), [({"pool": 39}, "smaller than the batch"), ({"seed": 2}, None)]
)
def test_what_cannot_be_is_refused(arguments, sentence):
    with pytest.raises(BadInput, match=sentence or "no embeddings yet"):
        next(iter(samplers.create("gc", LABELS, batch_size=40, **arguments)))


def test_what_a_batch_shows_is_written_on_its_device():
    """On ``meta``, where reading a number is an error: nothing waits for the device."""
    sampler = samplers.create("gc", np.resize(np.arange(4), 24), batch_size=8, per_class=2, pool=12)
    sampler.fill(torch.randn(24, 3, device="meta"))
    sampler.observe(torch.arange(8), torch.randn(8, 3, device="meta"))
    assert sampler.store.device.type == "meta"


def test_of_an_image_twice_in_a_batch_the_last_embedding_counts():
    sampler = samplers.create("gc", np.resize(np.arange(4), 24), batch_size=8, per_class=2, pool=12)
    sampler.fill(torch.randn(24, 2))
    sampler.observe(torch.tensor([3, 5, 3]), torch.tensor([[1.0, 0], [0, 1], [0, 2]]))
    assert sampler.store[3].tolist() == [0, 1]
