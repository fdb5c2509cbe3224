"""A run with a damaged file: one sentence that names it."""

import json

import pytest
import torch
from safetensors.torch import save_file

from lookalike.errors import LookalikeError
from lookalike.runs.run import Run

WHOLE = {
    "data_fingerprint": "a", "weights_fingerprint": "b", "protocol": "paper", "train_classes": 2,
    "test_classes": 2, "test_images": 8, "test": {"map@r": 0.5},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"data_fingerprint": 3}, {"data_fingerprint": None}, {"test": [1]},
        {"test": {"map@r": "<b>"}}, {"test_classes": "many"}, {"steps": [1]}, {"chosen_epoch": {}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_result_of_other_types_is_refused(tmp_path, change):
    (tmp_path / "result.json").write_text(json.dumps(WHOLE | change))
    with pytest.raises(LookalikeError, match=r"result\.json' is damaged"):
        _ = Run(tmp_path).result


def test_scores_come_with_their_numbers_of_classes(tmp_path):
    (tmp_path / "result.json").write_text(json.dumps(WHOLE))
    assert Run(tmp_path).result == WHOLE
    less = {key: value for key, value in WHOLE.items() if key != "test_classes"}
    (tmp_path / "result.json").write_text(json.dumps(less))
    with pytest.raises(LookalikeError, match="test_classes"):
        _ = Run(tmp_path).result


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", '{"a": ' * 50_000])
def test_json_that_is_none(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(LookalikeError, match=r"result\.json"):
        _ = Run(tmp_path).result


@pytest.mark.parametrize("line", ["{}", "[1]", '{"epoch": "x"}', '{"epoch": 1, "loss": []}', "{"])
def test_a_damaged_log(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"epoch": 1, "loss": 0.5}}\n{line}\n')
    with pytest.raises(LookalikeError, match=r"metrics\.jsonl' is damaged"):
        Run(tmp_path).epochs()


@pytest.mark.parametrize("text", ["{}", '{"training_seconds": []}', '{"training_seconds": 1e999}x'])
def test_a_damaged_time(tmp_path, text):
    (tmp_path / "timing.json").write_text(text)
    with pytest.raises(LookalikeError, match=r"timing\.json"):
        _ = Run(tmp_path).seconds


def test_a_huge_time(tmp_path):
    (tmp_path / "timing.json").write_text('{"training_seconds": 1' + "0" * 400 + "}")
    with pytest.raises(LookalikeError, match=r"timing\.json'"):
        _ = Run(tmp_path).seconds


@pytest.mark.parametrize("text", [b"class,queries,map@r", b"class,queries,\xff\na,1,\xff", b"\0"])
def test_a_damaged_table_of_classes(tmp_path, text):
    (tmp_path / "classes.csv").write_bytes(text)
    with pytest.raises(LookalikeError, match=r"classes\.csv"):
        _ = Run(tmp_path).classes


def test_damaged_test_embeddings(tmp_path):
    from lookalike.config import load
    from lookalike.runs.run import test_embeddings
    from lookalike.training import train

    config = load(None, [
        "data.name=glyphs", "model.dim=8", "train.epochs=1", "train.batches_per_epoch=1",
        "protocol.name=paper", "protocol.metrics=[recall@1]", f"runs_dir={tmp_path}",
    ])  # fmt: skip
    run = train(config)
    path = run.folder / "test.safetensors"
    rows = {"embeddings": torch.zeros(3, 8), "indices": torch.tensor([0, 1, 10**9])}
    for spoil in (
        lambda: path.write_bytes(path.read_bytes()[:50]),
        lambda: save_file(rows, path),
        lambda: save_file({"embeddings": torch.zeros(3, 8)}, path),
    ):
        spoil()
        with pytest.raises(LookalikeError, match=r"test\.safetensors' is damaged"):
            test_embeddings(run)
