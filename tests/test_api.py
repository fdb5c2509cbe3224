"""What the commands do, from Python."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

import lookalike as la
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder

SETTINGS = {
    "data.name": "folder",
    "data.transform": "small",
    "model.network": "small-cnn",
    "model.weights": "none",
    "model.dim": 8,
    "train.epochs": 1,
    "train.batches_per_epoch": 2,
    "sampler.batch_size": 8,
    "sampler.per_class": 2,
    "protocol.metrics": ("recall@1", "map@r"),
}


@pytest.fixture(scope="module")
def trained(pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")

    def one(seed, loss):
        own = {"data.root": pictures, "runs_dir": folder, "seed": seed, "loss.name": loss}
        return la.train("recipe:glyphs", SETTINGS | own, progress=False)

    return one


@pytest.fixture(scope="module")
def runs(trained):
    return [trained(seed, loss) for seed in (0, 1) for loss in ("triplet", "contrastive")]


def test_a_run_has_its_scores_and_is_not_trained_again(runs, trained):
    assert trained(0, "triplet") == runs[0]
    assert set(runs[0].scores) == {"recall@1", "map@r"}
    assert f"{runs[0].scores['map@r']:.4f}" in runs[0]._repr_html_()


def test_settings_take_the_place_of_text(runs):
    config = runs[1].config
    assert config.loss.name == "contrastive"
    assert config.model.dim == 8
    assert config.protocol.metrics == ("recall@1", "map@r")


def test_runs_are_compared_and_reported(runs, tmp_path):
    found = la.compare(*runs)
    assert [row.name for row in found.tables[0].rows]
    assert "<table" in found._repr_html_()
    assert "triplet" in str(found)
    frame = found.to_pandas()
    assert {"method", "map@r"} <= set(frame.columns)
    page = la.report(*runs, output=tmp_path / "page.html")
    assert page.stat().st_size > 10_000


def test_a_run_embeds_whatever_holds_pictures(runs, tmp_path):
    embedder = la.load(runs[0])
    array = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    path = tmp_path / "a.png"
    Image.fromarray(array).save(path)
    tensor = torch.from_numpy(array).movedim(-1, 0)
    loader = DataLoader(TensorDataset(tensor.expand(3, -1, -1, -1), torch.arange(3)), batch_size=2)
    right = embedder.embed([Image.fromarray(array)])
    given = [path, str(path), [path], [array], tensor, tensor[None], tensor / 255, array[None]]
    for one in given:
        np.testing.assert_array_equal(embedder(one), right)
    np.testing.assert_allclose(embedder.embed(loader), right.repeat(3, 0), atol=1e-5)
    assert embedder.embed([]).shape == (0, 8)


@pytest.mark.parametrize("given", [3, torch.zeros(4, 4), [torch.zeros(7, 4, 4)], [object()]])
def test_what_is_no_picture_is_refused(runs, given):
    with pytest.raises(BadInput, match="picture"):
        la.load(runs[0]).embed(given)


def test_models_are_loaded_from_folders_indexes_and_by_name(runs, tmp_path):
    embedder = la.load(runs[0].folder)
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    index = la.Index.create(tmp_path / "x.index", embedder)
    index.add(tmp_path)
    assert la.load(tmp_path / "x.index").fingerprint == embedder.fingerprint
    assert isinstance(la.load("small-cnn", weights="none"), Embedder)
    with pytest.raises(BadInput, match="there is no run or model"):
        la.load("no-such-folder")
    with pytest.raises(BadInput, match="is no network"):
        la.load(runs[0].folder, weights="none")


def test_a_study_runs_from_python(pictures, tmp_path):
    settings = {
        "data": {"name": "folder", "root": str(pictures), "transform": "small"},
        "methods": ["triplet"],
        "base.sampler": {"name": "spc", "batch_size": 8, "per_class": 2},
        "protocol.ratio": 0.75,
        "tuner.trials": 1,
        "repeats": 1,
    }
    found = la.study("recipe:studies/tiny", settings, workers=1, results=tmp_path, progress=False)
    assert found.rows[0].repeats
    assert "triplet" in str(la.compare(found))


def test_a_method_is_chosen_from_python(coloured_noise, tmp_path):
    settings = {"data.transform": "none", "model.frozen_views": 0}
    found = la.choose(
        coloured_noise(6, 3, size=(40, 40)), settings, output=tmp_path, workers=1, progress=False
    )
    assert "Use the network's own features" in str(found)
    assert found.page.is_file()
    assert "model:" in found.recipe.read_text()
    with pytest.raises(BadInput, match="give a folder of images"):
        la.choose()


def test_slips_get_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="say what to train"):
        la.train()
    with pytest.raises(BadInput, match=r"did you mean 'optim.lr'"):
        la.train(settings={"optim.lrr": 1})
    with pytest.raises(BadInput, match="at least one run or study"):
        la.compare()
    with pytest.raises(BadInput, match="neither a run"):
        la.compare(tmp_path)


def test_very_many_pictures_are_embedded(pictures, embedder, tmp_path):
    found = la.embed(embedder, pictures, tmp_path / "v", per_shard=16, progress=False)
    assert found.new == len(la.Index.open(tmp_path / "v"))
    again = la.embed(embedder, pictures, tmp_path / "v", per_shard=16, progress=False)
    assert (again.new, again.unchanged) == (0, found.new)
    with pytest.raises(BadInput, match="no option 'per_shards'; did you mean 'per_shard'"):
        la.embed(embedder, pictures, tmp_path / "v", per_shards=16)
