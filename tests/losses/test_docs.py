"""The page on losses: its code runs, and it names everything there is."""

import re
from pathlib import Path

import pytest

import lookalike.losses as losses
import lookalike.miners as miners
import lookalike.reducers as reducers
import lookalike.regularizers as regularizers
import lookalike.report.catalogue as catalogue
from lookalike.registry import LOSSES

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
    rows = re.findall(r"^\| ([a-z0-9+-]+) \| `(\w+)` \|(.*)\|$", page, re.MULTILINE)
    listed = {name: (cls, rest) for name, cls, rest in rows if cls.endswith("Loss")}
    ours = [e for e in LOSSES.entries() if e.build.__module__.startswith("lookalike.")]
    for entry in ours:
        cls, rest = listed[entry.name]
        assert cls == entry.build.__name__
        assert rest.strip().endswith("yes") == entry.build.additive
    assert set(miners.names()) <= {name for name, cls, _ in rows if cls.endswith("Miner")}
    assert all(f"`{name}`" in page for name in regularizers.names())
    assert all(f"| {name} |" in page for name in reducers.names())


def test_tuned_settings_are_shown(page):
    for name in losses.names():
        for entry in losses.tuned(name):
            settings = {**entry.values, **entry.beside}
            cells = ", ".join(f"`{key}={value}`" for key, value in settings.items())
            assert f"| {name} | {entry.dataset} | {cells} | {entry.source} |" in page


def test_papers_and_defaults_are_shown(page):
    shared = {"distance", "reducer", "collect_stats", "overlap", "label_comparison"}
    shared |= {"embedding_regularizer", "embedding_reg_weight"}
    shared |= {"weight_regularizer", "weight_reg_weight", "weight_init_func"}
    rows = {line.replace("|  |", "| |") for line in page.splitlines()}
    for name in losses.names():
        about = catalogue.page("losses", name)
        cells = ", ".join(
            f"`{argument}`" if default == "required" else f"`{argument}={default}`"
            for argument, default in about.defaults.items()
            if argument not in shared
        )
        assert f"| {name} | {about.paper} | {cells} |".replace("|  |", "| |") in rows
        assert "``" in about.description  # a formula
