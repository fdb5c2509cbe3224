"""The code in the README and on the page about Python runs."""

import re
import shutil
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
PAGE = README.parent / "docs" / "python.md"


def blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def photos(coloured_noise):
    return coloured_noise(16, 20, size=(40, 40))


@pytest.fixture
def _in_a_folder_of_photos(photos, tmp_path, monkeypatch):
    (tmp_path / "photos").symlink_to(photos)
    shutil.copy(photos / "00" / "0.png", tmp_path / "query.jpg")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_in_a_folder_of_photos")
@pytest.mark.parametrize("code", [*blocks(README), "\n".join(blocks(PAGE))])
def test_code_runs(code):
    exec(compile(code, str(README), "exec"), {})


def test_linked_files_exist():
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / link).exists(), link
