"""The state before training: a candidate of validation, and tested beside the trained network."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from lookalike.runs.run import Run
from lookalike.training import Interrupted, train
from lookalike.training.score import chance, summary, warnings

HARMFUL = ("optim.lr=10000", "train.epochs=2")
"""A learning rate that no network survives."""


@pytest.fixture
def tiny(tiny, patterns):
    """A run of a second on a folder of 12 training classes, 3 of which validate."""

    def config(*overrides):
        return tiny(
            "data.name=folder",
            f"data.root={patterns}",
            "protocol.ratio=0.75",
            "protocol.test_untrained=true",
            *overrides,
        )

    return config


def test_where_every_epoch_is_worse_the_state_before_training_is_chosen(tiny):
    start = train(tiny("train.epochs=0"))
    run = train(tiny(*HARMFUL))
    assert run.result["epochs"] == 2
    assert run.result["chosen_epoch"] == 0
    scores = [line["validation map@r"] for line in run.epochs()]
    assert [line["epoch"] for line in run.epochs()] == [0, 1, 2]
    assert run.result["validation"]["map@r"] == scores[0] > max(scores[1:])
    assert run.result["validation"] == start.result["validation"]
    assert run.result["test"] == run.result["untrained"] == start.result["test"]
    before, kept = load_file(str(start.weights)), load_file(str(run.weights))
    assert all(torch.equal(before[name], weight) for name, weight in kept.items())
    assert "training did not help" in warnings(run.result)[0]


def test_without_validation_what_was_lost_is_shown(tiny):
    start = train(tiny("train.epochs=0", "protocol.name=paper"))
    raw = train(tiny("train.epochs=0", "protocol.name=paper", "model.dim=0"))
    run = train(tiny(*HARMFUL, "protocol.name=paper"))
    assert "chosen_epoch" not in run.result
    assert run.result["test"]["recall@1"] < run.result["untrained"]["recall@1"]
    # one query more or less, where two similarities are nearly the same
    one = 2 / run.result["test_images"]
    assert run.result["untrained"] == pytest.approx(start.result["test"], abs=one)
    assert run.result["raw_features"] == pytest.approx(raw.result["test"], abs=one)
    (lost, raw_is_better) = warnings(run.result)
    assert lost.startswith("training lost on the test classes: before it, recall@1 ")
    assert "raw features" in raw_is_better


def test_stopped_and_started_again_the_state_before_training_is_still_there(
    tiny, stops_at, tmp_path
):
    whole = train(tiny(*HARMFUL, f"runs_dir={tmp_path / 'whole'}"))
    config = tiny(*HARMFUL)
    for step in (2, 5):
        with pytest.raises(Interrupted):
            train(config, stops_at(step))
    run = train(config)
    assert run.result == whole.result
    assert run.result["chosen_epoch"] == 0
    assert run.epochs() == whole.epochs()
    assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_the_last_weights_do_not_change_what_was_before(tiny):
    """The untrained scores come from the weights before training, whatever epoch was chosen."""
    settings = ("optim.lr=2e-3", "train.epochs=1", "train.batches_per_epoch=40", "train.ema=0.5")
    run = train(tiny(*settings))
    assert run.result["chosen_epoch"] == 1
    start = train(tiny("train.epochs=0"))
    one = 2 / run.result["test_images"]
    assert run.result["untrained"] == pytest.approx(start.result["test"], abs=one)
    assert run.result["test"]["recall@1"] > run.result["untrained"]["recall@1"] + 0.05


def test_it_can_be_left_out_without_renaming_the_run(tiny, tmp_path):
    plain = tiny("train.epochs=1")
    without = tiny("train.epochs=1", "protocol.test_untrained=false")
    assert without.identity() == plain.identity()
    run = train(without)
    assert "test" in run.result
    assert not {"untrained", "raw_features"} & run.result.keys()
    assert not any("test classes" in sentence for sentence in warnings(run.result))


def test_no_epochs_are_validated_and_tested_once(tiny):
    result = train(tiny("train.epochs=0")).result
    assert (result["epochs"], result["chosen_epoch"]) == (0, 0)
    assert 0 < result["validation"]["map@r"] < 1
    assert not {"untrained", "raw_features"} & result.keys()
    assert warnings(result) == []


def test_the_command_says_so(tiny, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tiny(*HARMFUL).model_dump(mode="json")))
    command = [sys.executable, "-m", "lookalike", "train", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = tmp_path.glob("runs/*/result.json")
    (path,) = (one for one in found if one.parent.name != "latest")
    result = Run(path.parent).result
    said = done.stdout
    assert f"chosen epoch 0 of 2, by map@r {100 * result['validation']['map@r']:.1f} %" in said
    assert "raw features  before training  trained  gain" in said
    score = f"{100 * result['test']['recall@1']:.1f} %"
    (row,) = [line.split() for line in said.splitlines() if line.startswith("    recall@1")]
    assert " ".join(row[-5:]) == f"{score} {score} +0.0"
    assert "validation and test scores are not comparable: among 3 and 12 classes" in said
    assert "WARNING: training did not help" in said
    assert "epoch 0, before training: validation map@r" in done.stderr
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == result
    assert "WARNING: training did not help" in again.stderr


OLD = {
    "protocol": "fixed-validation: 22 training, 3 validation, 12 test classes",
    "epochs": 8,
    "chosen_epoch": 7,
    "validation": {"map@r": 0.45249},
    "test_images": 360,
    "test_classes": 12,
    "test": {"recall@1": 0.4306, "rho": 0.25},
}


def test_results_of_before_are_read():
    assert summary(OLD) == [
        "  chosen epoch 7 of 8, by map@r 45.2 % on validation classes",
        "  tested on 12 unseen classes, 360 images:",
        "               score",
        "    recall@1  43.1 %",
        "    rho       0.2500",
    ]


def test_the_table_of_a_result():
    new = OLD | {
        "validation_classes": 3,
        "validation_chance": 1 / 3,
        "test_chance": 0.08,
        "untrained": {"recall@1": 0.5703, "rho": 0.2},
        "raw_features": {"recall@1": 0.5889, "rho": 0.1},
    }
    assert summary(new)[2:] == [
        "              raw features  before training  trained     gain",
        "    recall@1        58.9 %           57.0 %   43.1 %    -14.0",
        "    rho             0.1000           0.2000   0.2500  +0.0500",
        "  validation and test scores are not comparable: among 3 and 12 classes a random order "
        "finds 33.3 % and 8.0 % (Recall@1)",
        "WARNING: training lost on the test classes: before it, recall@1 57.0 % against 43.1 %",
        "WARNING: the network's raw features, without head and training, are better: recall@1 "
        "58.9 % against 43.1 %; a smaller optim.lr or no training (train.epochs=0 model.dim=0) "
        "may help",
    ]
    paper = {key: value for key, value in new.items() if "validation" not in key}
    assert summary(paper)[0] == "  epoch 8, the last: nothing was validated"


def test_one_of_several_metrics_that_fell_is_no_loss():
    new = OLD | {"test": {"recall@1": 0.6, "recall@2": 0.7, "map@r": 0.5}}
    mixed = new | {"untrained": {"recall@1": 0.5, "recall@2": 0.71, "map@r": 0.4}}
    assert warnings(mixed) == []
    worse = new | {"untrained": {"recall@1": 0.61, "recall@2": 0.71, "map@r": 0.4}}
    assert warnings(worse) == [
        "training lost on the test classes: before it, recall@1 61.0 % against 60.0 %, "
        "recall@2 71.0 % against 70.0 %"
    ]


def test_what_the_warning_advises_can_be_typed(tiny):
    run = train(tiny("train.epochs=0", "model.dim=0", "model.head_init=auto"))
    assert run.result["epochs"] == 0


def test_chance_is_the_recall_of_a_random_order():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], [5, 3, 2, 1])  # the last has nothing to find
    hits = []
    for query, label in enumerate(labels[:10]):
        others = np.delete(labels, query)
        hits.append(np.mean(random.choice(others, 20_000) == label))
    assert chance(labels) == pytest.approx(np.mean(hits), abs=0.005)
    query, gallery = np.arange(11) < 4, np.arange(11) >= 4  # of class 0: 4 ask, 1 answers
    assert chance(labels, query, gallery) == pytest.approx(1 / 7)


def test_metrics_of_the_training_images_are_of_the_same_state(tiny):
    metrics = "protocol.metrics=[recall@1,utilization,train-pi-ratio]"
    start = train(tiny("train.epochs=0", metrics)).result
    raw = train(tiny("train.epochs=0", "model.dim=0", metrics)).result
    run = train(tiny("train.epochs=1", metrics))
    assert set(run.epochs()[0]) >= {"validation map@r", "validation recall@1"}
    assert not any("utilization" in name for line in run.epochs() for name in line)
    for name in ("utilization", "train-pi-ratio"):
        assert run.result["untrained"][name] == pytest.approx(start["test"][name], rel=1e-3)
        assert run.result["raw_features"][name] == pytest.approx(raw["test"][name], rel=1e-3)
        assert run.result["test"][name] > 0
    assert "utilization" in "\n".join(summary(run.result))
