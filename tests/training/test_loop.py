"""The loop on real data: it learns, it stops and goes on, it is tested once."""

import json
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from lookalike.config import load
from lookalike.errors import BadInput, LookalikeError
from lookalike.runs.run import Run
from lookalike.training import Interrupted, Watcher, train
from lookalike.training.building import PreparedParts
from lookalike.training.loop import TrainingLoop

pytestmark = pytest.mark.trust(f"{__name__}:BrokenLoss", f"{__name__}:SteepLoss")


class BrokenLoss(nn.Module):
    """A loss that is no number from its fifth call on."""

    def __init__(self, embedding_size):
        super().__init__()
        self.calls = 0

    def forward(self, embeddings, labels, indices_tuple=None):
        self.calls += 1
        return embeddings.sum() * (float("nan") if self.calls > 4 else 0.0)


class SteepLoss(nn.Module):
    """A loss that is a number while its gradient is none."""

    def __init__(self, embedding_size):
        super().__init__()

    def forward(self, embeddings, labels, indices_tuple=None):
        return (0 * embeddings.sum()).sqrt()


def test_learns_and_writes_everything(tiny):
    untrained = train(tiny("train.epochs=0")).result
    run = train(tiny("optim.lr=2e-3", "train.batches_per_epoch=40"))
    assert run.result["test"]["recall@1"] > untrained["test"]["recall@1"] + 0.1
    assert run.result["steps"] == 120
    assert [line["epoch"] for line in run.epochs()] == [0, 1, 2, 3]
    names = {path.name for path in run.folder.iterdir()}
    assert {"config.yaml", "environment.json", "metrics.jsonl", "model.safetensors"} <= names
    assert {"result.json", "timing.json", "tensorboard", "test.safetensors"} <= names
    table = run.classes
    assert len(table.classes) == run.result["test_classes"]
    for metric in table.metrics:
        assert table.score(metric) == pytest.approx(run.result["test"][metric])
    assert "checkpoints" not in names
    environment = json.loads((run.folder / "environment.json").read_text())
    assert environment["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert environment["threads"] == torch.get_num_threads()


def test_runs_that_share_their_parts_are_tested_each(tiny):
    parts = PreparedParts()
    first, second = (train(tiny(f"optim.lr={lr}"), parts=parts) for lr in (1e-3, 1e-2))
    assert first.result["test"] != second.result["test"]
    assert first.result == train(tiny("optim.lr=1e-3", f"runs_dir={first.folder}")).result


def test_a_finished_run_is_not_trained_again(tiny):
    run = train(tiny())
    stamp = (run.folder / "model.safetensors").stat().st_mtime_ns
    again = train(tiny())
    assert again.folder == run.folder
    assert (run.folder / "model.safetensors").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    "overrides",
    [
        ("loss.name=proxy-anchor", "optim.schedule=one-cycle", "optim.warmup_epochs=1"),
        ("loss.name=triplet", "miner.name=semi-hard", "optim.name=sgd", "optim.schedule=step"),
        (
            "optim.schedule=cosine",
            "optim.warmup_steps=7",
            "optim.layer_decay=0.7",
            "optim.decay_vectors=false",
        ),
        pytest.param(
            (
                "protocol.name=paper",
                "sampler.per_class=8",
                "optim.clip_norm=1",
                "optim.name=rmsprop",
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("protocol.name=cross-validation", "protocol.fold=3", "train.patience=1"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("train.ema=0.9", "train.loggers=[tensorboard,csv]"), marks=pytest.mark.slow),
        pytest.param(("train.ema=0.9", "protocol.name=paper"), marks=pytest.mark.slow),
    ],
)
def test_stopped_and_started_again_it_ends_with_the_same_numbers(
    tiny, stops_at, tmp_path, overrides
):
    whole = train(tiny(*overrides, f"runs_dir={tmp_path / 'whole'}"))
    config = tiny(*overrides)
    for step in (5, 16):
        with pytest.raises(Interrupted, match="the same command resumes"):
            train(config, stops_at(step))
    run = train(config)
    assert run.result == whole.result
    assert run.epochs() == whole.epochs()
    assert (run.folder / "model.safetensors").read_bytes() == (
        whole.folder / "model.safetensors"
    ).read_bytes()


def test_the_chosen_epoch_is_the_best_on_validation(tiny):
    run = train(tiny("train.epochs=4"))
    scores = [epoch["validation map@r"] for epoch in run.epochs()]
    assert run.result["chosen_epoch"] == scores.index(max(scores))
    assert run.result["validation"]["map@r"] == max(scores)


class Scripted(TrainingLoop):
    """A learning whose validation scores are known beforehand, epoch by epoch."""

    script: ClassVar[dict[int, float]] = {}

    def score(self, subset, stage):
        return {"map@r": self.script[self.progress.step // self.per_epoch]}


@pytest.mark.parametrize(
    ("settings", "best", "last"),
    [
        # "A Metric TrainingLoop Reality Check": CUB, Cars196, SOP
        (("train.validate_every=2", "train.patience_epochs=9"), 4, 14),
        (("train.validate_every=5", "train.patience_epochs=14"), 5, 20),
        (("train.validate_every=20", "train.patience_epochs=39"), 20, 60),
        (("train.validate_every=2", "train.patience_epochs=9"), 0, 10),  # nothing learned
        (("train.patience_epochs=3",), 2, 6),
        (("train.validate_every=2", "train.patience=3"), 4, 10),  # validations
        (("train.validate_every=2",), 4, 80),
    ],
)
def test_patience_is_counted_in_epochs_or_in_validations(tiny, patterns, settings, best, last):
    config = tiny(
        *settings, "train.epochs=80", "train.batches_per_epoch=1", "data.name=folder",
        f"data.root={patterns}", "sampler.batch_size=4", "protocol.test=false",
    )  # fmt: skip
    parts = PreparedParts()
    bundle, split = parts.bundle(config), parts.split(config)
    learning = Scripted(config, parts.fabric(config), split, bundle, Watcher())
    learning.script = {epoch: 0.5 - abs(epoch - best) / 1000 for epoch in range(81)}
    learning.learn(lambda: None)
    assert (learning.progress.best_epoch, learning.progress.step) == (best, last)


def test_the_two_kinds_of_patience_exclude_each_other(tiny):
    with pytest.raises(BadInput, match=r"train\.patience=1 and .* exclude each other"):
        train(tiny("train.patience=1", "train.patience_epochs=1"))


def test_a_loss_that_is_no_number_stops_the_run_with_step_and_files(tiny):
    with pytest.raises(LookalikeError, match=r"loss is nan at step 5 \(epoch 1\).*U\+") as stopped:
        train(tiny(f"loss.name={__name__}:BrokenLoss"))
    assert stopped.value.exit_code == 1


@pytest.mark.parametrize("clip", ["clip_norm=1", "clip_value=1", "clip_norm=null"])
def test_a_gradient_that_is_no_number_stops_the_run_with_step_and_files(tiny, patterns, clip):
    folder = ("data.name=folder", f"data.root={patterns}", "protocol.name=paper")
    told = r"loss is nan at step 2 .*optim.lr.*its batch began with \d\d/"
    with pytest.raises(LookalikeError, match=told):
        train(tiny(*folder, f"loss.name={__name__}:SteepLoss", f"optim.{clip}"))


def test_warm_up_leaves_the_backbone_alone(tiny):
    config = tiny("train.epochs=1", "optim.warmup_epochs=1", "protocol.name=paper")
    torch.manual_seed(config.seed)
    from lookalike import models

    start = models.build("small-cnn", dim=16, channels=1).backbone.state_dict()
    run = train(config)
    end = load_file(str(run.weights))
    weights = [name for name in start if name.endswith("weight")]
    assert weights
    assert all(torch.equal(start[name], end[f"backbone.{name}"]) for name in weights)


def test_protocol_without_test_never_hands_out_the_test_set(tiny):
    run = train(tiny("protocol.test=false"))
    assert "test" not in run.result
    assert not (run.folder / "test.safetensors").exists()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["loss.name=tripplet"], "did you mean 'triplet'"),
        (["loss.marginn=1"], "takes no argument 'marginn'"),
        (["sampler.batch_size=30"], "not a multiple of per_class"),
        (["sampler.batch_size=8000", "sampler.per_class=1"], "needs 8000 classes"),
        (["data.name=cubb"], "did you mean 'cub'"),
        (["data.name=cub"], "data.root"),
        (["data.transform=smal"], "did you mean 'small'"),
        (["data.transform={preset: smal}"], "did you mean 'small'"),
        (["data.transform=network"], "'small-cnn' is published without transforms"),
        (
            ["data.transform={test: {flip: true}}", "model.frozen=true", "model.weights=imagenet"],
            "keeps one view of each test image",
        ),
        (["model.network=resnet5000"], "resnet"),
        (["train.metric=recall"], "recall"),
        (["protocol.fold=1"], "protocol.fold"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tiny, tmp_path, overrides, sentence):
    with pytest.raises(BadInput, match=sentence):
        train(tiny(*overrides))
    assert not list((tmp_path / "runs").glob("*/config.yaml"))


def test_two_processes_cannot_write_one_run(tiny):
    config = tiny()
    run = train(config)
    (run.folder / "result.json").unlink()
    with Run(run.folder).locked(), pytest.raises(LookalikeError, match="another process"):
        train(config)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(BadInput, match=r"no config\.yaml"):
        _ = Run(tmp_path).config
    assert load(None).seed == 0


def test_the_average_is_validated(tiny):
    common = ("protocol.test=false", "train.batches_per_epoch=8", "train.epochs=1")
    for average, moves in (("null", True), ("0.9999999", False)):
        before, after = train(tiny(*common, f"train.ema={average}")).epochs()
        difference = abs(after["validation map@r"] - before["validation map@r"])
        assert (difference > 0.01) == moves
