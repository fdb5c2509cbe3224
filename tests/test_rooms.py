"""The map of rooms in CONTRIBUTING is complete, and imports go down it only."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lookalike"
ROOMS = re.findall(r"^\| `([a-z_]+)(?:/|\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The rooms that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            plain = node.module == "lookalike"
            names = [f"{node.module}.{a.name}" for a in node.names] if plain else [node.module]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("lookalike."))


def test_the_map_is_complete():
    there = {room_of(path) for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert set(ROOMS) == there
    assert len(ROOMS) == len(set(ROOMS))


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_down(room):
    below = ROOMS[ROOMS.index(room) :]
    files = [path for path in SOURCE.rglob("*.py") if room_of(path) == room]
    upwards = {(path.name, other) for path in files for other in imported(path)} - {
        (path.name, other) for path in files for other in below
    }
    assert not upwards


def test_no_import_cycle():
    """Imports at the top of modules; those inside functions may go back."""
    files = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in SOURCE.rglob("*.py")
    }
    graph = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                both = {(f"{node.module}.{alias.name}", node.module) for alias in node.names}
                graph[name] |= {inner if inner in files else outer for inner, outer in both}
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
    TopologicalSorter({name: found & set(files) for name, found in graph.items()}).prepare()
