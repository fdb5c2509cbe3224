"""The page in a real Chromium: it draws, it can be used, and nothing complains."""

from contextlib import contextmanager

import pytest


@pytest.fixture
def open_page(browser, page):
    """The page about three runs; see ``opening``."""
    with opening(browser, page) as open_at:
        yield open_at


@pytest.fixture
def open_study(browser, study_page):
    """The page about a study on two data sets and a run."""
    with opening(browser, study_page) as open_at:
        yield open_at


@contextmanager
def opening(browser, page):
    """Open the page at a width; whatever the browser complained about fails the test at the end."""
    complaints, contexts = [], []

    def note(kind, text):
        complaints.append(f"{kind}: {text}")

    def watch(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            note("request", request.url)

    def console(message):
        if message.type in ("error", "warning"):
            note(message.type, message.text)

    def open_at(width, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", console)
        tab.on("pageerror", lambda error: note("exception", error))
        tab.on("request", watch)
        tab.goto(page.as_uri())
        return tab

    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []


def labels(tab, group):
    return tab.locator(f'label:has(input[name="{group}"])')


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_can_be_clicked_through(open_page, three_runs, width, scheme):
    tab = open_page(width, scheme)
    tab.locator("#validation-0").scroll_into_view_if_needed()
    tab.wait_for_selector("#validation-0 .scatterlayer .trace")
    assert tab.locator("#validation-0 .scatterlayer .trace").count() == 3  # two methods, the rings
    tab.locator("#loss-0-0").scroll_into_view_if_needed()
    for number in range(2):
        tab.wait_for_selector(f"#loss-0-{number} .scatterlayer .trace")
    for number in range(len(three_runs)):
        labels(tab, "gallery-0").nth(number).click()
        shown = tab.locator(".panel:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-panel") == str(number)
    places = set()
    names = [three_runs[at].name for at in (2, 1, 0)]  # in order of score, the untrained last
    for number in range(len(three_runs)):
        labels(tab, "map-0").nth(number).click()
        tab.wait_for_selector("#plane-0 .points path")
        assert names[number] in tab.locator("#plane-0").get_attribute("aria-label")
        places.add(tab.locator("#plane-0 .points path").first.get_attribute("transform"))
    assert len(places) == len(three_runs)
    tab.locator("#theme").click()
    assert (
        tab.locator("html").get_attribute("data-theme")
        == {"light": "dark", "dark": "light"}[scheme]
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_sideways(open_page, width):
    tab = open_page(width)
    tab.locator("#plane-0").scroll_into_view_if_needed()
    tab.wait_for_selector("#plane-0 .points path")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_point_of_the_map_shows_its_picture(open_page):
    tab = open_page(1280)
    tab.locator("#plane-0").scroll_into_view_if_needed()
    tab.wait_for_selector("#plane-0 .points path")
    assert tab.locator("#hint-0").is_hidden()
    tab.locator("#plane-0 .points path").nth(5).hover(force=True)
    tab.wait_for_selector("#hint-0:not([hidden])")
    assert "data:image/png" in tab.locator("#hint-0 .thumb").get_attribute("style")
    assert tab.locator("#hint-0 .text").inner_text().startswith("U+")


def test_the_keyboard_is_enough(open_page, three_runs):
    tab = open_page(1280)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.locator('input[name="gallery-0"]:checked').focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".panel:visible").get_attribute("data-panel") == "1"
    outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert tab.evaluate(outline) == "solid"
    tab.locator("#class-0").focus()
    tab.keyboard.press("ArrowDown")
    tab.wait_for_function("document.querySelectorAll('#class-pictures-0 .thumb').length > 0")
    assert tab.locator("#class-title-0").inner_text().startswith("U+")


def test_colours_follow_the_theme_and_the_method(open_page):
    tab = open_page(1280)
    tab.locator("#validation-0").scroll_into_view_if_needed()
    tab.wait_for_selector("#validation-0 .lines path")
    line = "getComputedStyle(document.querySelector('#validation-0 .lines path')).stroke"
    swatch = "getComputedStyle(document.querySelector('.legend .stroke')).stroke"
    light = tab.evaluate(line)
    assert light == tab.evaluate(swatch)
    tab.locator("#theme").click()
    tab.locator("#validation-0").scroll_into_view_if_needed()  # drawn again when near
    tab.wait_for_timeout(500)
    assert tab.evaluate(line) != light
    assert tab.evaluate(line) == tab.evaluate(swatch)


def test_numbers_can_be_taken_away(open_page):
    tab = open_page(1280)
    with tab.expect_download() as download:
        tab.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "scores.csv"
    assert download.value.path().read_text(encoding="utf-8").startswith("method,map@r")


@pytest.fixture(scope="module")
def study_page(make_study, make_run, tmp_path_factory):
    from lookalike.compare.contenders import gather
    from lookalike.report import write_page

    folder = tmp_path_factory.mktemp("study")
    study = make_study(folder / "study", datasets=("glyphs", "cub"))
    found = gather([study, make_run("one").run.folder])
    return write_page(folder / "page.html", found, "A study", "L", paper="metrix")[0]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_study_can_be_clicked_through(open_study, width, scheme):
    tab = open_study(width, scheme)
    tab.locator("label", has_text="all folds concatenated").first.click()
    assert tab.locator('.panel[data-group="joined-0"]:visible').get_attribute("data-panel") == "1"
    assert tab.locator("#better .pairs:visible").count() == 0  # the run makes it unfair
    labels(tab, "dataset").nth(1).click()
    assert tab.locator("#scores .on:visible").get_attribute("data-on") == "1"
    assert tab.locator("#better td.better:visible").count() > 0
    assert tab.locator("#map").is_hidden()
    for target in ("#reported-1", "#tested-1", "#recall-1", "#scatter-1-0"):
        tab.locator(target).scroll_into_view_if_needed()
        tab.wait_for_selector(f"{target} .scatterlayer .trace")
    assert tab.locator("#published tr.ours").count() == 3
    tab.locator("#published summary").first.click()
    for target in ("#history-1-0", "#importance-1-0", *(f"#slice-1-0-{n}" for n in range(3))):
        tab.locator(target).scroll_into_view_if_needed()
        tab.wait_for_selector(f"{target} .main-svg")
    assert tab.locator("#importance-1-0 .bars path").count() == 3
    labels(tab, "tuning-1").nth(2).click()
    tab.locator("#contour-1-2-0").scroll_into_view_if_needed()
    tab.wait_for_selector("#contour-1-2-0 .contourlayer")
    assert tab.locator("#history-1-0").is_hidden()
    tab.locator("#theme").click()
    labels(tab, "dataset").nth(0).click()
    assert tab.locator("#map").is_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_study_needs_no_mouse(open_study):
    tab = open_study(1280)
    tab.locator('input[name="dataset"]:checked').focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#scores .on:visible").get_attribute("data-on") == "1"
    tab.locator('input[name="tuning-1"]:checked').focus()
    tab.keyboard.press("ArrowDown")
    tab.wait_for_selector("#history-1-1 .main-svg")
    assert tab.locator("#history-1-0").is_hidden()
