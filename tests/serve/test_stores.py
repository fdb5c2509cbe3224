"""The application over other indexes: one in PostgreSQL, and one without pictures."""

import asyncio

import httpx
import pytest

from lookalike.search import Index
from lookalike.serve.server import create_app


def asked(index, scene):
    async def run():
        transport = httpx.ASGITransport(create_app(index))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await scene(client)

    return asyncio.run(run())


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

    theirs, ours = asked(stored, scene), asked(shop, scene)
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

    asked(Index.create(tmp_path / "empty.index", shop.embedder), scene)
