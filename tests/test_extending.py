"""The examples of docs/extending.md, as a package of one's own and as part of Lookalike.

The code blocks are written to the files that they name. Their own tests run, and then one training
uses all parts together.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lookalike

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
TESTS = {name: code for name, code in FILES.items() if name.startswith("test_")}
PARTS = {name: code for name, code in FILES.items() if name not in TESTS}
ALL_TOGETHER = [
    "data.name=bars",
    "data.transform=glyphs",
    "model.network=two-layers",
    "model.dim=8",
    "loss.name=squared-hinge",
    "loss.margin=0.2",
    "miner.name=hardest-negative",
    "sampler.name=class-by-class",
    "sampler.batch_size=32",
    "train.epochs=1",
    "train.device=cpu",
    "protocol.metrics=[recall@1,f1@5,mean-rank]",
]


class Place:
    """A folder with tests to run, and what Python must find first."""

    def __init__(self, folder, *paths):
        self.folder = folder
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

    def train(self, *settings):
        return self.python("-m", "lookalike", "train", *settings, "--json")


def write_tests(folder):
    folder.mkdir()
    for name, code in TESTS.items():
        (folder / name).write_text(code, encoding="utf-8")


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
    write_tests(folder / "tests")
    return Place(folder, site)


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A copy of Lookalike with the files and the import lines that the page names."""
    folder = tmp_path_factory.mktemp("inside")
    package = folder / "src" / "lookalike"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(lookalike.__file__).parent, package, ignore=ignored)
    (folder / "recipes").symlink_to(ROOT / "recipes")
    imports = re.findall(r"`(from lookalike\.(\w+)\.(\w+) import [\w, ]+)`", PAGE)
    assert sorted(f"{module}.py" for _, _, module in imports) == sorted(PARTS)
    for line, room, module in imports:
        assert f"`src/lookalike/{room}/{module}.py`" in PAGE
        assert f"`tests/{room}/test_{module}.py`" in PAGE
        (package / room / f"{module}.py").write_text(PARTS[f"{module}.py"], encoding="utf-8")
        with (package / room / "__init__.py").open("a", encoding="utf-8") as init:
            init.write(f"\n{line}\n")
    write_tests(folder / "tests")
    return Place(folder, folder / "src")


@pytest.fixture(params=["plugin", "inside"])
def place(request):
    return request.getfixturevalue(request.param)


def test_each_part_has_a_file_and_a_test():
    assert len(PARTS) == 6
    assert {f"test_{name}" for name in PARTS} == set(TESTS)
    pages = re.findall(r"a row in `(docs/\w+\.md)`", PAGE)
    assert len(pages) == len(PARTS)
    assert all((ROOT / page).is_file() for page in pages)


def test_the_tests_of_the_examples_pass(place):
    done = place.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_all_parts_train_together(place):
    done = place.train(*ALL_TOGETHER)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] > 0
    assert 0 < result["test"]["f1@5"] < 1 < result["test"]["mean-rank"]


def test_parts_by_the_path_of_their_module(plugin):
    names = {
        "data.name": "bars:bars",
        "model.network": "two_layers:two_layers",
        "loss.name": "squared_hinge:SquaredHingeLoss",
        "miner.name": "hardest_negative:HardestNegativeMiner",
        "sampler.name": "class_by_class:ClassByClassSampler",
        "protocol.metrics": "[f1_at_k:f1_at@5,f1_at_k:mean_rank]",
    }
    kept = [s for s in ALL_TOGETHER if s.partition("=")[0] not in names]
    done = plugin.train(*kept, *(f"{key}={value}" for key, value in names.items()))
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)["test"]
    assert 0 < scores["f1_at_k:f1_at@5"] < 1 < scores["f1_at_k:mean_rank"]


def test_metrics_are_listed_and_misspelt_ones_are_refused(plugin):
    listed = plugin.python("-m", "lookalike", "list", "metrics")
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^f1@k +F1 of", listed.stdout, re.MULTILINE)
    done = plugin.train(*ALL_TOGETHER, "protocol.metrics=[men-rank]")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("there is no metric 'men-rank'; did you mean 'mean-rank'?")
