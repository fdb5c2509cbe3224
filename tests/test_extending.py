"""The examples of docs/extending.md, as a package of one's own and as part of Lookalike.

The code blocks are written to the files that they name. Their own tests run, one training uses all
parts together, and inside Lookalike the project's own checks of docstrings, rooms, pages and style
run on them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest
import torch

import lookalike
from lookalike import losses

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
TESTS = {name: code for name, code in FILES.items() if name.startswith("test_")}
PARTS = {name: code for name, code in FILES.items() if name not in TESTS}
IMPORTS = re.findall(r"`from lookalike\.(\w+)\.(\w+) import ([\w, ]+|\*)`", PAGE)
IMPORTS = [each for each in IMPORTS if f"{each[1]}.py" in PARTS]
NAMES = {
    f"{module}.py": re.findall(r"\w+", re.search(r"__all__ = \[(.*)\]", PARTS[f"{module}.py"])[1])
    for _, module, _ in IMPORTS
}
ROWS = re.findall(
    r'^(docs/\w+\.md), "([^"]+)"\n((?:\|.*\|\n)+)',
    "".join(re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)),
    re.MULTILINE,
)
(STUDY,) = re.findall(r"```yaml\n# squared_hinge\.yaml\n(.*?)```", PAGE, re.DOTALL)
CHECKS = [
    "tests/test_docstrings.py",
    "tests/test_rooms.py",
    "tests/losses/test_docs.py",
    "tests/losses/test_every_loss.py",
    "tests/evaluation/test_metrics.py",
]
ALL_TOGETHER = [
    "data.name=bars",
    "data.transform=glyphs",
    "model.network=two-layers",
    "model.weights=none",
    "model.dim=8",
    "loss.name=squared-hinge",
    "loss.margin=0.2",
    "miner.name=hardest-negative",
    "sampler.name=class-by-class",
    "sampler.batch_size=32",
    "train.epochs=1",
    "train.device=cpu",
    "protocol.metrics=[recall@1,f1@5,median-rank]",
]


class Place:
    """A folder with tests to run, and what Python must find first."""

    def __init__(self, folder, tests, *paths):
        self.folder = folder
        self.tests = tests
        kept = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        self.paths = os.pathsep.join([*map(str, paths), *kept])

    def python(self, *arguments):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": self.paths, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
        )

    def pytest(self, *arguments):
        options = ["-v", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
        done = self.python("-m", "pytest", *options, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def train(self, *settings):
        return self.python("-m", "lookalike", "train", *settings, "--json")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The parts as an installer leaves the package, in a folder of its own; nothing is fetched."""
    folder = tmp_path_factory.mktemp("plugin")
    site = folder / "site"
    site.mkdir()
    for name, code in PARTS.items():
        (site / name).write_text(code, encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    project = tomllib.loads(block)["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {path}" for name, path in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for name, code in TESTS.items():
        (folder / name).write_text(code, encoding="utf-8")
    return Place(folder, list(TESTS), site)


def add_row(page, heading, rows):
    """The page with rows at the end of the first table below the heading."""
    before, title, after = page.partition(f"# {heading}\n")
    assert title, f"there is no heading '{heading}'"
    table = re.search(r"(?:^\|.*\|\n)+", after, re.MULTILINE)
    return before + title + after[: table.end()] + rows + after[table.end() :]


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A copy of Lookalike with the files, names and rows that the page names, and no others."""
    folder = tmp_path_factory.mktemp("inside")
    package = folder / "src" / "lookalike"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(lookalike.__file__).parent, package, ignore=ignored)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("pyproject.toml", "CONTRIBUTING.md", "recipes"):
        (folder / name).symlink_to(ROOT / name)
    for path in [*(ROOT / "tests").rglob("conftest.py"), *(ROOT / check for check in CHECKS)]:
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    tests = []
    for room, module, names in IMPORTS:
        (package / room / f"{module}.py").write_text(PARTS[f"{module}.py"], encoding="utf-8")
        init = package / room / "__init__.py"
        imports, listed, rest = init.read_text(encoding="utf-8").partition("\n__all__ = [\n")
        if names != "*":
            listed += "".join(f'    "{name}",\n' for name in names.split(", "))
        imports += f"from lookalike.{room}.{module} import {names}\n"
        init.write_text(f"{imports}{listed}{rest}", encoding="utf-8")
        tests.append(f"tests/{room}/test_{module}.py")
        (folder / tests[-1]).parent.mkdir(exist_ok=True)
        (folder / tests[-1]).write_text(TESTS[f"test_{module}.py"], encoding="utf-8")
    for page, heading, rows in ROWS:
        text = (folder / page).read_text(encoding="utf-8")
        (folder / page).write_text(add_row(text, heading, rows), encoding="utf-8")
    copied = Place(folder, tests, folder / "src")
    shutil.copytree(ROOT / "website", folder / "website", ignore=ignored)
    done = copied.python("-m", "website.loss_tables")
    assert done.returncode == 0, done.stderr
    return copied


@pytest.fixture(params=["plugin", "inside"])
def place(request):
    return request.getfixturevalue(request.param)


def test_the_page_names_every_file():
    assert len(PARTS) == 7
    assert {f"test_{name}" for name in PARTS} == set(TESTS)
    assert sorted(f"{module}.py" for _, module, _ in IMPORTS) == sorted(PARTS)
    for room, module, names in IMPORTS:
        assert f"`src/lookalike/{room}/{module}.py`" in PAGE
        assert f"`src/lookalike/{room}/__init__.py`" in PAGE
        assert f"`tests/{room}/test_{module}.py`" in PAGE
        assert names == "*" or all(f'`"{name}"`' in PAGE for name in names.split(", "))
    assert all(f"in `{page}`" in PAGE for page, _, _ in ROWS)
    assert len(ROWS) == len(PARTS) - 4  # those of losses, miners, samplers and reducers are written


def test_a_learned_parameter_needs_no_call_of_the_base():
    (block,) = re.findall(r"```python\n(import torch\n.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(compile(block, "docs/extending.md", "exec"), names)
    loss = names["LearnedMarginLoss"](start=-1)
    loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).backward()
    assert loss.margin.grad == -1


def test_every_attribute_that_a_loss_declares_is_explained():
    """All class variables of the three bases."""
    for base in (losses.Loss, losses.PairLoss, losses.ProxyLoss):
        declared = [
            name
            for name, kind in vars(base).get("__annotations__", {}).items()
            if typing.get_origin(kind) is typing.ClassVar
        ]
        assert declared
        assert [name for name in declared if f"`{name}`" not in PAGE] == []


def test_the_tests_of_the_examples_pass(place):
    assert "7 passed" in place.pytest(*place.tests)


@pytest.mark.slow
def test_the_checks_of_the_project_pass_inside(inside):
    """Of all losses only the new one takes every test again."""
    told = inside.pytest("-k", "squared-hinge or not test_every_loss", *CHECKS)
    for room, module, _ in IMPORTS:
        for name in NAMES[f"{module}.py"]:
            assert f"test_docstring_is_complete[lookalike.{room}.{name}] PASSED" in told
    assert "test_gradcheck[squared-hinge] PASSED" in told


def test_the_style_is_that_of_the_project(inside):
    files = [f"src/lookalike/{room}/{module}.py" for room, module, _ in IMPORTS] + inside.tests
    for command in (["check"], ["format", "--check"]):
        done = inside.python("-m", "ruff", *command, "--no-cache", *files)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_types_are_strict(inside):
    files = [f"src/lookalike/{room}/{module}.py" for room, module, _ in IMPORTS]
    done = inside.python("-m", "mypy", "--cache-dir", inside.folder / "types", *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_parts_train_together(place):
    done = place.train(*ALL_TOGETHER)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] > 0
    assert 0 < result["test"]["f1@5"] < 1 <= result["test"]["median-rank"]


@pytest.mark.slow
def test_a_loss_is_tuned_beside_others(plugin):
    (plugin.folder / "squared_hinge.yaml").write_text(STUDY, encoding="utf-8")
    told = plugin.python("-m", "lookalike", "study", "run", "squared_hinge.yaml")
    assert told.returncode == 0, told.stderr
    rows = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in (plugin.folder / "results" / "squared_hinge" / "bars").glob("[!b]*.json")
    }
    assert set(rows) == {"squared-hinge", "contrastive", "triplet"}
    assert [row["errors"] for row in rows.values()] == [[], [], []]
    assert -0.5 <= rows["squared-hinge"]["tuned"]["loss.margin"] <= 0.9
    told = plugin.python("-m", "lookalike", "report", "results/squared_hinge", "-o", "page.html")
    assert told.returncode == 0, told.stderr
    assert "squared-hinge" in (plugin.folder / "page.tex").read_text(encoding="utf-8")


def test_parts_by_the_path_of_their_module(plugin):
    names = {
        "data.name": "bars:bars",
        "model.network": "two_layers:two_layers",
        "loss.name": "squared_hinge:SquaredHingeLoss",
        "miner.name": "hardest_negative:HardestNegativeMiner",
        "sampler.name": "class_by_class:ClassByClassSampler",
        "protocol.metrics": "[f1_at_k:f1_at@5,f1_at_k:median_rank]",
    }
    kept = [s for s in ALL_TOGETHER if s.partition("=")[0] not in names]
    done = plugin.train(*kept, *(f"{key}={value}" for key, value in names.items()))
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["test"]
    assert 0 < scores["f1_at_k:f1_at@5"] < 1 <= scores["f1_at_k:median_rank"]


def test_metrics_are_listed_and_misspelt_ones_are_refused(plugin):
    listed = plugin.python("-m", "lookalike", "list", "metrics")
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^f1@k +F1 of", listed.stdout, re.MULTILINE)
    done = plugin.train(*ALL_TOGETHER, "protocol.metrics=[medan-rank]")
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "there is no metric 'medan-rank'; did you mean 'median-rank'?"
    )
