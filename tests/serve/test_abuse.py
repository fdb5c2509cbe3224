"""What clients may not do: exhaust the server, guess tokens, or learn the database's password."""

import ast
import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

import lookalike.serve
from lookalike.search import Index
from lookalike.serve import gate, query
from lookalike.serve.application import application
from lookalike.serve.limits import EXAMPLES, FILTER_LENGTH, LABEL_LENGTH, Limits, Options
from lookalike.serve.server import server_config
from lookalike.serve.tokens import DEFAULT_RATE, Rate, Tokens
from tests.conftest import PLAIN, SECRET
from tests.serve.conftest import ask

CLIENT = ("192.0.2.1", 1)
OTHER = ("192.0.2.2", 1)


def statuses(*requests):
    """A scene of requests: their statuses."""

    async def scene(client):
        answers = [await client.request(*one[:2], **one[2]) for one in requests]
        return [answer.status_code for answer in answers]

    return scene


@pytest.fixture
def make(shop):
    """An application and its service, without rates unless they are given."""
    services = []

    def made(index=shop, **options):
        app = application(index, Options(index.address, **{"rate": None} | options))
        services.append(app.state.service)
        return app, app.state.service

    yield made
    for service in services:
        service.close()


def test_the_pixels_of_a_request_are_bounded_together(make, as_bytes):
    limits = replace(Limits(), pixels=10_000, request_pixels=25_000)
    app, _ = make(limits=limits)
    data = as_bytes(Image.new("RGB", (100, 100)))

    def upload(count):
        return ("POST", "/api/search", {"files": [("image", data)] * count})

    assert ask(app, statuses(upload(1), upload(2), upload(3))) == [200, 200, 413]


def test_the_pixels_of_all_requests_at_work_are_bounded(make, as_bytes):
    app, service = make(limits=replace(Limits(), working_pixels=30_000))
    files = {"image": as_bytes(Image.new("RGB", (100, 100)))}

    async def scene(client):
        with service.pixels.slot(25_000):  # others are decoding
            busy = await client.post("/api/search", files=files)
        return busy, await client.post("/api/search", files=files)

    busy, later = ask(app, scene)
    assert (busy.status_code, later.status_code) == (429, 200)
    assert busy.headers["retry-after"]
    assert service.pixels.held == 0


def test_the_limits_admit_any_single_request():
    limits = Limits()
    assert limits.pixels <= limits.request_pixels <= limits.working_pixels


def test_json_is_parsed_by_a_thread(make, shop, monkeypatch):
    app, _ = make()
    threads, parse = [], query.parse

    def noted(*given):
        threads.append(threading.current_thread().name)
        return parse(*given)

    monkeypatch.setattr(query, "parse", noted)
    body = {"vectors": [[1.0] * shop.dim], "k": 3}
    wrong = {"content": b"{", "headers": {"content-type": "application/json"}}
    text = {"content": b"{}", "headers": {"content-type": "text/plain"}}
    found = ask(
        app,
        statuses(
            ("POST", "/api/query", {"json": body}),
            ("POST", "/api/query", wrong),
            ("POST", "/api/query", text),
            ("POST", "/api/query", {"json": body | {"k": "many"}}),
        ),
    )
    assert found == [200, 422, 422, 422]
    assert {name.rpartition("-")[0] for name in threads} == {"parsing"}


def posted(body):
    """The answer to a search whose body is this text."""

    async def scene(client):
        headers = {"content-type": "application/json"}
        return await client.post("/api/query", content=body.encode(), headers=headers)

    return scene


@pytest.mark.parametrize(
    "body",
    [
        "{" + ",".join(f'"k{number}":1' for number in range(300_000)) + "}",
        '{"items":[' + ",".join(["[]"] * 1_000_000) + "]}",
        '{"vectors":[' + ",".join(['["x"]'] * 600_000) + "]}",
    ],
    ids=["keys", "empty lists", "short lists"],
)
def test_json_of_many_parts_is_refused_before_it_is_parsed(make, body):
    """Their parser lets no other thread go on for more than a second."""
    app, _ = make()
    assert len(body) < Limits().json_bytes
    answer = ask(app, posted(body))
    assert (answer.status_code, "too many lists and keys" in answer.text) == (422, True)


def test_labels_of_brackets_are_no_parts_too_many():
    labels = ["[" * LABEL_LENGTH] * EXAMPLES
    given = {"plus": labels, "minus": labels, "label": labels[0], "where": "[" * FILTER_LENGTH}
    assert query.parse(json.dumps(given).encode(), "application/json").plus == labels


BLOCKING = {
    *("open", "sleep", "flock", "acquire", "join", "result", "read_text", "read_bytes", "stat"),
    *("loads", "model_validate_json", "seek", "unlink", "generate_latest", "text"),
}


@pytest.mark.parametrize(
    "path", sorted(Path(lookalike.serve.__file__).parent.glob("*.py")), ids=lambda path: path.stem
)
def test_no_coroutine_calls_what_blocks(path):
    """In an ``async def`` itself; what it hands to a thread is named there, not called."""
    found = []

    def look(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.AsyncFunctionDef):
                look(child, True)
            elif isinstance(child, ast.FunctionDef | ast.Lambda):
                look(child, False)
            else:
                if inside and isinstance(child, ast.Call):
                    name = getattr(child.func, "attr", getattr(child.func, "id", ""))
                    whole = ast.unparse(child.func)
                    if name in BLOCKING and not whole.startswith(("asyncio.", "'")):
                        found.append(whole)
                if inside and isinstance(child, ast.With) and "lock" in ast.unparse(child.items[0]):
                    found.append(ast.unparse(child.items[0]))
                look(child, inside)

    look(ast.parse(path.read_text()), False)
    assert found == []


def test_there_is_a_rate_unless_it_is_switched_off(make):
    assert Options("x", Limits(), Tokens()).rate == DEFAULT_RATE == Rate(50.0, 50.0)
    app, _ = make(rate=Rate.parse("2/h"))
    filtered = ("GET", "/api/items", {"params": {"where": "price < 50"}})
    health, picture = ("GET", "/health", {}), ("GET", "/api/items/1/image", {})
    scene = statuses(filtered, ("GET", "/api/items/1/neighbours", {}), filtered, health, picture)
    assert ask(app, scene) == [200, 200, 429, 200, 200]
    assert ask(app, statuses(filtered), OTHER) == [200]  # each address has its own


def test_addresses_of_one_network_of_ipv6_count_together(make):
    app, _ = make(rate=Rate.parse("1/h"))
    listed = ("GET", "/api/items", {})
    assert ask(app, statuses(listed), ("2001:db8::1", 1)) == [200]
    assert ask(app, statuses(listed), ("2001:db8::ffff:2", 1)) == [429]
    assert ask(app, statuses(listed), ("2001:db8:0:1::1", 1)) == [200]


def test_one_filter_looks_at_all_pictures_at_a_time(make):
    app, service = make(limits=replace(Limits(), filters=2))
    free = threading.Event()
    filtered = ("GET", "/api/items", {"params": {"where": "price < 50"}})

    async def scene(client):
        waiting = [asyncio.ensure_future(service.filters.run(free.wait, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        try:
            return await statuses(filtered, ("GET", "/api/items", {}))(client)
        finally:
            free.set()
            await asyncio.gather(*waiting)

    assert ask(app, scene) == [429, 200]
    assert ask(app, statuses(filtered)) == [200]


def test_wrong_tokens_are_throttled_by_address(make, monkeypatch):
    monkeypatch.setattr(gate, "WRONG_TOKENS", Rate(per_second=10 / 3600, burst=10.0))
    app, _ = make(tokens=Tokens.of([("me", "right-token")]))

    def by(token):
        return ("GET", "/api/about", {"headers": {"authorization": f"Bearer {token}"}})

    none = ("GET", "/api/about", {})
    guesses = [by(f"wrong-{number}") for number in range(12)]
    assert ask(app, statuses(*[none] * 20)) == [401] * 20  # who has none guesses nothing
    assert ask(app, statuses(*guesses)) == [401] * 10 + [429] * 2
    assert ask(app, statuses(by("right-token"))) == [429]  # or a guess would show
    assert ask(app, statuses(("GET", "/?token=wrong", {}), ("GET", "/health", {}))) == [429, 200]
    assert ask(app, statuses(by("right-token")), OTHER) == [200]


@pytest.mark.parametrize(
    ("proxies", "address", "secure"),
    [
        ("192.0.2.1", CLIENT, True),
        ("192.0.2.0/24,10.1.2.3", CLIENT, True),
        ("10.1.2.3", CLIENT, False),
        ("", CLIENT, False),
    ],
)
def test_the_cookie_is_secure_behind_a_trusted_proxy(make, proxies, address, secure):
    app, _ = make(tokens=Tokens.of([("me", "right-token")]), rate=Rate.parse("1/h"))
    config = server_config(app, Options("x", proxies=proxies))
    config.load()

    async def scene(client):
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.5"}
        return await client.get("/?token=right-token", headers=forwarded)

    answer = ask(config.loaded_app, scene, address)
    assert answer.status_code == 303
    assert ("Secure" in answer.headers["set-cookie"]) == secure
    assert "HttpOnly" in answer.headers["set-cookie"]


def test_the_address_that_a_trusted_proxy_names_is_the_one_that_is_counted(make):
    app, _ = make(rate=Rate.parse("1/h"))
    config = server_config(app, Options("x", proxies="192.0.2.1"))
    config.load()
    first, second = ({"headers": {"x-forwarded-for": f"203.0.113.{end}"}} for end in (5, 6))
    scene = statuses(*(("GET", "/api/items", given) for given in (first, first, second)))
    assert ask(config.loaded_app, scene, CLIENT) == [200, 429, 200]


def test_a_folder_that_another_process_has_added_is_no_error(
    make, postgres, shop, tmp_path, picture
):
    place = f"{postgres}#roots"
    for name in ("first", "second"):
        (tmp_path / name / "a").mkdir(parents=True)
        picture("teal", "disc", len(name)).save(tmp_path / name / "a" / "0.png")
    served = Index.create(place, shop.embedder, tmp_path / "first")
    app, _ = make(served, limits=replace(Limits(), reload_seconds=10_000.0))
    Index.open(place).add(tmp_path / "second")
    new = max(Index.open(place).ids_where(None).tolist())
    assert ask(app, statuses(("GET", f"/api/items/{new}/image", {}))) == [200]


@pytest.mark.parametrize("form", [0, 1])
def test_no_route_and_no_page_shows_the_password(make, keyed, shop, shop_folder, form, caplog):
    place = f"{keyed[form]}#routes{form}"
    Index.create(place, shop.embedder, shop_folder / "photos" / "shop.csv")
    app, _ = make(Index.open(place))

    async def scene(client):
        paths = (await client.get("/api/openapi.json")).json()["paths"]
        answers = [
            await client.request(method, path.replace("{id}", "1"), params={"where": "price < 9"})
            for path, methods in paths.items()
            for method in methods
        ]
        pages = ["/", "/index.html", "/app.js", "/metrics", "/health", "/nowhere"]
        return [*answers, *[await client.get(page) for page in pages]]

    answers = ask(app, scene)
    assert len(answers) > 15
    shown = "".join(f"{answer.text}{answer.headers}" for answer in answers) + caplog.text
    for part in (SECRET, PLAIN, "hunter2"):
        assert part not in shown
    about = next(answer for answer in answers if answer.url.path == "/api/about").json()
    assert about["name"] == f"routes{form}"


def test_workers_get_the_password_and_nobody_else_sees_it(start, keyed, shop, shop_folder):
    place = f"{keyed[0]}#workers"
    Index.create(place, shop.embedder, shop_folder / "photos" / "shop.csv")
    server = start([place, "--port", "0", "--workers", "2"])
    with server.client() as client:
        assert client.get("/api/items/1/neighbours").status_code == 200
        told = client.get("/api/about").text
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in children.split()]
    assert len(lines) >= 2
    assert "hunter2" not in told + "".join(server.said) + "".join(lines)
