"""The page of the architecture names files, classes and functions that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\[(.+?)\]\((\.\./src/[^)]+)\)", PAGE)
(DRAWING,) = re.findall(r"```text\n(.+?)```", PAGE, re.DOTALL)


def names_in(path):
    """Functions and classes at the top of a module, and methods as CLASS.METHOD."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, kinds):
            yield node.name
            inside = node.body if isinstance(node, ast.ClassDef) else []
            yield from (f"{node.name}.{one.name}" for one in inside if isinstance(one, kinds))


@pytest.mark.parametrize(("text", "target"), LINKS)
def test_links_lead_to_what_they_name(text, target):
    path = (ROOT / "docs" / target).resolve()
    assert path.is_file()
    if re.fullmatch(r"`[\w.]+`", text):
        assert text.strip("`") in names_in(path)


def test_the_drawing_names_files_in_at_most_twelve_stations():
    files = re.findall(r"\w+/\w+\.py", DRAWING)
    assert len(files) >= 12
    assert [name for name in files if not (ROOT / "src" / "lookalike" / name).is_file()] == []
    stations = [int(number) for number in re.findall(r"^ ?(\d+)  ", DRAWING, re.MULTILINE)]
    assert stations == list(range(1, 13))


def test_the_life_of_a_step_has_twelve_lines():
    assert re.findall(r"^(\d+)\. ", PAGE, re.MULTILINE) == [str(number) for number in range(1, 13)]
