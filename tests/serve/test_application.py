"""The application in this process: faults, limits, threads, and indexes of other kinds."""

import asyncio
import re
import threading
from dataclasses import replace

import pytest

from lookalike.data.parallel import available_cores
from lookalike.errors import LookalikeError
from lookalike.search import Index
from lookalike.serve.collection import View
from lookalike.serve.limits import Limits
from lookalike.serve.map import IndexMap
from lookalike.serve.monitoring import prometheus_text
from lookalike.serve.pictures import Pictures
from lookalike.serve.server import create_app
from tests.serve.conftest import ask


def ask_once(app, scene):
    """As :func:`ask`, after which the application looks for changes of its index no longer."""
    try:
        return ask(app, scene)
    finally:
        app.state.service.close()


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("at /home/me"), 500), (LookalikeError("postgresql://me@db is silent"), 503)],
)
def test_a_fault_is_a_sentence_with_the_id_of_its_line_in_the_log(
    bare, monkeypatch, caplog, error, status
):
    def fail(*_):
        raise error

    async def scene(client):
        answer = await client.get("/api/items/1/neighbours")
        return answer, (await client.get("/metrics")).text

    def errors(text):
        return float(re.search(r"^lookalike_errors_total (.*)$", text, re.M)[1])

    former = errors(prometheus_text({}, 0.0).decode())

    monkeypatch.setattr(View, "chosen", fail)
    answer, metrics = ask_once(create_app(bare), scene)
    assert answer.status_code == status
    assert answer.headers["x-request-id"] in answer.json()["detail"]
    assert str(error) not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)
    assert errors(metrics) == former + 1
    assert str(error) in caplog.text


def test_probes_are_answered_by_a_server_that_has_too_many_requests(bare):
    async def scene(client):
        paths = ("/health", "/ready", "/api/health", "/api/ready", "/api/labels")
        return [(await client.get(path)).status_code for path in paths]

    app = create_app(bare, limits=replace(Limits(), requests=0))
    assert ask(app, scene) == [200, 200, 200, 200, 503]


def test_a_known_path_with_another_method_is_not_a_missing_page(bare):
    async def scene(client):
        wrong = [await client.get("/api/query"), await client.post("/api/labels")]
        assert all(answer.json()["detail"] for answer in wrong)
        head = [await client.head(path) for path in ("/health", "/ready", "/")]
        missing = [await client.get(path) for path in ("/api/none", "/none", "/api/labels/")]
        assert all(answer.json()["detail"] for answer in missing)
        page = await client.get("/none", headers={"Accept": "text/html"})
        assert (page.status_code, "no such page" in page.text) == (404, True)
        return [[one.status_code for one in some] for some in (wrong, head, missing)]

    assert ask_once(create_app(bare), scene) == [[405, 405], [200, 200, 200], [404, 404, 404]]


def test_a_label_that_is_new_in_the_database_does_not_fail_the_map(bare):
    async def scene(client):
        return (await client.get("/api/map")).json()["labels"]

    app = create_app(bare)
    app.state.service.collection.view.__dict__["label_counts"] = {}  # as they were a second ago
    assert ask(app, scene) == [-1] * 4


def test_json_may_not_be_as_large_as_a_file(bare):
    async def endless():
        for _ in range(20):
            yield b" " * 2**20

    async def scene(client):
        declared = await client.post("/api/query", content=bytes(5 * 2**20))
        counted = await client.post("/api/query", content=endless())
        return declared.status_code, counted.status_code

    assert ask_once(create_app(bare), scene) == (413, 413)


def test_who_leaves_during_the_upload_is_not_counted_as_a_bad_request(bare):
    app = create_app(bare)
    scope = {
        "type": "http", "method": "POST", "path": "/api/search", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"multipart/form-data; boundary=x")],
    }  # fmt: skip
    messages = [{"type": "http.request", "body": b"--x", "more_body": True}]

    async def receive():
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(_):
        pass

    asyncio.run(app(scope, receive, send))
    text = prometheus_text({}, 0.0).decode()
    assert 'seconds_count{method="POST",route="/api/search",status="499"} 1.0' in text
    assert 'route="/api/search",status="400"' not in text


@pytest.mark.parametrize(
    ("part", "method", "path"),
    [(Pictures, "tag", "/api/items/1/image"), (IndexMap, "layout", "/api/map")],
)
def test_searches_do_not_wait_for_pictures_or_the_map(bare, monkeypatch, part, method, path):
    gate = threading.Event()

    async def scene(client):
        slow = [asyncio.ensure_future(client.get(path)) for _ in range(available_cores() + 1)]
        await asyncio.sleep(0.1)
        try:
            async with asyncio.timeout(20):
                return (await client.get("/api/items/1/neighbours")).status_code
        finally:
            gate.set()
            await asyncio.gather(*slow)

    monkeypatch.setattr(part, method, lambda *_: gate.wait(60))
    assert ask_once(create_app(bare), scene) == 200


def test_the_threads_end_with_the_application(bare):
    async def scene(client):
        asked = iter(["startup", "shutdown"])

        async def receive():
            return {"type": f"lifespan.{next(asked)}"}

        async def send(message):
            assert "failed" not in message["type"]

        assert (await client.get("/api/items/1/neighbours")).status_code == 200
        await app({"type": "lifespan"}, receive, send)

    before = set(threading.enumerate())
    app = create_app(bare)
    ask(app, scene)
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        thread.join(10)
    assert [thread.name for thread in started if thread.is_alive()] == []


@pytest.fixture(scope="module")
def stored(postgres, shop_folder, shop):
    return Index.create(postgres + "#shop", shop.embedder, shop_folder / "photos")


def test_an_index_in_postgresql_answers_as_the_folder_does(stored, shop, picture, as_bytes):
    async def scene(client):
        image = {"image": as_bytes(picture())}
        return [
            (await client.post("/api/search", files=image, params={"k": 9})).json()["neighbours"],
            (await client.get("/api/labels")).json(),
            (await client.get("/api/items", params={"limit": 5})).json(),
            (await client.get("/api/map")).json()["label_names"],
            (await client.get("/api/about")).json()["name"],
            (await client.get("/api/items/9999")).status_code,
        ]

    theirs, ours = (ask_once(create_app(one), scene) for one in (stored, shop))
    assert [near["path"] for near in theirs[0]] == [near["path"] for near in ours[0]]
    assert theirs[1] == ours[1]
    assert [item["path"] for item in theirs[2]["items"]] == [i["path"] for i in ours[2]["items"]]
    assert theirs[3:] == ours[3:]
    assert theirs[4:] == ["shop", 404]


def test_an_empty_index_answers_with_nothing(tmp_path, shop, picture, as_bytes):
    async def scene(client):
        found = await client.post("/api/search", files={"image": as_bytes(picture())})
        assert found.json()["neighbours"] == []
        assert (await client.get("/api/items")).json() == {"items": [], "total": 0}
        assert (await client.get("/api/labels")).json() == []
        assert (await client.get("/api/map")).json()["ids"] == []
        assert (await client.get("/")).status_code == 200

    ask_once(create_app(Index.create(tmp_path / "empty.index", shop.embedder)), scene)
