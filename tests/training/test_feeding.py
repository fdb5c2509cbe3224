"""Batches are the same whoever makes them, and however far ahead."""

import pickle
import shutil
import threading
from itertools import islice

import numpy as np
import pytest
import torch

from lookalike import data
from lookalike.data import Normalisation, own_transform
from lookalike.data.image_random import ImageRandom
from lookalike.data.transforms import Photo
from lookalike.samplers import create
from lookalike.training import train
from lookalike.training.batches import Feeding, PixelSource, TrainingBatches, UnreadBatch, feed

CPU = torch.device("cpu")
CROPS = Photo("test", 40, 24, scale=(0.2, 1.0))
LABELS = np.repeat(np.arange(12), 8)


class Images:
    """What the batches need of a subset."""

    indices = np.arange(len(LABELS))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Stores of both kinds of the same pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    pixels = [
        random.integers(0, 256, (40, int(random.integers(40, 60)), 3), dtype=np.uint8)
        for _ in LABELS
    ]
    images = data.ImageSet(
        name="noise",
        files=tuple(f"{number}.png" for number in range(len(pixels))),
        labels=LABELS,
        class_names=tuple("abcdefghijkl"),
        test=LABELS >= 6,
        decode=pixels.__getitem__,
        fingerprint="noise",
        stamp="noise",
    )
    return {kind: data.open_store(images, 40, folder, kind=kind) for kind in ("raw", "jpeg")}


def stream(source, workers=0, ahead=1, sampler="spc"):
    given = {"per_class": 4} if sampler == "spc" else {}
    batch_sampler = create(sampler, labels=LABELS, batch_size=32, seed=0, **given)
    feeding = Feeding(workers, ahead)
    return TrainingBatches(Images(), source, batch_sampler, 3, CPU, feeding=feeding)


@pytest.mark.parametrize(
    ("workers", "kind", "layout"),
    [
        (0, "raw", torch.channels_last),
        (1, "jpeg", torch.channels_last),
        (3, "raw", torch.contiguous_format),
        (3, "jpeg", torch.channels_last),
    ],
)
def test_batches_are_those_of_the_transform_itself(pictures, workers, kind, layout):
    store, normalisation = pictures[kind], Normalisation()
    source = PixelSource(store, CROPS, normalisation, layout)
    for step, (positions, images) in enumerate(islice(stream(source, workers, 3), 4)):
        pixels = store.read_batch(positions)
        random = ImageRandom(3, step, range(len(pixels)))
        expected = normalisation(CROPS.augment(pixels, random), layout)
        found = source.inputs(images)
        assert torch.equal(found, expected)
        assert found.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("done", [1, 5])
def test_going_on_anywhere_with_another_depth(pictures, done):
    source = PixelSource(pictures["raw"], CROPS, Normalisation())
    begun, again = stream(source, 2, 4), stream(source, 0, 2)
    running = iter(begun)
    list(islice(running, done))
    assert len(begun.drawn) == 4
    again.load_state_dict(begun.state_dict())
    expected = list(islice(stream(source), done + 6))[done:]
    for (ours, images), (positions, others) in zip(again, expected, strict=False):
        assert ours == positions
        assert torch.equal(images, others)
    running.close()


def test_a_sampler_that_uses_embeddings_is_one_batch_ahead_only(pictures):
    batches = stream(PixelSource(pictures["raw"], CROPS, Normalisation()), 2, 4, "frd")
    batches.sampler.fill(torch.randn(len(LABELS), 4))
    running = iter(batches)
    list(islice(running, 2))
    assert len(batches.drawn) == 1
    running.close()


def test_transforms_of_ones_own_draw_the_same_in_several_threads(pictures):
    def noisy(image):
        return image[:, :24, :24].clone().random_(0, 256)

    source = PixelSource(pictures["raw"], own_transform(noisy, size=24, resize=40), Normalisation())
    alone, together = (list(islice(stream(source, workers), 3)) for workers in (0, 3))
    for (_, images), (_, others) in zip(alone, together, strict=True):
        assert torch.equal(images, others)


def test_parts_cover_a_batch_once():
    batch = UnreadBatch(37, lambda start, stop: torch.arange(start, stop))
    for number in (1, 2, 3, 100):
        parts = [part() for part in batch.parts(number)]
        assert torch.equal(torch.cat(parts), torch.arange(37))
        assert len(parts) <= number
        assert min(map(len, parts)) >= 8


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_reach_who_waits_and_no_thread_stays(workers):
    def read(number, start, stop):
        if number == 3:
            raise ValueError("broken")
        return torch.full((stop - start,), number)

    def unread(number):
        return UnreadBatch(20, lambda start, stop: read(number, start, stop))

    before = threading.active_count()
    fed = feed(range(10), unread, CPU, Feeding(workers, 2))
    assert [int(batch[0]) for _, batch in islice(fed, 3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(fed)
    stopped = feed(range(10), unread, CPU, Feeding(workers, 2))
    next(stopped)
    stopped.close()
    assert threading.active_count() == before


def test_threads_by_device():
    assert Feeding().threads(CPU) == 0
    assert Feeding().threads(torch.device("cuda")) >= 1
    assert Feeding(5).threads(CPU) == 5


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("normalisation", [
    Normalisation(), Normalisation(bgr=True), Normalisation((0.5,), (0.5,), channels=1)
])  # fmt: skip
def test_images_are_normalised_where_they_are(normalisation, layout):
    batch = torch.empty(2, 3, 8, 8, dtype=torch.uint8, device="meta")
    made = normalisation(batch, layout)
    assert made.device.type == "meta"
    assert made.is_contiguous(memory_format=layout)


def test_threads_change_no_run(tiny, patterns, tmp_path):
    given = ["data.name=folder", f"data.root={patterns}", "data.transform=none", "train.epochs=1"]
    alone = train(tiny(*given))
    other = [*given, f"runs_dir={tmp_path / 'other'}", "train.workers=2", "train.prefetch=3"]
    together = train(tiny(*other))
    assert alone.folder.name == together.folder.name
    assert alone.result["test"] == together.result["test"]
    assert alone.result["validation"] == together.result["validation"]


def test_a_listed_data_set_is_read_from_its_store(tiny, patterns, tmp_path):
    shutil.copytree(patterns, tmp_path / "pictures")
    given = ["data.name=folder", f"data.root={tmp_path / 'pictures'}", "train.epochs=0"]
    config = tiny(*given, "data.store=jpeg")
    images = data.load("folder", tmp_path / "pictures")
    first = train(config)
    shutil.rmtree(tmp_path / "pictures")
    shutil.rmtree(first.folder)
    assert train(config, images=pickle.loads(pickle.dumps(images))).result == first.result


def test_the_kind_of_store_is_part_of_a_run(tiny, patterns):
    given = ["data.name=folder", f"data.root={patterns}", "train.epochs=0"]
    names = {
        kind: train(tiny(*given, f"data.store={kind}")).folder.name
        for kind in ("raw", "auto", "jpeg")
    }
    assert names["auto"] == names["raw"] != names["jpeg"]
    coarse = train(tiny(*given, "data.store=jpeg", "data.jpeg_quality=30")).folder.name
    assert coarse != names["jpeg"]
