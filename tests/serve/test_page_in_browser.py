"""The search page in a real Chromium: it finds, it can be used, and nothing complains."""

import re

import pytest
from playwright.sync_api import expect


@pytest.fixture
def open_page(browser, server):
    """Open an address at a width; whatever the browser complained about fails the test."""
    complaints, contexts, refusals = [], [], []

    def console(message):
        # Chromium itself reports refused requests; a test that expects one says so
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            complaints.append(f"{message.type}: {message.text}")

    def answered(response):
        if response.status >= 400:
            refusals.append(response.status)

    def request(request):
        if not request.url.startswith((server.address, "blob:")):
            complaints.append(f"request: {request.url}")

    def open_at(path="", width=1280, scheme="light", touch=False, address=None):
        context = browser.new_context(
            viewport={"width": width, "height": 860},
            color_scheme=scheme,
            reduced_motion="reduce",
            has_touch=touch,
            is_mobile=touch,
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", console)
        tab.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
        tab.on("request", request)
        tab.on("response", answered)
        tab.goto(server.address + path)
        return tab

    open_at.refusals = refusals
    open_at.expected = []
    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []
    assert refusals == open_at.expected


def cards(tab, grid="#grid"):
    return tab.locator(f"{grid}:not([aria-busy]) .card:not(.ghost):not([hidden])")


def upload(tab, data, name="mine.png", kind="image/png"):
    tab.locator("#file").set_input_files({"name": name, "mimeType": kind, "buffer": data})


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_upload_search_click_through_and_back(open_page, picture, as_bytes, width, scheme):
    tab = open_page(width=width, scheme=scheme, touch=width < 600)
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    upload(tab, as_bytes(picture("teal", "disc")))
    expect(cards(tab)).to_have_count(36)
    expect(tab.locator("#query-path")).to_have_text("mine.png")
    expect(tab.locator("#count")).to_contain_text("36 pictures")
    numbers = [float(text.split()[-1]) for text in tab.locator("#grid .number").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    wanted = cards(tab).nth(3).get_attribute("data-id")
    cards(tab).nth(3).locator("a").click()
    expect(tab).to_have_url(re.compile(rf"\?item={wanted}$"))
    expect(tab.locator("#query-path")).to_contain_text("/")
    expect(cards(tab)).to_have_count(36)
    assert wanted not in [card.get_attribute("data-id") for card in cards(tab).all()]
    expect(tab.locator("#agreement")).to_contain_text("nearest have the same label")
    tab.go_back()
    expect(tab.locator("#query-path")).to_have_text("mine.png")
    tab.go_back()
    expect(tab.locator("#opening")).to_be_visible()
    tab.go_forward()
    tab.go_forward()
    expect(tab).to_have_url(re.compile(rf"\?item={wanted}$"))
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_link_to_a_picture_opens_it(open_page, shop):
    tab = open_page("?item=7")
    expect(tab.locator("#query-path")).to_have_text(shop.item(7).path)
    assert shop.item(7).path in tab.locator("#query-image").get_attribute("alt")
    for image in tab.locator("#grid img").all()[:5]:
        assert len(image.get_attribute("alt")) > 5


def test_the_label_filter(open_page, shop):
    tab = open_page("?item=7")
    expect(cards(tab)).to_have_count(36)
    tab.locator("#label").select_option("amber disc")
    own = shop.item(7).label == "amber disc"
    expect(cards(tab)).to_have_count(5 if own else 6)
    assert {t.split("\n")[0].rstrip(" ✓") for t in cards(tab).all_inner_texts()} == {"amber disc"}
    expect(tab).to_have_url(re.compile(r"label=amber\+disc"))
    tab.go_back()
    expect(cards(tab)).to_have_count(36)
    assert tab.locator("#label").input_value() == ""


def test_the_threshold_hides_what_is_less_similar(open_page):
    tab = open_page("?item=7")
    expect(cards(tab)).to_have_count(36)
    numbers = [float(card.get_attribute("data-similarity")) for card in cards(tab).all()]
    slider = tab.locator("#threshold")
    slider.fill("1")
    slider.dispatch_event("change")
    expect(tab.locator("#empty")).to_contain_text("Nothing is that similar")
    tab.locator("#empty-button").click()
    expect(cards(tab)).to_have_count(36)
    middle = round((numbers[0] + numbers[-1]) / 2, 2)
    slider.fill(str(middle))
    expect(cards(tab)).to_have_count(sum(number >= middle for number in numbers))


def test_more_can_be_shown(open_page, shop):
    tab = open_page("?item=7")
    expect(cards(tab)).to_have_count(36)
    tab.locator("#more").click()
    expect(cards(tab)).to_have_count(len(shop) - 1)
    expect(tab.locator("#more")).to_be_hidden()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"\x89PNG\r\n\x1a\nbroken", "damaged|cannot be|not a picture"), (b"hello", "not a picture")],
)
def test_a_bad_file_gets_a_sentence_and_the_page_goes_on(
    open_page, picture, as_bytes, data, sentence
):
    tab = open_page()
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    upload(tab, data)
    expect(tab.locator("#error")).to_have_text(re.compile(sentence))
    assert tab.locator("#error").get_attribute("role") == "alert"
    upload(tab, as_bytes(picture()))
    expect(cards(tab)).to_have_count(36)
    expect(tab.locator("#error")).to_be_hidden()
    assert open_page.refusals[0] in (415, 422)
    open_page.expected += open_page.refusals


def test_a_bad_file_leaves_no_results_of_the_former_one(open_page):
    tab = open_page("?item=7")
    expect(cards(tab)).to_have_count(36)
    upload(tab, b"hello")
    expect(tab.locator("#error")).to_contain_text("not a picture")
    expect(cards(tab)).to_have_count(0)
    expect(tab.locator("#count")).to_have_text("")
    tab.go_back()
    expect(cards(tab)).to_have_count(36)
    open_page.expected += [415]


def test_the_most_that_can_be_shown_is_said(open_page):
    tab = open_page()
    answer = tab.request.get(f"{tab.url}api/about").json() | {"neighbours": 36}
    tab.route("**/api/about?", lambda route: route.fulfill(json=answer))
    tab.goto(f"{tab.url}?item=7")
    expect(tab.locator("#most")).to_contain_text("the 36 most similar")
    expect(tab.locator("#more")).to_be_hidden()


def test_files_that_will_not_do_are_not_even_sent(open_page, tmp_path):
    tab = open_page()
    expect(tab.locator("#about")).to_contain_text("54 pictures")
    upload(tab, b"text", "notes.txt", "text/plain")
    expect(tab.locator("#error")).to_contain_text("not a picture")
    with (tmp_path / "huge.png").open("wb") as huge:
        huge.truncate(21 * 2**20)
    tab.locator("#file").set_input_files(tmp_path / "huge.png")
    expect(tab.locator("#error")).to_contain_text("larger than 20 MB")


def test_a_picture_can_be_dropped_and_pasted(open_page, picture, as_bytes):
    tab = open_page()
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    deed = """([bytes, kind]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], `${kind}.png`, {type: "image/png"}));
        const event = kind === "paste"
            ? new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true})
            : new DragEvent(kind, {dataTransfer: transfer, bubbles: true, cancelable: true});
        document.body.dispatchEvent(event);
    }"""
    data = list(as_bytes(picture().resize((60, 60)), "JPEG"))
    tab.evaluate(deed, [data, "dragenter"])
    expect(tab.locator("#veil")).to_be_visible()
    tab.evaluate(deed, [data, "drop"])
    expect(tab.locator("#veil")).to_be_hidden()
    expect(tab.locator("#query-path")).to_have_text("drop.png")
    tab.evaluate(deed, [data, "paste"])
    expect(tab.locator("#query-path")).to_have_text("paste.png")
    expect(cards(tab)).to_have_count(36)


def test_a_reload_forgets_the_picture_and_says_so(open_page, picture, as_bytes):
    tab = open_page()
    upload(tab, as_bytes(picture()))
    expect(cards(tab)).to_have_count(36)
    tab.reload()
    expect(tab.locator("#error")).to_contain_text("choose it again")
    expect(cards(tab, "#opening-grid")).to_have_count(24)


def test_an_unknown_picture_is_an_error_with_a_way_out(open_page):
    tab = open_page("?item=4711")
    expect(tab.locator("#error")).to_contain_text("There is no picture 4711.")
    expect(tab.locator("#error button")).to_have_text("Try again")
    tab.locator("#home").click()
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    open_page.expected += open_page.refusals
    assert set(open_page.refusals) == {404}


def test_why_paints_both_pictures(open_page):
    tab = open_page("?item=7")
    cards(tab).first.hover()
    tab.locator(".ask-why").first.click()
    expect(tab.locator("#why-text")).to_contain_text("similarity is")
    expect(tab.locator("#pair")).not_to_have_attribute("aria-busy", "true")
    assert "adds most" in tab.locator("#why-query").get_attribute("aria-label")
    canvases = [tab.locator(name) for name in ("#why-query", "#why-neighbour")]
    painted = [canvas.screenshot() for canvas in canvases]
    tab.locator("#strength").fill("0")
    assert all(canvas.screenshot() != one for canvas, one in zip(canvases, painted, strict=True))
    tab.keyboard.press("Escape")
    expect(tab.locator("#why")).to_be_hidden()
    focused = "() => document.activeElement.className"
    assert tab.evaluate(focused) == "ask-why"


def test_why_works_for_an_upload(open_page, picture, as_bytes):
    tab = open_page()
    upload(tab, as_bytes(picture()))
    cards(tab).first.hover()
    tab.locator(".ask-why").first.click()
    expect(tab.locator("#why-text")).to_contain_text("similarity is")
    tab.locator("#why-go").click()
    expect(tab).to_have_url(re.compile(r"\?item=\d+$"))


def place_of(tab, client, row):
    """Where a picture lies on the screen, from what the API says."""
    found = client.get("/api/map").json()
    box = tab.locator("#canvas").bounding_box()
    sides = (box["width"] / 2 - 30, box["height"] / 2 - 24)
    farthest = [max(map(abs, found[axis])) for axis in "xy"]
    scale = min(side / reach for side, reach in zip(sides, farthest, strict=True))
    return (
        box["x"] + box["width"] / 2 + found["x"][row] * scale,
        box["y"] + box["height"] / 2 - found["y"][row] * scale,
    )


def test_the_map_shows_points_and_searches(open_page, client):
    tab = open_page("?view=map")
    expect(tab.locator("#canvas")).to_have_attribute("data-method", "t-sne", timeout=60_000)
    x, y = place_of(tab, client, 20)
    tab.mouse.move(x, y)
    expect(tab.locator("#hint")).to_be_visible()
    label = tab.locator("#hint-text").inner_text()
    tab.mouse.click(x, y)
    expect(tab).to_have_url(re.compile(r"\?item=\d+$"))
    expect(tab.locator("#query-label")).to_have_text(label)
    tab.go_back()
    expect(tab.locator("#canvas")).to_be_visible()


def test_the_map_by_keyboard(open_page):
    tab = open_page("?view=map")
    expect(tab.locator("#canvas")).to_have_attribute("data-method", "t-sne", timeout=60_000)
    tab.locator("#canvas").focus()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#hint")).to_be_visible()
    expect(tab.locator("#live")).to_contain_text("Enter searches")
    met = {tab.locator("#hint").get_attribute("href")}
    for key in ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "+", "ArrowLeft", "-"):
        tab.keyboard.press(key)
        met.add(tab.locator("#hint").get_attribute("href"))
    assert len(met) > 2
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile(r"\?item=\d+$"))


def test_the_map_by_touch(open_page, client):
    tab = open_page("?view=map", width=390, touch=True)
    expect(tab.locator("#canvas")).to_have_attribute("data-method", "t-sne", timeout=60_000)
    tab.touchscreen.tap(*place_of(tab, client, 20))
    tab.locator("#hint.tapped").tap()
    expect(tab).to_have_url(re.compile(r"\?item=\d+$"))


def test_the_keyboard_is_enough(open_page):
    tab = open_page()
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.className") == "skip"
    tab.locator("#file").focus()
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Tab")
    ring = "() => getComputedStyle(document.querySelector('#file + label')).outlineStyle"
    assert tab.evaluate(ring) == "solid"
    cards(tab, "#opening-grid").first.locator("a").focus()
    focused = "() => document.activeElement.closest('.card')?.dataset.id"
    tab.keyboard.press("ArrowRight")
    second = cards(tab, "#opening-grid").nth(1).get_attribute("data-id")
    assert tab.evaluate(focused) == second
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate(focused) not in (second, None)
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile(rf"\?item={second}$"))
    expect(tab.locator("#live")).to_contain_text("similar")
    expect(cards(tab)).to_have_count(36)
    assert tab.evaluate("() => document.activeElement.id") == "title"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.className") == "ask-why"
    tab.keyboard.press("Enter")
    expect(tab.locator("#why")).to_be_visible()
    tab.keyboard.press("Escape")


def test_colours_follow_the_button_and_stay(open_page):
    tab = open_page()
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.locator("#theme").click()
    assert tab.evaluate(paper) != light
    dark = tab.evaluate(paper)
    tab.reload()
    expect(cards(tab, "#opening-grid")).to_have_count(24)
    assert tab.evaluate(paper) == dark


@pytest.mark.parametrize("path", ["", "?item=3", "?view=map"])
def test_nothing_sticks_out_on_a_phone(open_page, path):
    tab = open_page(path, width=390, touch=True)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_a_filter_narrows_and_its_error_stands_under_it(open_page):
    tab = open_page("?item=7")
    expect(cards(tab)).to_have_count(36)
    chips = tab.locator("#columns button")
    expect(chips).to_have_text(["label", "path", "maker", "price"])
    chips.nth(3).click()
    expect(tab.locator("#where")).to_be_focused()
    expect(tab.locator("#where")).to_have_value("price ")
    tab.keyboard.type("< 20")
    tab.keyboard.press("Enter")
    expect(cards(tab)).to_have_count(18 - 1 if shown_price(tab) < 20 else 18)
    expect(tab).to_have_url(re.compile(r"where=price"))
    prices = tab.locator("#grid .facts dt:text-is('price') + dd").all_inner_texts()
    assert len(prices) > 10
    assert all(float(price) < 20 for price in prices)
    tab.locator("#where").fill("pric < 20")
    tab.locator("#apply").click()
    expect(tab.locator("#where-error")).to_have_text(
        re.compile("no picture has.*did you mean", re.I)
    )
    expect(tab.locator("#where")).to_have_attribute("aria-invalid", "true")
    expect(tab.locator("#error")).to_be_hidden()
    tab.locator("#unfilter").click()
    expect(cards(tab)).to_have_count(36)
    expect(tab.locator("#where-error")).to_be_hidden()
    open_page.expected += [422]


def test_a_link_with_a_bad_filter_still_shows_its_picture(open_page, shop):
    tab = open_page("?item=7&where=pric < 20")
    expect(tab.locator("#where-error")).to_be_visible()
    expect(tab.locator("#query-path")).to_have_text(shop.item(7).path)
    open_page.expected += [422]


@pytest.mark.parametrize("width", [1280, 390])
def test_all_of_a_long_filter_can_be_read(open_page, width):
    tab = open_page("?item=7&where=price < 50 and maker != 'maker of teal' and price > 5", width)
    expect(cards(tab).first).to_be_visible()
    field = tab.locator("#where")
    hidden = (
        "field => [field.scrollHeight - field.clientHeight, field.scrollWidth - field.clientWidth]"
    )
    assert field.evaluate(hidden) == [0, 0]
    lines = field.evaluate("field => field.clientHeight")
    field.fill("price < 50")
    assert field.evaluate("field => field.clientHeight") < lines


def shown_price(tab):
    return float(tab.locator("#query-facts dt:text-is('price') + dd").inner_text())


@pytest.mark.parametrize("width", [1280, 390])
def test_marks_move_the_search_and_can_be_undone(open_page, width):
    tab = open_page("?item=7", width=width, touch=width < 600)
    expect(cards(tab)).to_have_count(36)
    before = [card.get_attribute("data-id") for card in cards(tab).all()]

    def mark(place, kind):
        cards(tab).nth(place).hover()
        cards(tab).nth(place).locator(f".mark.{kind}").click()

    height = tab.evaluate("() => document.body.scrollHeight")
    mark(2, "right")
    mark(0, "wrong")
    expect(tab.locator("#marks-text")).to_have_text("1 right, 1 wrong")
    assert tab.evaluate("() => document.body.scrollHeight") == height  # nothing jumps
    mark(1, "wrong")
    tab.locator("#undo").click()
    expect(tab.locator("#marks-text")).to_have_text("1 right, 1 wrong")
    tab.locator("#again").click()
    expect(tab).to_have_url(re.compile(rf"right={before[2]}&wrong={before[0]}$"))
    expect(tab.locator("#refined-text")).to_contain_text("1 right, 1 wrong")
    after = [card.get_attribute("data-id") for card in cards(tab).all()]
    assert before[0] not in after
    assert after[0] == before[2]
    pressed = tab.locator(f'.card[data-id="{before[2]}"] .mark.right')
    expect(pressed).to_have_attribute("aria-pressed", "true")
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= width
    tab.locator("#forget").click()
    expect(tab.locator("#refined")).to_be_hidden()
    assert [card.get_attribute("data-id") for card in cards(tab).all()] == before
    tab.go_back()
    expect(tab.locator("#refined")).to_be_visible()


def test_an_upload_can_be_marked_and_filtered_too(open_page, picture, as_bytes):
    tab = open_page()
    upload(tab, as_bytes(picture("teal", "disc")))
    expect(cards(tab)).to_have_count(36)
    first = cards(tab).first.get_attribute("data-id")
    cards(tab).first.hover()
    cards(tab).first.locator(".mark.wrong").click()
    tab.locator("#where").fill("maker = 'maker of teal'")
    tab.locator("#again").click()
    expect(tab.locator("#refined")).to_be_visible()
    expect(tab).to_have_url(re.compile("where=maker"))  # what was typed counts
    expect(cards(tab)).to_have_count(17)
    assert first not in [card.get_attribute("data-id") for card in cards(tab).all()]
    tab.locator("#where").fill("maker = 'maker of amber'")
    tab.locator("#apply").click()
    expect(cards(tab)).to_have_count(18)
