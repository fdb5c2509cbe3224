"""The wheel and the source distribution: built, installed elsewhere, and used in another folder."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, cwd, without=()):
    found = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(command, cwd=cwd, env=found, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, made from the source distribution, and the source distribution."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    run(*hatchling, "-t", "sdist", cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "source", filter="data")
    (inside,) = (folder / "source").iterdir()
    run(*hatchling, "-t", "wheel", cwd=inside)
    (wheel,) = folder.glob("*.whl")
    return wheel, source


@pytest.mark.slow
def test_the_wheel_has_what_commands_read(built):
    names = zipfile.ZipFile(built[0]).namelist()
    for file in (
        "recipes/glyphs.yaml",
        "recipes/studies/tiny.yaml",
        "audits/every-flaw.yaml",
        "serve/web/token.html",
        "study/spaces.yaml",
    ):
        assert f"lookalike/{file}" in names, file
    assert not [name for name in names if name.startswith(("tests/", "lookalike/results/"))]


@pytest.mark.slow
def test_the_demonstration_runs_from_the_installed_wheel(built, tmp_path):
    """In an environment that has the packages of this one, but not this source tree."""
    venv.EnvBuilder(with_pip=False).create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "shared.pth").write_text(
        "\n".join(path for path in sys.path if "site-packages" in path) + "\n"
    )
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(site)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ask = "import lookalike; print(lookalike.__file__)"
    assert str(site) in run(python, "-c", ask, cwd=elsewhere, without=["PYTHONPATH"])
    run(python, "-m", "lookalike", "demo", cwd=elsewhere, without=["PYTHONPATH"])
    assert (elsewhere / "demo" / "index.html").is_file()
    compared = run(python, "-m", "lookalike", "compare", "demo", cwd=elsewhere)
    assert "glyphs, by MAP@R" in compared
    audit = run(python, "-m", "lookalike", "audit", "docs/audits/reality-check.yaml", cwd=elsewhere)
    assert "Reality Check" in audit
