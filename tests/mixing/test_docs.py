"""The page on mixing: its code runs, and its defaults are the code's."""

import re
from pathlib import Path

import pytest

from lookalike.mixing import Mixing

PAGE = Path(__file__).parents[2] / "docs" / "mixing.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_code_runs(page):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert names["total"] > 0


def test_defaults_are_those_of_the_code(page):
    listed = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", page, re.MULTILINE))
    for name in ("alpha", "weight", "pairs", "per_pair"):
        assert listed[name].strip() == str(getattr(Mixing, name)).lower()
