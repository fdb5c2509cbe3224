"""``train.fsdp=true``: two real processes, each with a part of the network; the same numbers."""

import json

import pytest
import torch
from safetensors.torch import load_file

from lookalike.config import load
from lookalike.errors import BadInput
from lookalike.training import Interrupted, train
from lookalike.training.distributed.devices import check_devices

SETTINGS = [
    "data.name=folder",
    "data.transform={size: 32, resize: 32, crop: none}",
    "model.network=timm:test_vit",
    "model.dim=16",
    "loss.name=proxy-anchor",
    "sampler.batch_size=15",
    "sampler.per_class=3",
    "optim.name=adamw",
    "optim.lr=0.001",
    "optim.clip_norm=0.3",
    "optim.schedule=cosine",
    "train.batches_per_epoch=6",
    "train.epochs=2",
    "train.ema=0.5",
    "train.device=cpu",
    "train.checkpoint_seconds=0",  # each step is reported
    "train.eval_batch_size=4",
    "protocol.metrics=[recall@1]",
]
"""Clipping over network, head and proxies; averaged weights; validation; the test of the start."""

SCRIPT = """
import json, os, signal, sys
from lookalike.config import load
from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.training import Interrupted, train

class StopsAt(Watcher):
    def __init__(self, step):
        self.at = step

    def stage(self, name, done, total, detail=""):
        if name == "training" and done >= self.at:
            self.at = 10**9
            os.kill(os.getpid(), signal.SIGTERM)

settings = json.loads(sys.argv[1])
stop = settings.pop(0)
try:
    train(load(None, settings), StopsAt(stop))
except LookalikeError:  # Interrupted in the first process, and then LostRank in the other
    if stop > 100:
        raise
else:
    assert stop > 100
"""

PARTS = """
import sys
import torch
from lightning_fabric import seed_everything
from lookalike import models
from lookalike.config import load
from lookalike.training.distributed.devices import prepared_fabric
from lookalike.training.distributed.gather import gather_rows
from lookalike.training.distributed.ranks import own_part
from lookalike.training.distributed.sharding import whole_copy
from lookalike.training.forward import Passes

fabric = prepared_fabric(load(None, ["train.device=cpu", "train.fsdp=true"]).train)
seed_everything(0)
whole = models.build(sys.argv[1], dim=8)
model = models.build(sys.argv[1], dim=8)
model.load_state_dict(whole.state_dict())
passes = fabric.setup_module(Passes(model))
weights = list(model.backbone.parameters())
count = sum(weight.numel() for weight in weights)
held = sum(weight.to_local().numel() for weight in weights)
assert abs(held - count / 2) < 0.02 * count, (held, count)

images = torch.randn(5, 3, 32, 32)
expected = whole.eval()(images)
model.eval()
rows = gather_rows(passes(images[own_part(5).rows], "forward"), 5)
torch.testing.assert_close(rows, expected)
expected[:, 0].exp().sum().backward()
rows[:, 0].exp().sum().backward()
for own, other in zip(model.backbone.parameters(), whole.backbone.parameters(), strict=True):
    if other.grad is not None:
        gradient = own.grad.full_tensor()
        torch.testing.assert_close(gradient, other.grad, rtol=1e-4, atol=1e-5)
found = whole_copy(model.state_dict())
for name, value in whole.state_dict().items():
    torch.testing.assert_close(found[name], value, rtol=0, atol=0)
"""


@pytest.fixture
def in_two(tmp_path, in_two_processes):
    """Runs a script in two processes."""

    def run(text, argument):
        script = tmp_path / "script.py"
        script.write_text(text)
        in_two_processes(script, argument)

    return run


@pytest.fixture
def settings(patterns, tmp_path):
    """Those of a run, with more, in a folder of runs."""

    def given(runs, *more):
        return [*SETTINGS, f"data.root={patterns}", f"runs_dir={tmp_path / runs}", *more]

    return given


def result_in(runs):
    (path,) = (one for one in runs.glob("*/result.json") if one.parent.name != "latest")
    log = (path.parent / "metrics.jsonl").read_text().splitlines()
    weights = load_file(str(path.parent / "model.safetensors"))
    return json.loads(path.read_text()), [json.loads(line) for line in log], weights


def assert_same(found, expected, rtol=1e-3, atol=1e-4):
    (result, log, weights), (expected_result, expected_log, expected_weights) = found, expected
    assert result["run"] == expected_result["run"]
    assert result["parameters"] == expected_result["parameters"]
    for state in ("test", "untrained", "raw_features"):
        assert result[state] == pytest.approx(expected_result[state], abs=0.05)
    losses = [[line["loss"] for line in lines[1:]] for lines in (log, expected_log)]
    assert losses[0] == pytest.approx(losses[1], rel=rtol)
    assert weights.keys() == expected_weights.keys()
    for name, weight in expected_weights.items():
        torch.testing.assert_close(weights[name], weight, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "network", ["timm:test_vit", pytest.param("resnet18", marks=pytest.mark.slow)]
)
def test_each_process_holds_a_half_and_computes_what_the_whole_does(in_two, network):
    in_two(PARTS, network)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["sharded", "alone"])
def test_stopped_and_resumed_it_ends_with_the_numbers_of_one_process(
    in_two, settings, tmp_path, end
):
    train(load(None, settings("alone")))
    sharded = [*settings("two"), "train.fsdp=true"]
    in_two(SCRIPT, json.dumps([4, *sharded]))
    assert list(tmp_path.glob("two/*/checkpoints/[0-9]*/average.safetensors"))
    assert not list(tmp_path.glob("two/*/result.json"))
    if end == "sharded":
        in_two(SCRIPT, json.dumps([10**6, *sharded]))
    else:  # a checkpoint is whole, whoever wrote it
        train(load(None, settings("two")))
    assert_same(result_in(tmp_path / "two"), result_in(tmp_path / "alone"))


@pytest.mark.slow
def test_begun_by_one_process_it_ends_sharded(in_two, settings, stops_at, tmp_path):
    train(load(None, settings("alone")))
    with pytest.raises(Interrupted):
        train(load(None, settings("two")), stops_at(4))
    in_two(SCRIPT, json.dumps([10**6, *settings("two"), "train.fsdp=true"]))
    assert_same(result_in(tmp_path / "two"), result_in(tmp_path / "alone"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ["train.activation_checkpointing=true"],
        ["train.accumulate=2"],
        ["optim.warmup_epochs=1", "optim.name=sgd", "optim.lr=0.01"],
        ["optim.clip_norm=null", "optim.clip_value=0.01", "optim.layer_decay=0.7"],
        ["model.network=resnet18", "optim.name=sgd", "optim.lr=0.01"],
        ["model.network=small-cnn", "optim.name=sgd", "optim.lr=0.01"],
        ["mix.where=feature", "loss.name=multi-similarity", "model.head_init=lda", "model.dim=8"],
        ["model.freeze_until=blocks.0"],
    ],
    ids=lambda more: more[0],
)
def test_with_other_settings(in_two, settings, tmp_path, more):
    train(load(None, settings("alone", *more)))
    in_two(SCRIPT, json.dumps([10**6, *settings("two", *more), "train.fsdp=true"]))
    assert_same(result_in(tmp_path / "two"), result_in(tmp_path / "alone"))


@pytest.mark.slow
def test_in_half_precision(in_two, settings, tmp_path):
    more = ["train.precision=bf16-mixed", "optim.name=sgd", "optim.lr=0.01"]
    train(load(None, settings("alone", *more)))
    in_two(SCRIPT, json.dumps([10**6, *settings("two", *more), "train.fsdp=true"]))
    assert_same(result_in(tmp_path / "two"), result_in(tmp_path / "alone"), rtol=0.02, atol=0.01)


@pytest.mark.parametrize(
    "other",
    ["model.lora={}", "model.frozen_until=2", "train.compile=true", "train.precision=16-mixed"],
)
def test_what_it_cannot_be_combined_with_is_refused(other):
    with pytest.raises(BadInput, match=r"train\.fsdp=true cannot be combined with"):
        check_devices(load(None, ["train.device=cpu", "train.fsdp=true", other]))


def test_it_does_not_name_a_run():
    assert load(None, ["train.fsdp=true"]).identity() == load(None, []).identity()
