"""The page for those who come from PML: its code runs, and its table has every name."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-pml.md").read_text(encoding="utf-8")
PACKAGE = "pytorch_metric_learning"


def modules():
    """The modules that users import from: the packages, and each module of ``utils``."""
    root = importlib.import_module(PACKAGE)
    packages = [info.name for info in pkgutil.iter_modules(root.__path__) if info.ispkg]
    utils = importlib.import_module(f"{PACKAGE}.utils")
    return packages + [f"utils.{info.name}" for info in pkgutil.iter_modules(utils.__path__)]


def rows():
    """Module, names and what the page says of them."""
    for module, names, here in re.findall(r"^\| `([a-z_.]+)`: (.*?) \| (.*) \|$", PAGE, re.M):
        yield module, re.findall(r"`(\w+)`", names), here


def public_names(module):
    """The classes and functions that a module of PML has for its users."""
    theirs = importlib.import_module(f"{PACKAGE}.{module}")
    own = theirs.__name__ if "." in module else f"{PACKAGE}.{module}."
    return {
        name
        for name, thing in vars(theirs).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__.startswith(own)
    }


def test_the_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 15
    names = {}
    for block in blocks:
        exec(compile(block, "coming-from-pml.md", "exec"), names)


def test_the_version_of_the_table():
    assert importlib.import_module(PACKAGE).__version__.startswith("2.9")
    assert len(modules()) > 15


@pytest.mark.parametrize("module", modules())
def test_every_name_is_in_the_table(module):
    listed = {name for row, names, _ in rows() if row == module for name in names}
    assert public_names(module) <= listed


SAME = [(module, names) for module, names, here in rows() if here.startswith("same")]


def arguments(cls):
    """The named arguments of a class's own constructor."""
    variable = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return {p.name for p in inspect.signature(cls).parameters.values() if p.kind not in variable}


@pytest.mark.parametrize(("module", "names"), SAME)
def test_what_is_the_same_is_here(module, names):
    ours = importlib.import_module(f"lookalike.pml.{module}")
    theirs = importlib.import_module(f"pytorch_metric_learning.{module}")
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isclass(other):
            assert arguments(other) <= arguments(mine), name
