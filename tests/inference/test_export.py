import json
import re

import markdown
import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.config import TransformConfig
from lookalike.errors import BadInput
from lookalike.inference.export import export, write_card
from lookalike.inference.onnx_encoder import load_encoder
from lookalike.search import Embedder


@pytest.fixture(scope="module")
def network():
    return Embedder.from_network("efficientnet-lite0")


def pictures():
    random = np.random.default_rng(2)
    blocks = random.integers(0, 255, (5, 12, 12, 3), np.uint8)
    return [Image.fromarray(block).resize((210, 180)) for block in blocks]


def test_onnx_runs_in_onnxruntime_alone(tmp_path, network):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    assert export(network, "onnx", path) >= 0.9999
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    batch = network.batch([network.prepare(picture) for picture in pictures()])
    found = session.run(["embeddings"], {"images": batch.contiguous().numpy()})[0]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert (found * network.embed(pictures())).sum(1).min() >= 0.9999


@pytest.mark.parametrize("kind", ["onnx", "torchscript", "safetensors"])
def test_views_of_a_test_are_part_of_the_copy(tmp_path, kind):
    """What is averaged is inside the file, or in its settings, and never averaged twice."""
    views = {"size": 40, "flip": True, "scales": (0.75, 1.0)}
    transform = TransformConfig.model_validate({"size": 32, "crop": "random", "test": views})
    network = Embedder.from_network("small-cnn", weights="none", transform=transform)
    plain = Embedder(network.model, network.blueprint.model_copy(update={"transform": "small"}))
    path = tmp_path / ("m.onnx" if kind == "onnx" else "m")
    assert export(network, kind, path) >= 0.9999
    if kind == "torchscript":
        batch = network.batch([network.prepare(picture) for picture in pictures()])
        found = torch.jit.load(str(path))(batch).numpy()
        assert batch.shape[2:] == (40, 40)
    else:
        encoder = load_encoder(path)
        assert encoder.preset == network.preset
        assert encoder.fingerprint == network.fingerprint != plain.fingerprint
        found = encoder.embed(pictures())
    assert (found * network.embed(pictures())).sum(1).min() >= 0.9999


def test_where_tracing_fails_the_other_exporter_writes_and_nothing_is_printed(tmp_path, capfd):
    """The first one prints its whole graph, from C++, where a position embedding is resampled."""
    transform = TransformConfig.model_validate({"size": 64, "test": {"scales": (1.0, 0.5)}})
    network = Embedder.from_network("test_vit", weights="none", transform=transform)
    assert export(network, "onnx", tmp_path / "m.onnx") >= 0.9999
    assert capfd.readouterr().out == ""


def test_an_onnx_file_is_an_encoder_of_its_own(tmp_path, network, monkeypatch):
    path = tmp_path / "m.onnx"
    export(network, "onnx", path)
    encoder = load_encoder(path)
    assert (encoder.fingerprint, encoder.dim) == (network.fingerprint, network.dim)
    vectors = encoder.embed(pictures())
    assert (vectors * network.embed(pictures())).sum(1).min() >= 0.9999
    card, names = (tmp_path / "m.onnx.md").read_text(), {"pictures": pictures()}
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", card, re.DOTALL)[1], names)
    np.testing.assert_array_equal(names["vectors"], vectors)
    path.write_bytes(b"not onnx")
    with pytest.raises(BadInput, match="is not a model"):
        load_encoder(path)


def test_torchscript_runs_without_lookalike(tmp_path, embedder):
    assert export(embedder, "torchscript", tmp_path / "m.pt") >= 0.9999
    loaded = torch.jit.load(str(tmp_path / "m.pt"))
    batch = embedder.batch([embedder.prepare(picture) for picture in pictures()])
    assert (loaded(batch).numpy() * embedder.embed(pictures())).sum(1).min() >= 0.9999


def test_safetensors_is_a_model_folder_again(tmp_path, embedder):
    assert export(embedder, "safetensors", tmp_path / "m") >= 0.9999
    assert Embedder.load(tmp_path / "m").fingerprint == embedder.fingerprint
    assert json.loads((tmp_path / "m" / "model.json").read_text())["version"] == 1


def test_the_card_says_what_the_run_wrote_down(tmp_path, embedder):
    result = {
        "run": "folder-x-1", "seed": 3, "train_images": 1234, "train_classes": 56, "epochs": 8,
        "data_fingerprint": "abc", "protocol": "fixed-validation", "test_images": 99,
        "test_classes": 7, "test": {"recall@1": 0.5}, "validation": {"map@r": 0.25},
    }  # fmt: skip
    told = {"data": "folder", "result": result, "intervals": {"recall@1": (0.4, 0.6)}}
    known = Embedder(embedder.model, embedder.blueprint, told)
    export(known, "torchscript", tmp_path / "m.pt")
    card = (tmp_path / "m.pt.md").read_text()
    for fact in ("1,234", "56 classes", "fixed-validation", "0.5000 [0.4000, 0.6000]", "0.2500"):
        assert fact in card
    assert embedder.fingerprint in card


def test_what_looks_like_markup_in_a_card_is_text(tmp_path, embedder, browser):
    """A card is Markdown, which may have HTML, and a model may be anybody's."""
    hostile = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    result = dict.fromkeys(("run", "seed", "epochs", "data_fingerprint", "protocol"), hostile)
    result |= dict.fromkeys(("train_images", "train_classes", "test_images", "test_classes"), 9)
    result |= {"test": {hostile: 0.5}}
    known = Embedder(embedder.model, embedder.blueprint, {"data": hostile, "result": result})
    write_card(tmp_path / "card.md", known, "onnx", hostile, 1.0)
    card = (tmp_path / "card.md").read_text()
    page = tmp_path / "card.html"
    page.write_text(markdown.markdown(card, extensions=["tables", "fenced_code"]))
    tab = browser.new_page()
    tab.goto(page.as_uri())
    assert "onerror" in tab.inner_text("body")
    assert tab.locator("script, img").count() == 0
    assert tab.evaluate("window.hacked") is None
    tab.close()


def test_markdown_in_a_card_is_text(tmp_path, embedder, browser):
    """A picture that is fetched from elsewhere tells its server who reads the card."""
    picture = "![p](http://127.0.0.1:9/p)"
    hostile = f"a` {picture} [l](http://127.0.0.1:9/l)\n\n{picture}\n\n## h\n\n```\n{picture}|x\n"
    result = dict.fromkeys(("run", "seed", "epochs", "data_fingerprint", "protocol"), hostile)
    result |= dict.fromkeys(("train_images", "train_classes", "test_images", "test_classes"), 9)
    result |= {"test": {hostile: 0.5}, "validation": {hostile: 0.5}}
    known = Embedder(embedder.model, embedder.blueprint, {"data": hostile, "result": result})
    for kind in ("onnx", "torchscript", "safetensors"):
        write_card(tmp_path / "card.md", known, kind, hostile, 1.0)
        text = (tmp_path / "card.md").read_text()
        page = tmp_path / "card.html"
        page.write_text(markdown.markdown(text, extensions=["tables", "fenced_code"]))
        tab = browser.new_page()
        tab.goto(page.as_uri())
        assert tab.locator("img, a, td h2").count() == 0
        headings = ["Model", "Use", "Training", "Scores"]
        assert tab.locator("h2").all_inner_texts() == headings
        tab.close()


@pytest.mark.parametrize("told", [{"result": {}}, {"result": {"run": "x", "train_images": "y"}}])
def test_a_record_that_is_none_gets_a_sentence(tmp_path, embedder, told):
    known = Embedder(embedder.model, embedder.blueprint, told)
    with pytest.raises(BadInput, match="record of its training cannot be read"):
        export(known, "safetensors", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_bad_wishes_are_refused(tmp_path, embedder):
    with pytest.raises(BadInput, match="did you mean 'onnx'"):
        export(embedder, "onx", tmp_path / "m")
    (tmp_path / "there").touch()
    with pytest.raises(BadInput, match="already"):
        export(embedder, "onnx", tmp_path / "there")
