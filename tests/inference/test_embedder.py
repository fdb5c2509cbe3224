import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from lookalike import data, models
from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.files import write_json
from lookalike.search import Embedder
from lookalike.training import Run, train

VIEWS = "{size: 48, crop: random, mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2], test: {size: 64, \
flip: true, scales: [0.5, 1]}}"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A small run on twelve pictures of four classes."""
    return trained(tmp_path_factory.mktemp("trained"), "small")


def trained(home, transform):
    for number, picture in enumerate(pictures(12)):
        folder = home / "photos" / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(folder / f"{number}.png")
    settings = ["data.name=folder", f"data.root={home / 'photos'}", f"data.transform={transform}"]
    settings += ["model.dim=16", "train.epochs=1", "train.batches_per_epoch=2"]
    settings += ["sampler.name=random", "sampler.batch_size=4", "protocol.name=paper"]
    return train(load(None, [*settings, f"runs_dir={home / 'runs'}"])).folder


def pictures(number=3, size=(190, 170)):
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 255, (*size, 3), np.uint8)) for _ in range(number)]


def test_a_run_embeds_as_its_final_test_did(run_folder):
    assert_same_test(run_folder)


def test_a_run_embeds_all_views_of_its_test(tmp_path):
    """Validation, test and Embedder share size, views, mean and std of the composition."""
    folder = trained(tmp_path, VIEWS)
    assert_same_test(folder)
    embedder, picture = Embedder.from_run(folder), pictures(1)
    assert embedder.normalisation.mean == (0.5, 0.5, 0.5)
    batch = embedder.batch([embedder.prepare(picture[0])])
    assert batch.shape == (1, 3, 64, 64)
    with torch.inference_mode():
        one = embedder.model.embed(embedder.model.features(batch)).numpy()
    assert np.abs(one - embedder.embed(picture)).max() > 1e-4


def assert_same_test(run_folder):
    config = Run(run_folder).config
    images = data.load(config.data.name, config.data.root)
    tested = load_file(str(run_folder / "test.safetensors"))
    files = [Path(config.data.root) / images.files[index] for index in tested["indices"]]
    assert len(files) == 6
    found = Embedder.from_run(run_folder).embed([Image.open(file) for file in files])
    np.testing.assert_allclose(found, tested["embeddings"], atol=1e-5)


def test_a_run_on_grey_pictures_sees_grey(tmp_path):
    run = Run(tmp_path / "glyphs-0123456789ab")
    run.prepare(load(None, ["data.name=glyphs", "model.network=small-cnn", "model.dim=16"]), {})
    model = models.build("small-cnn", dim=16, channels=1).eval()
    save_file(model.state_dict(), str(run.weights))
    run.finish({}, 1.0)
    embedder = Embedder.from_run(run.folder)
    grey = Image.fromarray(np.random.default_rng(1).integers(0, 255, (32, 32), np.uint8))
    batch = embedder.batch([embedder.prepare(grey)])
    assert batch.shape[1] == 1
    with torch.inference_mode():
        expected = torch.nn.functional.normalize(model(batch)).numpy()
    np.testing.assert_allclose(embedder.embed([grey]), expected, atol=1e-5)


def test_vectors_have_unit_length_and_do_not_depend_on_the_batch(embedder):
    images = pictures(5)
    whole = embedder.embed(images)
    assert whole.dtype == np.float32
    assert whole.shape == (5, embedder.dim)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(images, batch_size=2), whole, atol=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dim)


def test_features_and_head_give_the_embedding(embedder):
    batch = embedder.batch([embedder.prepare(image) for image in pictures(2)])
    rows = embedder.model.embed(embedder.model.features(batch))
    rows = rows / rows.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(rows.numpy(), embedder.embed(pictures(2)), atol=1e-5)


def test_saved_and_loaded_it_is_the_same(tmp_path, run_folder):
    embedder = Embedder.from_run(run_folder)
    embedder.save(tmp_path / "model")
    again = Embedder.load(tmp_path / "model")
    assert again.fingerprint == embedder.fingerprint
    assert again.origin["result"] == Run(run_folder).result
    np.testing.assert_array_equal(again.embed(pictures()), embedder.embed(pictures()))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "model.json",
        "weights.safetensors",
    ]


def test_the_fingerprint_tells_weights_and_transforms_apart(embedder):
    torch.manual_seed(6)
    other = Embedder.from_network("small-cnn", weights="none")
    torch.manual_seed(5)
    same = Embedder.from_network("small-cnn", weights="none")
    torch.manual_seed(5)
    larger = Embedder.from_network("small-cnn", weights="none", transform="simple")
    assert same.fingerprint == embedder.fingerprint
    assert len({embedder.fingerprint, other.fingerprint, larger.fingerprint}) == 3


def test_a_changed_weight_is_noticed(tmp_path, embedder):
    embedder.save(tmp_path)
    path = tmp_path / "weights.safetensors"
    tensors = load_file(str(path))
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name] + 1}, str(path))
    with pytest.raises(BadInput, match="damaged"):
        Embedder.load(tmp_path)


def test_a_changed_score_is_noticed(tmp_path, embedder):
    """It changes no vector, but it would be on the model card."""
    embedder.save(tmp_path)
    path = tmp_path / "model.json"
    path.write_text(path.read_text().replace('"weights": "none"', '"weights": "nine"'))
    with pytest.raises(BadInput, match=r"damaged: model\.json"):
        Embedder.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "has version 2"),
        ({"format": "other"}, "does not hold a model"),
        ({"blueprint": {"network": "os:system", "dim": 0}}, "must not name"),
        ({"blueprint": {"dim": 0}}, "damaged"),
        ({"blueprint": {"network": "small-cnn", "dim": 2**64}}, "damaged"),
        ({"blueprint": {"network": "small-cnn", "dim": 0, "channels": 2**64}}, "damaged"),
        ({"origin": 3}, "damaged"),
    ],
)
def test_a_model_that_will_not_do_is_refused(tmp_path, embedder, change, sentence):
    embedder.save(tmp_path)
    write_json(tmp_path / "model.json", embedder.record() | change, sealed=True)
    with pytest.raises(BadInput, match=sentence):
        Embedder.load(tmp_path)


def test_what_is_no_model_is_refused(tmp_path, embedder):
    with pytest.raises(BadInput, match=r"cannot read model.json"):
        Embedder.load(tmp_path)
    embedder.save(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"\x80\x04K\x01.")  # a pickle
    with pytest.raises(BadInput, match="not a weights file"):
        Embedder.load(tmp_path)


def test_an_unfinished_run_is_refused(tmp_path, run_folder):
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(BadInput, match="not finished"):
        Embedder.from_run(tmp_path / "run")


def test_settings_that_are_no_text_are_refused(tmp_path, embedder):
    embedder.save(tmp_path)
    (tmp_path / "model.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadInput, match=r"damaged: model\.json"):
        Embedder.load(tmp_path)
