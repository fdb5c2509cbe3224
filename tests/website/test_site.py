"""The site builds without a warning, its pages say what they are, and all assets are its own."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from lookalike.registry import LOSSES

ROOT = Path(__file__).parents[2]
SOURCES = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
STATIC = {
    "stylesheet",
    "icon",
    "preload",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}


class Page(HTMLParser):
    """What the test asks of a page."""

    def __init__(self, path):
        super().__init__()
        self.title, self.description = "", ""
        self.assets, self.links, self.anchors = [], [], {"", "__top"}
        self._in_title = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, pairs):
        given = dict(pairs)
        self._in_title = tag == "title"
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "meta" and given.get("name") == "description":
            self.description = given["content"]
        if tag in SOURCES and given.get(SOURCES[tag]):
            self.assets.append(given[SOURCES[tag]])
        if tag == "link" and STATIC & set(given.get("rel", "").split()):
            self.assets.append(given["href"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        self._in_title = False

    def handle_data(self, data):
        if self._in_title:
            self.title += data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    places = ["--output", folder / "site", "--work", folder / "work"]
    done = subprocess.run(
        [sys.executable, "-m", "website.build", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path: Page(path) for path in paths}


WIDE = [  # one page of each kind, the widest there are
    "index.html",
    "losses.html",
    "studies.html",
    "concepts/uncertainty.html",
    "gallery/compare_three_losses.html",
    "reference/commands.html",
    "reference/recipes.html",
    "reference/losses/recall-at-k.html",
    "reference/api/losses.html",
]


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_scrolls_sideways(browser, site, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name in WIDE:
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.close()


def test_search_works_from_a_folder_and_asks_nobody(browser, site):
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "reference" / "losses" / "triplet.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("proxy anchor alpha")
    page.get_by_text("AnchorLoss(").first.wait_for()
    page.close()
    assert [url for url in asked if url.startswith("http")] == []


def outside(address):
    return re.match(r"(?:[a-z]+:)?//", address) is not None


def test_every_page_has_a_title_and_a_description(pages):
    titles = [page.title.strip() for page in pages.values()]
    assert all(titles)
    assert [path for path, page in pages.items() if not page.description] == []
    about = {page.description for page in pages.values()}
    assert len(about) == len(pages), "two pages with one description"


def test_every_page_of_docs_is_in_the_site(site):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert {str(page) for page in pages if not (site / page).with_suffix(".html").exists()} == set()


def test_nothing_is_fetched_from_elsewhere(pages, site):
    assert [asset for page in pages.values() for asset in page.assets if outside(asset)] == []
    for path in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")) == []
    for path in site.rglob("*.svg"):
        assert 'href="http' not in path.read_text(encoding="utf-8")


def test_every_link_has_a_target(pages, site):
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.assets]:
            if outside(link) or link.startswith(("mailto:", "javascript:")):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            if not target.exists() or (
                target in pages and unquote(anchor) not in pages[target].anchors
            ):
                broken.append((str(path.relative_to(site)), link))
    assert broken == []


def test_every_loss_has_a_page_with_formula_and_picture(site):
    for entry in LOSSES.entries():
        if not entry.build.__module__.startswith("lookalike."):
            continue
        name = entry.name.replace("++", "-plus-plus")
        text = (site / "reference" / "losses" / f"{name}.html").read_text(encoding="utf-8")
        assert "<math" in text
        assert f"figures/losses/{name}.svg" in text or "Not drawn" in text
        assert f"lookalike.losses.{entry.build.__name__}" in text
