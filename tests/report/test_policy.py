"""The Content-Security-Policy of pages: what they bring is allowed by its hash, nothing else is."""

import re

import pytest

from lookalike.compare.contenders import gather
from lookalike.report import write_page
from lookalike.report.findings import Finding, Picture, write_findings

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<p id=planted style='color: rgb(1, 2, 3)'>x</p><style>#planted {margin: 77px}</style>"
)


def policy_of(text):
    return re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)


@pytest.fixture
def findings(tmp_path):
    picture = Picture("", HOSTILE, HOSTILE, HOSTILE)
    return write_findings(tmp_path / "f.html", HOSTILE, [HOSTILE], [Finding(HOSTILE, (picture,))])


def test_no_page_allows_what_is_inline(page, findings):
    for path in (page, findings):
        policy = policy_of(path.read_text(encoding="utf-8"))
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("which", ["page", "findings"])
def test_planted_markup_does_nothing(browser, page, findings, tmp_path, which):
    """Even if text of a file got into a page unescaped, the browser would not obey it."""
    text = {"page": page, "findings": findings}[which].read_text(encoding="utf-8")
    assert HOSTILE not in text
    planted = tmp_path / "planted.html"
    planted.write_text(text.replace("<main>", f"<main>{HOSTILE}", 1), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(planted.as_uri())
    tab.wait_for_timeout(300)
    assert tab.evaluate("window.hacked") is None
    style = "getComputedStyle(document.getElementById('planted'))"
    assert tab.evaluate(f"{style}.color") != "rgb(1, 2, 3)"
    assert tab.evaluate(f"{style}.marginTop") != "77px"
    tab.close()


def test_names_that_are_markup_are_shown_as_text(browser, make_run, tmp_path):
    folder = make_run("hostile", noise=1.0).run.folder
    path = tmp_path / "page.html"
    found = gather([folder], {folder: HOSTILE + "\ud800"})
    write_page(path, found, HOSTILE, HOSTILE, commands=[HOSTILE])
    tab = browser.new_page()
    tab.goto(path.as_uri())
    tab.wait_for_timeout(300)
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("#planted").count() == 0
    assert HOSTILE in tab.locator("h1").inner_text()
    tab.close()
