"""A key declared in one place is seen wherever keys matter: there is no second list.

That is the hash, the audit, the warnings, the refusals, the names of cached features, the baselines
and axes of a study, the help and the pages. One declaration is the example of docs/extending.md,
the other one uses what is left of ``key``. They are put into a copy of the schema, and nothing else
of the package is changed.
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

TOY = '''
    toy: int = key(
        0,
        hashed="when set",
        features=FROZEN,
        baselines="values",
        of_study=True,
        excludes=(Rule(when("optim.name", "rmsprop"), (7,), "it is only a toy"),),
        needs=(Rule(unless("optim.schedule", "step")),),
    )
    """a toy"""
'''

LOOK = """
import json
from lookalike.config import load, without_effect
from lookalike.config.keys import feature_values, refuse_conflicts
from lookalike.config.reference import help_text, json_schema, reference_page
from lookalike.compare.audit import Experiment, audit
from lookalike.compare.conditions import conditions_of
from lookalike.errors import BadInput
from lookalike.runs.run import run_name
from lookalike.study.methods import NOT_AXES, shared_config

def rows(*settings):
    return [Experiment(s, conditions_of(load(None, ["optim.name=sgd", s]))) for s in settings]

def refusal(*settings):
    try:
        refuse_conflicts(load(None, settings))
    except BadInput as error:
        return str(error)

KEY = "optim.lookahead"
TOY = "model.toy=7"
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
    "refusals": [
        refusal(TOY),
        refusal("optim.name=rmsprop", "optim.schedule=step"),
        refusal(TOY, "optim.name=rmsprop"),
        refusal("model.toy=6", "optim.name=rmsprop"),
        refusal(TOY, "optim.schedule=step"),
    ],
    "features": [
        feature_values(load(None, [TOY, f"model.frozen={on}"])) for on in ("true", "false")
    ],
    "baselines": shared_config(load(None, [TOY])).model.toy,
    "axes": NOT_AXES,
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
    text = schema.read_text(encoding="utf-8")
    for following, added in (("TrainConfig", field), ("PartConfig", TOY)):
        before, after = text.split(f"\n\n\nclass {following}")
        text = f"{before}\n{added}\n\nclass {following}{after}"
    schema.write_text(text, encoding="utf-8")
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
    assert row.endswith("| when set | `optim.lookahead` |")


def test_settings_that_do_not_go_together_are_refused(seen):
    assert seen["refusals"] == [
        None,
        None,
        "model.toy=7 and optim.name=rmsprop exclude each other: it is only a toy",
        None,
        "model.toy=7 needs optim.schedule other than step",
    ]
    assert "a toy; needs optim.schedule other than step; 7: not with optim.name=r" in seen["help"]


def test_the_names_of_cached_features_have_it(seen):
    frozen, whole = seen["features"]
    assert frozen["model.toy"] == 7
    assert whole == {}


def test_a_study_has_it_in_its_baselines_and_refuses_it_as_an_axis(seen):
    assert seen["baselines"] == 7
    assert "model.toy" in seen["axes"]
