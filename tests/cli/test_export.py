"""``lookalike export``: models that other programs can run, and a card beside each."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.errors import LookalikeError
from lookalike.inference.export import model_of
from lookalike.inference.onnx_encoder import load_encoder
from lookalike.search import Embedder


@pytest.fixture
def original(trained):
    return Embedder.from_run(trained)


@pytest.fixture
def batch(original, photos):
    """Pictures as the network sees them."""
    files = sorted((photos / "green").iterdir())
    return original.batch([original.prepare(Image.open(file)) for file in files])


def agrees(found, original, batch):
    expected = original.run(batch).numpy()
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = np.asarray(found)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (expected * found).sum(1).min() >= 0.9999


def test_onnx_runs_in_onnxruntime(lookalike, trained, original, batch, tmp_path):
    import onnxruntime

    done = lookalike("export", trained, "--to", "onnx", "-o", tmp_path / "m.onnx", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["model"], told["format"]) == (str(tmp_path / "m.onnx"), "onnx")
    assert 0.9999 <= told["cosine"] <= 1.0001
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    agrees(session.run(None, {"images": batch.contiguous().numpy()})[0], original, batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.md"]


def test_torchscript_runs_in_torch(lookalike, trained, original, batch, tmp_path):
    done = lookalike("export", trained, "--to", "torchscript", "-o", tmp_path / "m.pt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'm.pt'}: torchscript, smallest cosine")
    agrees(torch.jit.load(str(tmp_path / "m.pt"))(batch), original, batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.pt", "m.pt.md"]


def test_safetensors_is_a_model_to_index_with(lookalike, trained, original, photos, tmp_path):
    done = lookalike("export", trained, "--to", "safetensors", "-o", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert load_encoder(tmp_path / "m").fingerprint == original.fingerprint
    names = sorted(path.name for path in (tmp_path / "m").iterdir())
    assert names == ["README.md", "model.json", "weights.safetensors"]
    done = lookalike("index", tmp_path / "m", photos, "-o", tmp_path / "i")
    assert done.returncode == 0, done.stderr


def test_the_card_has_the_scores_of_the_run(lookalike, trained, tmp_path):
    lookalike("export", trained, "-o", tmp_path / "m.onnx")
    card = (tmp_path / "m.onnx.md").read_text()
    result = json.loads((trained / "result.json").read_text())
    for name, score in result["test"].items():
        assert f"| {name} | {score:.4f} [" in card
    assert result["data_fingerprint"] in card
    assert "15 training images of 3 classes" in card


def test_without_a_name_it_is_named_after_the_run(lookalike, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = lookalike("export", trained, "--to", "torchscript")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{trained.name}-model.pt").is_file()


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_card_is_not_written_without_its_intervals(trained, tmp_path, damage):
    """The scores would be right, but nobody would see that something is missing."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    assert model_of(folder).origin["intervals"]
    path = folder / "test.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content) if damage == "flip" else path.unlink()
    with pytest.raises(LookalikeError, match=r"test\.safetensors"):
        model_of(folder)
