"""The generated page and the JSON schema are up to date, and the schema knows what a recipe is."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from lookalike.cli import app
from lookalike.compare.audit import CONDITIONS
from lookalike.config import RunConfig, recipes
from lookalike.config.keys import declared_keys
from lookalike.config.loading import plain_yaml
from lookalike.config.reference import json_schema, key_entries, reference_page

ROOT = Path(__file__).parents[2]
RECIPES = [path for path in recipes.folder().glob("*.yaml") if "grids" not in plain_yaml(path)]


def test_the_page_and_the_schema_are_up_to_date():
    assert (ROOT / "docs" / "keys.md").read_text(encoding="utf-8") == reference_page(), "make keys"
    written = json.loads((ROOT / "recipes" / "schema.json").read_text(encoding="utf-8"))
    assert written == json_schema(), "make keys"


def test_every_key_is_described():
    entries = key_entries()
    assert [entry.name for entry in entries if not entry.meaning] == []
    assert {"optim.lr", "mix.alpha", "sampler.batch_size"} <= {entry.name for entry in entries}


def test_what_no_score_depends_on_is_not_compared():
    keys = declared_keys(RunConfig).values()
    assert [one.name for one in keys if one.key.hashed == "never" and one.compared] == []


def test_conditions_of_another_name_and_rules_speak_of_what_there_is():
    keys = declared_keys(RunConfig)
    assert {one.key.condition for one in keys.values()} - {""} <= set(CONDITIONS)
    rules = {rule.key for one in keys.values() for rule in one.key.active_when}
    assert rules <= set(keys)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_valid(path):
    jsonschema.validate(plain_yaml(path), json_schema())


@pytest.mark.parametrize(
    "values",
    [
        {"extends": "recipe:glyphs", "loss": {"alpha": 3}, "miner": None, "seed": 1},
        {"protocol": {"metrics": "recall@1"}, "train": {"loggers": ["csv"], "ema": 0.9}},
        {"mix": {"where": "embed", "negatives": "all"}, "sampler": {"per_class": 2}},
    ],
)
def test_what_a_recipe_may_hold_is_valid(values):
    jsonschema.validate(values, json_schema())


@pytest.mark.parametrize(
    "values",
    [
        {"optm": {}},
        {"optim": {"lrr": 1}},
        {"optim": {"lr": 0}},
        {"model": {"pooling": "mean"}},
        {"train": {"loggers": "paper"}},
        {"seed": "one"},
    ],
)
def test_what_a_recipe_may_not_hold_is_invalid(values):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, json_schema())


def test_the_commands_print_them():
    helped = CliRunner().invoke(app, ["train", "--help-keys"])
    assert helped.exit_code == 0
    lines = helped.stdout.splitlines()
    at = lines.index("optim.lr: number above 0; default 0.001")
    assert lines[at + 1] == "    learning rate"
    printed = CliRunner().invoke(app, ["train", "--schema"])
    assert json.loads(printed.stdout) == json_schema()
