"""The page on losses: its code runs, and it names everything there is."""

import re
from pathlib import Path

import pytest

import lookalike.regularizers as regularizers
from lookalike.registry import LOSSES
from website.loss_tables import formula_of, tables_of, with_tables

OURS = [e for e in LOSSES.entries() if e.build.__module__.startswith("lookalike.")]
PAGE = Path(__file__).parents[2] / "docs" / "losses.md"


@pytest.fixture
def page():
    return PAGE.read_text(encoding="utf-8")


def test_code_runs(page):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    value = names["CubedLoss"]()(names["embeddings"], names["labels"])
    value.backward()
    assert value > 0


def test_everything_is_named(page):
    assert all(f"`{name}`" in page for name in regularizers.names())


@pytest.mark.parametrize("name", ["losses", "training"])
def test_the_tables_are_those_of_the_parts(name):
    """``make loss-tables`` writes them."""
    page = (PAGE.parent / f"{name}.md").read_text(encoding="utf-8")
    assert with_tables(page, tables_of(name)) == page


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_every_loss_has_a_formula_a_class_and_its_arguments(page, entry):
    rows = [line for line in page.splitlines() if line.startswith(f"| {entry.name} |")]
    formula, paper = rows[0], rows[1]
    assert f"| `{entry.build.__name__}` | {entry.summary} | `{formula_of(entry)}` |" in formula
    assert formula.endswith("| yes |") == entry.build.additive
    assert formula_of(entry)
    assert entry.paper in paper
    assert f"({entry.url})" in paper or not entry.url
    own = vars(entry.build).get("__annotations__", {}).keys() & LOSSES.arguments(entry.name).keys()
    assert all(f"`{name}" in paper for name in own)
