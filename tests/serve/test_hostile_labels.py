"""Labels, file names and metadata with markup and SQL: shown as text, in a real Chromium."""

import pytest
from playwright.sync_api import expect

from lookalike.search import Embedder, Index

HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
LABELS = (
    HOSTILE,
    "'; drop table items; --",
    '"><svg onload=window.hacked=1>',
    "javascript:alert(1)",
)


@pytest.fixture(scope="module")
def hostile(start, picture, tmp_path_factory):
    """A server about pictures whose names and labels try to break out."""
    home = tmp_path_factory.mktemp("hostile")
    table = ["path,label,note"]
    for number, label in enumerate(LABELS):
        name = f"<b onclick=hacked()>{number}.png"
        picture(seed=number).save(home / name)
        quoted = label.replace('"', '""')
        table.append(f'"{name}","{quoted}","{quoted}"')
    (home / "t.csv").write_text("\n".join(table), encoding="utf-8")
    embedder = Embedder.from_network("small-cnn", weights="none")
    Index.create(home / "a.index", embedder, home / "t.csv")
    return start([str(home / "a.index"), "--port", "0"])


@pytest.mark.parametrize("path", ["", "?item=0", "?view=map", f"?label={LABELS[1]}"])
def test_what_looks_like_markup_is_text(browser, hostile, path):
    tab = browser.new_page()
    complaints = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    answer = tab.goto(hostile.address + path)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    tab.wait_for_load_state("networkidle")
    if path == "?item=0":
        expect(tab.locator("#query-path")).to_contain_text("<b onclick")
        expect(tab.locator("#grid .card").first).to_be_visible()
    assert tab.evaluate("window.hacked") is None
    assert tab.evaluate("document.querySelectorAll('main b[onclick], main script').length") == 0
    assert complaints == []
    tab.close()
