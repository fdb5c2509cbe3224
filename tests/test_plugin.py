"""A loss of another package: found by entry point, trained, mixed, remembered."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "plugin_package"
TINY = [
    "loss.name=squared-gap",
    "loss.margin=0.2",
    "model.dim=16",
    "sampler.batch_size=32",
    "train.epochs=1",
    "train.batches_per_epoch=4",
    "train.device=cpu",
    "protocol.metrics=[recall@1]",
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as an installer leaves it, in a folder of its own; nothing is fetched."""
    target = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copy(PACKAGE / "squared_gap.py", target)
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {path}" for name, path in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


@pytest.fixture
def lookalike(installed, tmp_path):
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-c", "from lookalike.cli import main; main()", *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    return run


def test_it_is_small():
    lines = (PACKAGE / "squared_gap.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 20


def test_it_is_listed(lookalike):
    done = lookalike("list", "losses", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = [row for row in json.loads(done.stdout) if row["name"] == "squared-gap"]
    assert row["summary"].startswith("Squares how far")


@pytest.mark.parametrize(
    "settings",
    [
        ("miner.name=multi-similarity",),
        pytest.param(
            ("mix.where=feature", "mix.negatives=1", "memory.size=64", "memory.start=1"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["alone", "mixed and remembered"],
)
def test_it_trains(lookalike, settings):
    done = lookalike("train", *TINY, *settings, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] == 4
    assert 0 < result["test"]["recall@1"] < 1


def test_its_arguments_are_checked(lookalike):
    done = lookalike("train", *TINY, "loss.margn=1")
    assert done.returncode == 2
    assert "did you mean 'margin'" in done.stderr


def test_a_broken_package_is_named_and_the_others_go_on(installed, lookalike):
    info = installed / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lookalike.losses]\nbent = not_there:Bent\n")
    try:
        done = lookalike("list", "losses")
    finally:
        shutil.rmtree(info)
    assert done.returncode == 0
    assert "squared-gap" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("lookalike: 'bent' of the losses (not_there:Bent) cannot be loaded")
