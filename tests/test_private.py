"""Results and pages are shown to others: they have no path and no user name of this machine.

A run's ``config.yaml`` and a study's ``study.db`` are private: they are what resuming needs.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike.study.table import load_results
from tests import commands

PRIVATE = ("config.yaml",)
USER = "annabelle-private"
TINY = (
    *("model.network=small-cnn", "model.weights=none", "model.dim=8", "data.transform=small"),
    *("train.epochs=1", "train.batches_per_epoch=1", "sampler.name=random", "sampler.batch_size=2"),
)
STUDY = """
name: shown
data: {{name: folder, root: {photos}, transform: small}}
base: {{model: {{network: small-cnn, weights: none, dim: 8}},
        train: {{epochs: 1, batches_per_epoch: 1}}, sampler: {{name: random, batch_size: 2}}}}
protocol: {{name: paper, metrics: [recall@1, map@r]}}
methods:
  - {{name: works, loss: {{name: triplet}}}}
  - {{name: fails, loss: {{name: triplet}}, set: {{model.weights: {photos}/none.pt}}}}
repeats: 1
checkpoints: true
"""


def test_what_is_shipped():
    """The stored results and the documentation name no home folder."""
    root = Path(__file__).parents[1]
    homes = re.compile(rb"/(home|Users)/[a-z]|/root/|[A-Z]:\\\\Users|file:///[^ .'\"]")
    paths = (path for name in ("results", "docs") for path in (root / name).rglob("*"))
    files = [path for path in paths if path.is_file() and path.suffix != ".png"]
    assert len(files) > 50
    assert [path.name for path in files if homes.search(path.read_bytes())] == []


@pytest.fixture
def home(tmp_path):
    """The home folder of somebody, with photographs in it."""
    rng = np.random.default_rng(0)
    for number in range(12):
        folder = tmp_path / USER / "photos" / f"class {number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)).save(folder / f"{number}.png")
    (tmp_path / USER / "work").mkdir()
    return tmp_path / USER


def run(home, *arguments, code=0):
    names = {"HOME": str(home), "USER": USER, "LOGNAME": USER}
    done = commands.run(*arguments, cwd=home / "work", **names)
    assert done.returncode == code, done.stderr


def leaks(folder):
    """The files that name the user, which is in every path of the home folder."""
    return [
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in PRIVATE and USER.encode() in path.read_bytes()
    ]


def test_a_run_and_its_page(home):
    run(home, "train", "data.name=folder", f"data.root={home}/photos", "protocol.name=paper", *TINY)
    run(home, "report", "runs", "-o", "page.html")
    assert leaks(home / "work") == []


@pytest.mark.slow
def test_a_study_and_its_page(home):
    (home / "study.yaml").write_text(STUDY.format(photos=home / "photos"))
    run(home, "study", "run", str(home / "study.yaml"), "--workers", "1")
    run(home, "report", "results/shown", "-o", "page.html")
    (row,) = load_results(home / "work" / "results" / "shown").rows
    assert row.errors or row.failed
    assert leaks(home / "work") == []


@pytest.mark.slow
def test_a_model_for_others(home):
    run(home, "train", "data.name=folder", f"data.root={home}/photos", "protocol.name=paper", *TINY)
    run(home, "export", "runs/latest", "--to", "safetensors", "-o", "model")
    assert leaks(home / "work" / "model") == []
