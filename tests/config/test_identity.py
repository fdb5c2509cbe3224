"""Runs keep their names: folders that earlier versions wrote are found again."""

import json
from pathlib import Path

import pytest

from lookalike.config import load, parse
from lookalike.runs.run import run_name

RECORDED = json.loads((Path(__file__).parent / "run_names.json").read_text(encoding="utf-8"))
"""Names that the code gave before keys were declared by metadata."""


def name(config):
    return run_name(config, "data", "weights")


@pytest.mark.parametrize(
    "run", RECORDED["runs"], ids=lambda run: " ".join([run["recipe"] or "", *run["overrides"]])
)
def test_configurations_keep_their_run_name(run):
    given = f"recipe:{run['recipe']}" if run["recipe"] else None
    assert name(load(given, run["overrides"])) == run["name"]


@pytest.mark.parametrize(
    "setting",
    [
        "protocol.metrics=[recall@1,mrr]",
        "train.eval_batch_size=7",
        "protocol.order=sequential",  # fixed validation draws its classes by the seed
        "protocol.folds=7",
        "optim.gamma=0.5",
        "optim.momentum=0.5",
        "model.head_shrink=3",
    ],
)
def test_what_only_reads_a_model_or_has_no_effect_is_not_in_the_name(setting):
    assert name(load(None, [setting])) == name(load(None))


@pytest.mark.parametrize(
    ("active", "setting"),
    [
        ("protocol.name=cross-validation", "protocol.order=sequential"),
        ("data.name=folder", "protocol.order=sequential"),
        ("protocol.name=cross-validation", "protocol.folds=7"),
        ("optim.schedule=step", "optim.gamma=0.5"),
        ("optim.name=sgd", "optim.momentum=0.5"),
        ("model.head_init=lda", "model.head_shrink=3"),
    ],
)
def test_what_has_an_effect_is_in_the_name(active, setting):
    assert name(load(None, [active, setting])) != name(load(None, [active]))


def test_the_name_of_a_run_can_be_the_name_of_a_folder_anywhere():
    config = load(None, ["data.name=my.package:photos", "loss.name=my.package:Loss"])
    assert name(config).startswith("photos-Loss-")


@pytest.mark.parametrize("folder", RECORDED["folders"], ids=lambda folder: folder["name"])
def test_a_configuration_written_into_a_run_folder_gives_its_name(folder):
    assert name(parse(folder["config"])) == folder["name"]
