"""What a client and an operator are told when the server itself is at fault."""

import asyncio
from dataclasses import replace

import httpx
import numpy as np
import pytest

from lookalike.errors import LookalikeError
from lookalike.search import Index
from lookalike.search.items import Record
from lookalike.serve.application import Service, application
from lookalike.serve.collection import View
from lookalike.serve.limits import Limits, Options
from lookalike.serve.server import create_app
from lookalike.serve.tokens import Tokens


@pytest.fixture
def index(tmp_path):
    """Four vectors without a model."""
    made = Index.create(tmp_path / "own.index", None, dim=4)
    made.commit([Record(str(number), "x") for number in range(4)], np.eye(4, dtype=np.float32))
    return made


def asked(app, scene):
    """What ``scene`` returns of a client of ``app``."""

    async def run():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await scene(client)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("at /home/me"), 500), (LookalikeError("postgresql://me@db is silent"), 503)],
)
def test_a_fault_is_a_sentence_with_the_id_of_its_line_in_the_log(
    index, monkeypatch, caplog, error, status
):
    def fail(*_):
        raise error

    async def scene(client):
        answer = await client.get("/api/items/1/neighbours")
        return answer, (await client.get("/metrics")).text

    monkeypatch.setattr(View, "chosen", fail)
    answer, metrics = asked(create_app(index), scene)
    assert answer.status_code == status
    assert answer.headers["x-request-id"] in answer.json()["detail"]
    assert str(error) not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "lookalike_errors_total 1.0" in metrics
    assert str(error) in caplog.text


def test_probes_are_answered_by_a_server_that_has_too_many_requests(index):
    async def scene(client):
        paths = ("/health", "/ready", "/api/health", "/api/ready", "/api/labels")
        return [(await client.get(path)).status_code for path in paths]

    app = create_app(index, limits=replace(Limits(), requests=0))
    assert asked(app, scene) == [200, 200, 200, 200, 503]


def test_a_known_path_with_another_method_is_not_a_missing_page(index):
    async def scene(client):
        wrong = [await client.get("/api/query"), await client.post("/api/labels")]
        assert all(answer.json()["detail"] for answer in wrong)
        head = [await client.head(path) for path in ("/health", "/ready", "/")]
        missing = [await client.get(path) for path in ("/api/none", "/none", "/api/labels/")]
        return [[one.status_code for one in some] for some in (wrong, head, missing)]

    assert asked(create_app(index), scene) == [[405, 405], [200, 200, 200], [404, 404, 404]]


def test_a_label_that_is_new_in_the_database_does_not_fail_the_map(index):
    async def scene(client):
        return (await client.get("/api/map")).json()["labels"]

    options = Options(index.place, Limits(), Tokens())
    service = Service(index, options.limits)
    service.load()
    service.collection.view.__dict__["label_counts"] = {}  # as they were a second ago
    assert asked(application(service, options, None), scene) == [-1] * 4
    service.close()


def test_json_may_not_be_as_large_as_a_file(index):
    async def endless():
        for _ in range(20):
            yield b" " * 2**20

    async def scene(client):
        declared = await client.post("/api/query", content=bytes(5 * 2**20))
        counted = await client.post("/api/query", content=endless())
        return declared.status_code, counted.status_code

    assert asked(create_app(index), scene) == (413, 413)


def test_who_leaves_during_the_upload_is_not_counted_as_a_bad_request(index):
    app = create_app(index)
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
    text = app.state.metrics.text().decode()
    assert 'route="/api/search",status="499"} 1.0' in text
    assert 'status="400"' not in text
