"""The index changes while it is served."""

import threading
import time

import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index
from lookalike.search.items import Record
from tests.commands import run


def command(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr


def wait_for(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it did not come")


@pytest.fixture(scope="module")
def growing(tmp_path_factory, shop, picture, start):
    """An index of its own, its photos, and a server."""
    tmp_path = tmp_path_factory.mktemp("growing")
    photos = tmp_path / "photos"
    for label in ("disc", "square"):
        (photos / label).mkdir(parents=True)
        for number in range(5):
            picture("teal", label, number).save(photos / label / f"{number}.png")
    Index.create(tmp_path / "own.index", shop.embedder, photos)
    server = start([str(tmp_path / "own.index"), "--port", "0", "--log", "json", "--rate", "none"])
    return tmp_path / "own.index", photos, server


def test_additions_and_removals_are_seen_and_no_request_is_lost(growing, picture, as_bytes):
    place, photos, server = growing
    data, failures, stop, seen = as_bytes(picture()), [], threading.Event(), []

    def visit():
        with server.client() as client:
            while not stop.is_set():
                answer = client.post("/api/search", files={"image": data}, params={"k": 100})
                found = answer.json().get("neighbours", [])
                near = [one["similarity"] for one in found]
                if answer.status_code != 200 or near != sorted(near, reverse=True):
                    failures.append(answer.text)
                seen.append((answer.json()["generation"], len(found)))

    visitors = [threading.Thread(target=visit) for _ in range(2)]
    for visitor in visitors:
        visitor.start()
    with server.client() as client:

        def pictures():
            return client.get("/api/about").json()["pictures"]

        assert pictures() == 10
        before = client.get("/api/map").json()
        (photos / "stripes").mkdir()
        for number in range(3):
            picture("amber", "stripes", number).save(photos / "stripes" / f"{number}.png")
        command("index", "add", place, photos)
        wait_for(lambda: pictures() == 13)
        labels = client.get("/api/labels").json()
        assert {row["name"]: row["count"] for row in labels} == {
            "disc": 5,
            "square": 5,
            "stripes": 3,
        }
        found = client.post("/api/query", json={"plus": ["stripes"], "k": 3}).json()["neighbours"]
        assert {one["label"] for one in found} == {"stripes"}
        assert client.get(f"/api/items/{found[0]['id']}/image").status_code == 200
        after = client.get("/api/map").json()
        assert (len(before["ids"]), len(after["ids"])) == (10, 13)
        command("index", "remove", place, "--label", "stripes")
        wait_for(lambda: pictures() == 10)
        assert client.get(f"/api/items/{found[0]['id']}").status_code == 404
        text = client.get("/metrics").text
    stop.set()
    for visitor in visitors:
        visitor.join()
    assert failures == []
    for generation in {generation for generation, _ in seen}:
        counts = {count for of, count in seen if of == generation}
        assert len(counts) == 1  # one generation, one state
    assert "lookalike_index_pictures 10.0" in text
    assert 'lookalike_index_reloads_total{result="ok"} ' in text
    assert not any("Traceback" in line for line in server.said)


def test_a_request_keeps_the_state_that_it_began_with(tmp_path, shop):
    from lookalike.serve.collection import Collection
    from lookalike.serve.limits import Limits

    Index.create(tmp_path / "own.index", None, dim=4)
    other = Index.open(tmp_path / "own.index")
    other.commit([Record("a", "x", {"price": "5"})], np.eye(4, dtype=np.float32)[:1])
    collection = Collection(Index.open(tmp_path / "own.index"), Limits())
    view = collection.view
    other.commit([Record("b", "y")], np.eye(4, dtype=np.float32)[1:2])
    assert collection.refresh()
    assert not collection.refresh()
    assert (len(view.index), len(collection.view.index)) == (1, 2)
    assert (view.label_counts, collection.view.label_counts) == ({"x": 1}, {"x": 1, "y": 1})


def test_a_damaged_change_leaves_the_former_state(growing):
    place, _, server = growing
    good = (place / "index.json").read_bytes()
    draft = place / "draft"
    draft.write_bytes(good[: len(good) // 2])
    draft.replace(place / "index.json")
    wait_for(lambda: any("cannot be opened" in line for line in server.said))
    with server.client() as client:
        assert client.get("/api/items/3/neighbours").status_code == 200
        assert 'lookalike_index_reloads_total{result="failed"} 1.0' in client.get("/metrics").text


def test_an_index_without_a_model_is_searched_by_vector_and_id(tmp_path, start, browser):
    from playwright.sync_api import expect

    vectors = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(30):
        Image.new("RGB", (40, 40), (8 * number, 90, 120)).save(photos / f"{number}.png")
    index = Index.create(tmp_path / "own.index", None, dim=8)
    root = index.root_number(photos)
    index.commit([Record(f"{number}.png", root=root) for number in range(30)], vectors)
    server = start([str(tmp_path / "own.index"), "--port", "0"])
    with server.client() as client:
        about = client.get("/api/about").json()
        assert (about["network"], about["runtime"], about["dim"]) == (None, None, 8)
        found = client.post("/api/query", json={"vectors": [vectors[7].tolist()], "k": 1}).json()
        assert found["neighbours"][0]["path"] == "7.png"
        refused = client.post("/api/search", files={"image": (photos / "1.png").read_bytes()})
        assert (refused.status_code, "no model" in refused.text) == (422, True)
        assert client.post("/api/why", data={"item": 1, "neighbour": 2}).status_code == 422
    tab = browser.new_page()
    tab.goto(server.address)
    expect(tab.locator("#no-model")).to_be_visible()
    expect(tab.locator("#zone")).to_be_hidden()
    tab.locator("#opening-grid .card a").first.click()
    expect(tab.locator("#grid:not([aria-busy]) .card")).to_have_count(29)
    expect(tab.locator(".ask-why")).to_have_count(0)
    tab.close()
