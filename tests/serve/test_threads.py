"""What takes long does not keep searches waiting, and no thread outlives the server."""

import asyncio
import threading

import httpx
import numpy as np
import pytest

from lookalike.data.parallel import available_cores
from lookalike.search import Index
from lookalike.search.items import Record
from lookalike.serve.map import IndexMap
from lookalike.serve.pictures import Pictures
from lookalike.serve.server import create_app


@pytest.fixture
def index(tmp_path):
    """Four vectors without a model."""
    made = Index.create(tmp_path / "own.index", None, dim=4)
    made.commit([Record(str(number), "x") for number in range(4)], np.eye(4, dtype=np.float32))
    return made


@pytest.mark.parametrize(
    ("part", "method", "path"),
    [(Pictures, "tag", "/api/items/1/image"), (IndexMap, "layout", "/api/map")],
)
def test_searches_do_not_wait_for_pictures_or_the_map(index, monkeypatch, part, method, path):
    gate = threading.Event()

    async def scene():
        transport = httpx.ASGITransport(create_app(index), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            slow = [asyncio.ensure_future(client.get(path)) for _ in range(available_cores() + 1)]
            await asyncio.sleep(0.1)
            try:
                async with asyncio.timeout(20):
                    return (await client.get("/api/items/1/neighbours")).status_code
            finally:
                gate.set()
                await asyncio.gather(*slow)

    monkeypatch.setattr(part, method, lambda *_: gate.wait(60))
    assert asyncio.run(scene()) == 200


def test_the_threads_end_with_the_application(index):
    async def scene():
        asked = iter(["startup", "shutdown"])
        app = create_app(index)

        async def receive():
            return {"type": f"lifespan.{next(asked)}"}

        async def send(message):
            assert "failed" not in message["type"]

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/api/items/1/neighbours")).status_code == 200
        await app({"type": "lifespan"}, receive, send)

    before = set(threading.enumerate())
    asyncio.run(scene())
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        thread.join(10)
    assert [thread.name for thread in started if thread.is_alive()] == []
