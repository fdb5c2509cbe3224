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


@pytest.mark.parametrize("folder", RECORDED["folders"], ids=lambda folder: folder["name"])
def test_a_configuration_written_into_a_run_folder_gives_its_name(folder):
    assert name(parse(folder["config"])) == folder["name"]
