"""Every block of Python and every command in the README and the docs runs, or says why not.

A comment says why a block is not run: ``<!-- not run: REASON -->`` before the block, or
``<!-- commands not run: REASON -->`` once, for all commands of the page. What is not run is still
parsed: each ``lookalike`` command exists, and so do its options and the keys that it sets.
"""

import re
import shlex
import shutil
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pytest
import typer

from lookalike.cli import app
from lookalike.config import RunConfig
from lookalike.config.keys import declared_keys
from tests.commands import run

ROOT = Path(__file__).parents[1]
GENERATED = ("docs/gallery/", "docs/benchmarks/")
"""Pages that programs write; tests/website/test_gallery.py runs the code of the gallery."""
PAGES = {
    name: path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if not (name := str(path.relative_to(ROOT))).startswith(GENERATED)
}
RUN_ELSEWHERE = {
    "docs/coming-from-pml.md": "tests/pml/test_page.py",
    "docs/evaluation.md": "tests/evaluation/test_metrics.py",
    "docs/extending.md": "tests/test_extending.py",
    "docs/losses.md": "tests/losses/test_docs.py",
    "docs/mixing.md": "tests/mixing/test_docs.py",
}
"""Pages whose Python is run, and asked more, by a test of their own."""
NAMED_PARTS = ("loss", "miner", "sampler", "memory", "mix")
"""Sections of the configuration that take the arguments of the part that they name."""
COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?"
    r"(?:lookalike|make|python|pip|torchrun|curl|for \w+ in|optuna-dashboard|pytest)\b"
)
REASON = re.compile(r"<!-- not run: (.+) -->")
PAGE_REASON = re.compile(r"<!-- commands not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    language: str
    """``python``, ``sh`` for commands, or another; empty: output, or a part of a file."""
    text: str
    reason: str
    """Why it is not run; empty: it is."""


def blocks(page):
    """All blocks of a page, in order: fenced ones, and paragraphs that are indented."""
    of_page = PAGE_REASON.search(page)
    found, lines, reason = [], page.splitlines(), ""
    at = 0
    while at < len(lines):
        line = lines[at]
        given = REASON.match(line)
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            found.append(Block(line[3:], "\n".join(lines[at + 1 : end]), reason))
            at, reason = end, ""
        elif line.startswith("    ") and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(one[4:] for one in lines[at:end]).strip("\n")
            found.append(Block("sh" if COMMAND.match(text) else "", text, reason))
            at, reason = end - 1, ""
        elif given:
            reason = given[1]
        elif line.strip():
            reason = ""
        at += 1
    return [
        Block(one.language, one.text, of_page[1])
        if of_page and one.language == "sh" and not one.reason
        else one
        for one in found
    ]


def commands(text):
    """The command lines of a block: continued lines joined, comments and output removed."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if COMMAND.match(line)]


def to_run(name, language):
    """The blocks of a page that have no reason not to be run."""
    found = [one for one in blocks(PAGES[name]) if one.language == language]
    return [one.text for one in found if not one.reason]


@pytest.fixture(scope="module")
def photos(coloured_noise):
    return coloured_noise(16, 20, size=(40, 40))


@pytest.fixture
def _in_a_folder_of_photos(photos, tmp_path, monkeypatch):
    (tmp_path / "photos").symlink_to(photos)
    for name in ("docs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(photos / "00" / "0.png", tmp_path / "query.jpg")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_in_a_folder_of_photos")
@pytest.mark.parametrize(
    "name", [name for name in PAGES if name not in RUN_ELSEWHERE and to_run(name, "python")]
)
def test_python_runs(name):
    names = {}
    for block in to_run(name, "python"):
        exec(compile(block, name, "exec"), names)


@pytest.mark.slow
@pytest.mark.usefixtures("_in_a_folder_of_photos")
@pytest.mark.parametrize("name", [name for name in PAGES if to_run(name, "sh")])
def test_commands_run(name):
    for line in (line for block in to_run(name, "sh") for line in commands(block)):
        words = [found for word in shlex.split(line) for found in (glob(word) or [word])]
        assert words[0] == "lookalike", f"{line}: only our own commands are run"
        done = run(*words[1:])
        expected = 1 if "audit" in words else 0  # an unfair comparison
        assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"


def test_python_elsewhere_is_run():
    for name, test in RUN_ELSEWHERE.items():
        assert Path(name).name in (ROOT / test).read_text(encoding="utf-8")


EVERY_COMMAND = sorted(
    {
        (name, found[0])
        for name, page in PAGES.items()
        for block in blocks(page)
        if block.language == "sh"
        for line in commands(block.text)
        if (found := re.search(r"\blookalike (?!--).+?(?=;|$)", line))
    }
)


@pytest.mark.parametrize(("name", "line"), EVERY_COMMAND)
def test_every_command_is_valid(name, line):
    words = shlex.split(line)[1:]
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):  # "index RUN photos/" is "index create RUN photos/"
        command = command.commands["create"]
    command.make_context("lookalike", list(words))
    if command.name in ("train", "choose"):
        keys = declared_keys(RunConfig)
        short = {key.rpartition(".")[2] for key, one in keys.items() if one.key.short}
        for key in (word.partition("=")[0] for word in words if re.match(r"[a-z_.]+=", word)):
            part = key.partition(".")[0]
            assert key in keys or key in short or part in NAMED_PARTS, f"{name}: {line}"


def test_every_fence_has_a_language():
    for name, page in PAGES.items():
        assert [
            one for one in blocks(page) if not one.language and f"```\n{one.text}" in page
        ] == [], name
