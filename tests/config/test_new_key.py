"""A key declared in one place is seen by the hash, the audit, the warnings, the help and the pages.

The declaration is the example of docs/extending.md. It is put into a copy of the schema, and
nothing else of the package is changed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lookalike

ROOT = Path(__file__).parents[2]

LOOK = """
import json
from lookalike.config import load, without_effect
from lookalike.config.reference import help_text, json_schema, reference_page
from lookalike.compare.audit import Experiment, audit
from lookalike.compare.conditions import conditions_of
from lookalike.runs.run import run_name

def rows(*settings):
    return [Experiment(s, conditions_of(load(None, ["optim.name=sgd", s]))) for s in settings]

KEY = "optim.lookahead"
print(json.dumps({
    "names": [
        run_name(load(None, given), "data", "weights")
        for given in (
            [], [f"{KEY}=0"], [f"{KEY}=5"], ["optim.name=sgd"], ["optim.name=sgd", f"{KEY}=5"]
        )
    ],
    "flaws": [
        [flaw.kind, flaw.condition] for flaw in audit(rows(f"{KEY}=5", f"{KEY}=6")).flaws
    ],
    "equal": [flaw.condition for flaw in audit(rows(f"{KEY}=5", f"{KEY}=5")).flaws],
    "inactive": KEY in conditions_of(load(None, [f"{KEY}=5"])),
    "warnings": without_effect(load(None, [f"{KEY}=5"])),
    "silent": without_effect(load(None, [f"{KEY}=5", "optim.name=sgd"])),
    "help": help_text(),
    "schema": json_schema(),
    "page": reference_page(),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a package says whose schema has the new field."""
    guide = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = guide.partition("## Add a config key")[2].partition("\n## ")[0]
    (field,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    package = tmp_path_factory.mktemp("copy") / "lookalike"
    package.mkdir()
    original = Path(lookalike.__file__).parent
    for path in original.iterdir():
        if path.name not in ("config", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copytree(original / "config", package / "config")
    schema = package / "config" / "schema.py"
    before, after = schema.read_text(encoding="utf-8").split("\n\n\nclass TrainConfig")
    schema.write_text(f"{before}\n{field}\n\nclass TrainConfig{after}", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", LOOK],
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_hash_has_it_where_it_is_set(seen):
    recorded = json.loads((Path(__file__).parent / "run_names.json").read_text(encoding="utf-8"))
    bare = next(run["name"] for run in recorded["runs"] if not (run["recipe"] or run["overrides"]))
    unset, at_default, inactive, plain, changed = seen["names"]
    assert unset == at_default == inactive == bare
    assert changed != plain


def test_the_audit_compares_it_where_it_has_an_effect(seen):
    assert ["differs", "optim.lookahead"] in seen["flaws"]
    assert "optim.lookahead" not in seen["equal"]
    assert not seen["inactive"]


def test_a_warning_says_where_it_has_no_effect(seen):
    assert seen["warnings"] == [
        "optim.lookahead has no effect with optim.name=adamw: it needs optim.name=sgd"
    ]
    assert seen["silent"] == []


def test_help_schema_and_reference_page_have_it(seen):
    assert "optim.lookahead: integer at least 0; default 0\n    steps between two" in seen["help"]
    property_ = seen["schema"]["$defs"]["OptimConfig"]["properties"]["lookahead"]
    assert (property_["type"], property_["minimum"], property_["default"]) == ("integer", 0, 0)
    assert property_["description"].endswith("only with optim.name=sgd")
    (row,) = [line for line in seen["page"].splitlines() if "optim.lookahead" in line]
    assert row.endswith("| when set | `optim.lookahead` | 0.2 |")
