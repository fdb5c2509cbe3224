"""Models of runs with a transform of one's own: what is stored of them names no code."""

import json
import sys

import pytest
import torch

from lookalike import training
from lookalike.config import load_trusted
from lookalike.errors import BadInput
from lookalike.inference.embedder import Embedder

VIEWS = """
from lookalike.data import own_transform
mirrored = own_transform(lambda image: image[:, :32, :32].flip(2), size=32, resize=32)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "my_own_views.py").write_text(VIEWS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    settings = [
        "data.transform=my_own_views:mirrored", "model.dim=8", "train.epochs=1",
        "train.batches_per_epoch=1", "train.device=cpu", f"runs_dir={tmp_path / 'runs'}",
    ]  # fmt: skip
    yield training.train(load_trusted(None, settings))
    sys.modules.pop("my_own_views", None)


def test_a_stored_model_has_the_test_view_and_no_code(run, tmp_path):
    embedder = Embedder.from_run(run.folder)
    embedder.save(tmp_path / "model")
    assert "my_own_views" not in (tmp_path / "model" / "model.json").read_text(encoding="utf-8")
    again = Embedder.load(tmp_path / "model")
    image = torch.randint(256, (1, 40, 40), dtype=torch.uint8)
    assert torch.equal(again.preset.centre([image]), embedder.preset.centre([image]))
    assert again.preset.centre([image]).shape == (1, 1, 32, 32)


def test_a_model_that_names_a_transform_to_import_is_refused(run, tmp_path):
    Embedder.from_run(run.folder).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    del record["checksum"]
    record["blueprint"]["transform"] = "os:system"
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(BadInput, match="'os:system' is code that a model's folder must not name"):
        Embedder.load(tmp_path / "model")
