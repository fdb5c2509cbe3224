"""Maps computed once: the blocks behind them learn as if the front stood still in the network."""

from itertools import chain, islice

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.double import DoublePrecision
from PIL import Image
from safetensors.torch import load_file, save_file

from lookalike import data, losses, models
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder
from lookalike.runs.run import model_tensors
from lookalike.study.records import TaskKey
from lookalike.study.tasks import Task, TaskRunner
from lookalike.training import Interrupted, Watcher, building, train
from lookalike.training.batches import PixelSource
from lookalike.training.building import PreparedParts, build_sampler
from lookalike.training.features import disk_space

SGD = ["optim.name=sgd", "optim.lr=0.1", "optim.weight_decay=0", "protocol.name=paper"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A network whose weights are in a file."""
    torch.manual_seed(1)
    network = models.build("small-cnn", channels=3).backbone.network
    for name, value in network.state_dict().items():  # statistics of some data
        if name.endswith("running_var"):
            value.fill_(0.2)
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    save_file(network.state_dict(), str(path))
    return path


@pytest.fixture(scope="module")
def drawings(tmp_path_factory):
    """Sixteen classes of bright squares in noise, four pictures of 32 pixels each."""
    folder = tmp_path_factory.mktemp("drawings")
    random = np.random.default_rng(0)
    for number in range(16):
        (folder / str(number)).mkdir()
        for picture in range(4):
            pixels = random.integers(0, 100, (32, 32, 3), dtype=np.uint8)
            pixels[number : number + 8, picture : 31 - number] += 100
            Image.fromarray(pixels).save(folder / str(number) / f"{picture}.png")
    return folder


@pytest.fixture
def cut(tiny, drawings, weights):
    def config(*overrides):
        return tiny(
            "data.name=folder",
            f"data.root={drawings}",
            f"model.weights={weights}",
            "model.frozen_until=2",
            "model.frozen_views=1",
            "sampler.batch_size=16",
            "protocol.ratio=0.5",
            *overrides,
        )

    return config


class Double(DoublePrecision):
    """Float64 throughout: Fabric's own gives embeddings back in float32."""

    def convert_output(self, data):
        return data


class NaiveMemory:
    """The contrastive loss of a batch against the last 24 embeddings, from the second batch on."""

    def __init__(self):
        self.stored = []

    def __call__(self, embeddings, labels):
        batch = list(zip(embeddings, labels.tolist(), strict=True))
        first = not self.stored
        self.stored = (self.stored + [(e.detach(), label) for e, label in batch])[-24:]
        others = batch if first else self.stored
        own = len(others) - len(batch)
        pull, push = [], []
        for row, (embedding, label) in enumerate(batch):
            for column, (other, known) in enumerate(others):
                if column - own != row:
                    distance = (embedding - other).norm()
                    pull += [distance] if label == known else []
                    push += [1 - distance] if label != known else []
        parts = [torch.stack(part).relu() for part in (pull, push)]
        return sum(part.sum() / (part > 0).sum().clamp(min=1) for part in parts)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ([], lambda: losses.create("multi-similarity")),
        (["loss.name=contrastive", "memory.size=24", "memory.start=1"], NaiveMemory),
    ],
    ids=["batches", "memory"],
)
def test_it_learns_what_the_network_with_a_standing_front_learns(
    cut, monkeypatch, tmp_path, settings, loss
):
    """The oracle: a plain loop, with the front in evaluation and without gradient.

    The maps lie in half precision. Which of two neighbours a number is rounded to may depend on the
    order of a float32 sum, so the maps are compared to that precision, and the oracle goes on
    from those of the run. Both learn in float64, where no ReLU or maximum falls otherwise.
    """
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    double = Fabric(accelerator="cpu", devices=1, plugins=[Double()])
    monkeypatch.setattr(building, "prepared_fabric", lambda *_, **__: double)
    short = ("model.frozen_views=0", "train.epochs=1", "train.batches_per_epoch=3")
    config = cut(*SGD, *short, *settings)
    found = load_file(str(train(config).weights))
    (kept,) = (tmp_path / "cache").glob("*.features.npy")
    (maps,) = torch.from_numpy(np.load(kept))

    model = models.build("small-cnn", weights=config.model.weights, dim=16)
    model.head.load_state_dict(start_of_head(config))
    model.double()
    begun = {name: value.clone() for name, value in model.state_dict().items()}
    front, rest = model.backbone.network[:3], model.backbone.network[3:]
    front.requires_grad_(False)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.1, momentum=config.optim.momentum)
    images = data.load("folder", config.data.root)
    train_set = PreparedParts(loaded=images).split(config).train
    preset = data.preset("glyphs")
    pixels = PixelSource(data.open_store(images, preset.resize), preset, model.normalisation)
    compute = loss()
    sampler = build_sampler(config, train_set)
    for positions in islice(chain(sampler, sampler), 3):  # two batches an epoch
        indices = train_set.indices[positions]
        model.train()
        front.eval()
        exact = front(pixels.inputs(pixels.testing(indices)).double())
        rounded = maps[indices].double()
        torch.testing.assert_close(rounded, exact, rtol=torch.finfo(torch.half).eps, atol=1e-5)
        optimizer.zero_grad()
        labels = torch.from_numpy(train_set.labels[positions])
        compute(model.embed(rest(rounded)), labels).backward()
        optimizer.step()
    expected = model.state_dict()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, atol=1e-10, rtol=1e-8)
    moved = {n for n, value in expected.items() if (value - begun[n]).abs().max() > 1e-3}
    assert {"backbone.network.4.0.weight", "head.linear.weight"} <= moved
    assert not {
        name for name in moved if name.startswith(("backbone.network.0", "backbone.network.2"))
    }


def start_of_head(config):
    """The head that the run's seed gives."""
    from lightning_fabric import seed_everything

    seed_everything(config.seed, verbose=False)
    model = models.build("small-cnn", weights=config.model.weights, dim=16)
    return model.head.state_dict()


@pytest.mark.parametrize("overrides", [[], ["mix.where=input"]], ids=["maps", "pixels"])
def test_the_front_stands_still_and_the_rest_learns(cut, overrides):
    config = cut(*overrides)
    end = model_tensors(train(config))
    start = models.build("small-cnn", weights=config.model.weights, dim=16).state_dict()
    same = {name for name, value in start.items() if torch.equal(value, end[name])}
    assert {
        name for name in start if name.startswith(("backbone.network.0", "backbone.network.2"))
    } == {name for name in same if name.startswith("backbone.network.")}


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["mix.where=feature", "mix.weight=0.5"],
        ["train.ema=0.9", "sampler.name=frd"],
        ["loss.name=contrastive", "memory.size=40", "memory.start=2"],
    ],
)
def test_stopped_and_started_again_it_ends_with_the_same_numbers(
    cut, stops_at, tmp_path, overrides
):
    whole = train(cut(*overrides, f"runs_dir={tmp_path / 'whole'}"))
    config = cut(*overrides)
    with pytest.raises(Interrupted, match="the same command resumes"):
        train(config, stops_at(11))
    run = train(config)
    assert run.result == whole.result
    assert run.weights.read_bytes() == whole.weights.read_bytes()


@pytest.mark.parametrize("where", ["input", "feature", "embed"])
def test_mixing(cut, where):
    plain, mixed = train(cut()), train(cut(f"mix.where={where}"))
    assert mixed.result["test"]["recall@1"] > 0
    assert not torch.equal(
        load_file(str(plain.weights))["head.linear.weight"],
        load_file(str(mixed.weights))["head.linear.weight"],
    )


def test_the_finished_run_embeds_images_as_it_was_tested(cut):
    config = cut()
    run = train(config)
    kept = load_file(str(run.folder / "test.safetensors"))
    images = data.load("folder", config.data.root)
    some = kept["indices"].numpy()
    store = data.open_store(images, None)
    embedder = Embedder.from_run(run.folder)
    pixels = PixelSource(store, data.preset("glyphs"), embedder.model.normalisation)
    with torch.no_grad():
        ours = embedder.model.eval()(pixels.inputs(pixels.testing(some)))
    torch.testing.assert_close(ours, kept["embeddings"], atol=5e-3, rtol=0)


def test_mixed_pixels_need_no_stored_maps(cut, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    train(cut("mix.where=input", "train.epochs=1"))
    assert not list((tmp_path / "cache").glob("*.features.npy"))


def test_in_a_study(cut):
    config = cut("protocol.name=fixed-validation", "protocol.test=false", "train.metric=recall@1")
    for checkpoints in (False, True):
        task = Task(0, TaskKey(0, 0), config.model_dump(mode="json"), checkpoints=checkpoints)
        assert TaskRunner().run(task).scores[0]["validation recall@1"] > 0


def test_it_says_how_large_the_maps_are_and_computes_them_once(cut, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))

    class Notes(Watcher):
        def __init__(self):
            self.notes, self.stages = [], []

        def note(self, text):
            self.notes.append(text)

        def stage(self, name, done, total, detail=""):
            self.stages.append(name)

    first, second = Notes(), Notes()
    train(cut("train.epochs=0"), first)
    train(cut("train.epochs=0", "seed=1"), second)
    (said,) = (note for note in first.notes if "views" in note)
    assert said.startswith("2 views of 64 images, 32 x 16 x 16 each, take 2.1 MB in ")
    assert "computing features" in first.stages
    assert "computing features" not in second.stages


def test_a_disk_that_is_too_small(tmp_path):
    with pytest.raises(BadInput, match="are free; take fewer"):
        disk_space((5, 10**9, 112, 8, 8), tmp_path)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.frozen_until=44"], "did you mean '4'"),
        (["model.frozen=true"], "leave out model.frozen_until"),
        (["model.weights=none"], "needs model.weights other than none: trained weights"),
        (["train.compile=true"], "train.compile=true and .* it needs a whole network"),
    ],
)
def test_what_cannot_be_cut_is_refused(cut, overrides, sentence):
    with pytest.raises(BadInput, match=sentence):
        train(cut(*overrides))
