"""Build the documentation site: ``python -m website.build`` writes ``site/``.

Pages of ``docs/`` and generated ones are put side by side into ``build/website``, from which
Zensical makes HTML. Every warning ends the build: a link without a target, an unknown anchor, a
docstring that names an argument that is not there. Nothing is fetched, neither now nor by a reader.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from website import gallery, reference
from website.concept_figures import draw_all
from website.loss_pages import loss_pages
from website.markdown import staged, with_front_matter
from website.reference import Page

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages that do not lie in ``docs/``."""
GENERATED = {
    "commands": reference.command_pages,
    "recipes": reference.recipe_pages,
    "api": reference.api_pages,
}


def build(work: Path, output: Path) -> None:
    """Build the whole site.

    Args:
        work: A folder for the pages on their way; what is in it is removed.
        output: The folder of the site; what is in it is removed.

    Raises:
        SystemExit: Zensical or mkdocstrings complained about a page.
    """
    shutil.rmtree(work, ignore_errors=True)
    pages = work / "docs"
    ignored = shutil.ignore_patterns("*.md")
    shutil.copytree(ROOT / "docs", pages, ignore=ignored)
    for name in ("site.css", "iframe-worker.js"):
        shutil.copy(HERE / name, pages)
    draw_all(pages / "figures")
    navigation = [
        {section: [entry for item in items for entry in _entries(item, pages)]}
        for section, items in _contents().items()
    ]
    settings = _settings(navigation)
    (work / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    _run_zensical(work)
    shutil.rmtree(output, ignore_errors=True)
    shutil.move(work / "site", output)


def _contents() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = yaml.safe_load(
        (HERE / "contents.yaml").read_text(encoding="utf-8")
    )
    return found


def _entries(item: Any, pages: Path) -> Iterator[dict[str, Any]]:
    """Write the pages of one item of the contents; yield their entries in the navigation."""
    if isinstance(item, list):
        path, title, description = item
        yield _write(Page(path, title, description, _source(path)), pages)
        return
    if isinstance(item, dict):
        for title, inner in item.items():
            yield {title: [entry for one in inner for entry in _entries(one, pages)]}
        return
    if item == "benchmarks":
        yield {"Benchmarks": [_write(page, pages) for page in reference.benchmark_pages()]}
        return
    if item == "examples":
        yield from (_write(page, pages) for page in _examples())
        return
    if item == "losses":
        found = [_write(page, pages) for page in loss_pages(pages / "figures" / "losses")]
        yield {"Each loss": found}
        return
    found = [_write(page, pages) for page in GENERATED[item]()]
    yield from found if len(found) == 1 else [{"Python API": found}]


def _examples() -> Iterator[Page]:
    """The pages that ``make gallery`` has written."""
    for path in sorted(gallery.PAGES.glob("*.md")):
        place = path.relative_to(ROOT / "docs")
        text = path.read_text(encoding="utf-8")
        yield Page(str(place), *gallery.title_of(text), staged(text, place))


def _source(path: str) -> str:
    """The Markdown of a page that was written by hand."""
    outside = {name.lower(): ROOT / name for name in OUTSIDE}
    place = outside.get(path, ROOT / "docs" / path)
    return staged(place.read_text(encoding="utf-8"), Path(path))


def _write(page: Page, pages: Path) -> dict[str, str]:
    place = pages / page.path
    place.parent.mkdir(parents=True, exist_ok=True)
    text = with_front_matter(page.title, page.description, page.body)
    place.write_text(text, encoding="utf-8")
    return {page.title: page.path}


def _settings(navigation: list[dict[str, Any]]) -> dict[str, Any]:
    """The configuration of Zensical: how the site looks, its pages, and where our code is."""
    found: dict[str, Any] = yaml.safe_load((HERE / "theme.yaml").read_text(encoding="utf-8"))
    handler = found["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    handler["paths"] = [str(ROOT / "src")]
    handler["options"]["extensions"] = [str(HERE / "docstrings.py")]
    return found | {"nav": navigation}


def _run_zensical(work: Path) -> None:
    """Make HTML; end if there is any warning, also those that strict mode lets pass."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        command,
        cwd=work,
        env=os.environ | {"PYTHONPATH": paths, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [
        line for line in done.stderr.splitlines() if line.startswith(("griffe:", "mkdocstrings:"))
    ]
    if done.returncode or complaints:
        sys.exit(re.sub(r"\x1b\[[\d;]*m", "", f"{done.stdout}\n{done.stderr}"))


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--output", type=Path, default=ROOT / "site", help="folder of the site")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "website")
    given = parser.parse_args()
    build(given.work, given.output)
    print(f"the site: {given.output / 'index.html'}")


if __name__ == "__main__":
    main()
