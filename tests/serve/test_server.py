"""The server as a process, asked over the loopback."""

import re
import socket
import threading
from itertools import pairwise
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from lookalike.errors import BadInput
from lookalike.inference.encoder import Encoder
from lookalike.serve.server import bind, create_app

PROGRAM = """
import sys
from dataclasses import replace
from lookalike.cli import main
from lookalike.serve import server
from lookalike.serve.limits import Limits
few = replace(Limits(), request_seconds=1.5, upload_bytes=200_000)
serve = server.serve
server.serve = lambda index, options, **more: serve(index, replace(options, limits=few), **more)
sys.argv = ["lookalike", "serve", {index!r}, "--port", "0", "--token", {token!r}]
sys.argv += ["--runtime", "onnx"]
main()
"""
TOKEN = "a secret of this test"


@pytest.fixture(scope="module")
def guarded(start, shop_folder):
    """A server with a token, little patience and ONNX Runtime."""
    return start(program=PROGRAM.format(index=str(shop_folder / "shop.index"), token=TOKEN))


@pytest.fixture(scope="module")
def send(picture, as_bytes):
    def sent(client, data=None, **params):
        files = {"image": ("mine.png", as_bytes(picture()) if data is None else data)}
        return client.post("/api/search", files=files, params=params)

    return sent


def exact(shop, vector, rows):
    """Ids by similarity, computed in the plainest way."""
    order = sorted(rows, key=lambda row: -float(np.dot(shop.vectors[row], vector)))
    return [int(shop.ids[row]) for row in order]


def test_an_upload_finds_what_exact_search_finds(client, send, shop, picture):
    (vector,) = shop.embedder.embed([picture()])
    found = send(client, k=7).json()["neighbours"]
    assert [near["id"] for near in found] == exact(shop, vector, range(len(shop)))[:7]
    assert found[0]["similarity"] == pytest.approx(
        max(float(np.dot(row, vector)) for row in shop.vectors), abs=1e-4
    )
    assert all(a["similarity"] >= b["similarity"] for a, b in pairwise(found))


def test_an_indexed_picture_finds_itself_when_sent_and_not_when_asked(client, send, shop):
    data = shop.file_of(11).read_bytes()
    first = send(client, data, k=1).json()["neighbours"][0]
    assert first["id"] == 11
    assert first["similarity"] == pytest.approx(1, abs=1e-3)
    found = client.get("/api/items/11/neighbours", params={"k": 200}).json()["neighbours"]
    assert [near["id"] for near in found] == exact(
        shop, shop.vectors[11], [row for row in range(len(shop)) if row != 11]
    )


def test_label_and_threshold_narrow_the_answer(client, send, shop):
    label = "indigo disc"
    found = send(client, k=200, label=label).json()["neighbours"]
    assert {near["label"] for near in found} == {label}
    assert len(found) == 6
    middle = (found[2]["similarity"] + found[3]["similarity"]) / 2
    kept = send(client, k=200, label=label, at_least=middle).json()["neighbours"]
    assert [near["id"] for near in kept] == [near["id"] for near in found[:3]]
    refused = send(client, label="purple")
    assert refused.status_code == 422
    assert "purple" in refused.json()["detail"]


def test_items_labels_and_about(client, shop):
    assert client.get("/api/about").json()["pictures"] == len(shop)
    labels = client.get("/api/labels").json()
    assert {row["name"]: row["count"] for row in labels} == dict.fromkeys(shop.label_names, 6)
    item = client.get("/api/items/5").json()
    assert (item["path"], item["label"]) == (shop.item(5).path, shop.item(5).label)
    pages = [
        client.get("/api/items", params={"seed": 3, "limit": 30, "offset": offset}).json()
        for offset in (0, 30)
    ]
    drawn = [item["id"] for page in pages for item in page["items"]]
    assert sorted(drawn) == sorted(shop.ids.tolist())
    assert drawn != sorted(drawn)
    only = client.get("/api/items", params={"label": "teal disc"}).json()
    assert only["total"] == 6


def test_pictures_come_small_and_are_not_sent_twice(client):
    answer = client.get("/api/items/3/image", params={"size": "tiny"})
    assert answer.headers["content-type"] == "image/jpeg"
    again = client.get(
        "/api/items/3/image",
        params={"size": "tiny"},
        headers={"If-None-Match": answer.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")


def test_why_tells_where_the_similarity_comes_from(client, send, shop, picture, as_bytes):
    found = client.post("/api/why", data={"item": "4", "neighbour": "9"}).json()
    assert found["similarity"] == pytest.approx(
        float(np.dot(shop.vectors[4], shop.vectors[9])), abs=1e-4
    )
    cells = np.array(found["query"]["shares"])
    assert cells.shape[0] == cells.shape[1] > 4
    assert cells.sum() == pytest.approx(found["similarity"], abs=0.15)
    sent = client.post(
        "/api/why", data={"neighbour": "9"}, files={"image": as_bytes(picture())}
    ).json()
    near = send(client, k=200).json()["neighbours"]
    (same,) = [one["similarity"] for one in near if one["id"] == 9]
    assert sent["similarity"] == pytest.approx(same, abs=1e-4)
    assert client.post("/api/why", data={"neighbour": "9"}).status_code == 422
    assert client.post("/api/why", data={"neighbour": "9", "item": "999"}).status_code == 404


def test_the_map_has_every_picture(client, shop):
    found = client.get("/api/map").json()
    assert found["ids"] == shop.ids.tolist()
    assert len(found["x"]) == len(found["y"]) == len(found["labels"]) == len(shop)
    assert [found["label_names"][code] for code in found["labels"]] == list(shop.labels)


@pytest.mark.parametrize(
    "path",
    [
        "/api/items/../../../../etc/passwd",
        "/api/items/%2e%2e%2fsecret.png/image",
        "/..%2f..%2fsecret.png",
        "/%2e%2e/%2e%2e/pyproject.toml",
        "/../server.py",
        "/serving/api.py",
        "/web/../server.py",
        "//etc/passwd",
        "/api/items/54/image",
        "/api/items/-1/image",
        "/api/items/1e3/image",
        "/api/items/99999999999999999999999/image",
        "/docs",
        "/app.js%00.png",
    ],
)
def test_only_indexed_pictures_are_served(server, path):
    """Asked with a bare socket, because clients tidy addresses up."""
    place = urlsplit(server.address)
    with socket.create_connection((place.hostname, place.port), 10) as line:
        request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n"
        line.sendall(request.encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert re.match(rb"HTTP/1.1 4\d\d", answer), answer[:200]
    assert b'{"detail":' in answer


def test_bad_files_get_a_sentence(client, send, picture, as_bytes):
    whole = as_bytes(picture())
    for data, status in ((b"hello", 415), (b"", 422), (whole[:2000], 422)):
        answer = send(client, data)
        assert answer.status_code == status
        assert re.fullmatch(r"[A-Z].*\.", answer.json()["detail"])
    bomb = as_bytes(Image.new("1", (20_000, 20_000)))
    assert len(bomb) < 100_000
    assert send(client, bomb).status_code == 413
    assert send(client, bytes(21 * 2**20)).status_code == 413


def test_a_long_decoding_does_not_keep_others_waiting(server, send, as_bytes):
    large = as_bytes(Image.linear_gradient("L").resize((7000, 7000)), "JPEG")
    ended = []

    def upload():
        with server.client() as client:
            ended.append(("search", send(client, large, k=1).status_code))

    slow = threading.Thread(target=upload)
    with server.client() as client:
        client.get("/api/health")
        slow.start()
        for _ in range(3):
            ended.append(("health", client.get("/api/health").status_code))
    slow.join()
    assert ended == [*[("health", 200)] * 3, ("search", 200)]


def test_long_answers_are_compressed_and_pictures_are_not(client):
    for path, packed in (("/api/openapi.json", "gzip"), ("/api/items/1/image?size=large", None)):
        answer = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.headers.get("content-encoding")) == (200, packed)
    plain = client.get("/api/openapi.json", headers={"Accept-Encoding": "identity"})
    assert int(plain.headers["content-length"]) == len(plain.content) > 2_000


def test_bodies_of_unknown_length_are_counted(client):
    def endless():
        yield b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
        for _ in range(30):
            yield bytes(2**20)

    answer = client.post(
        "/api/search",
        content=endless(),
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )
    assert answer.status_code == 413


def test_headers_guard_the_page(client):
    for path in ("/", "/app.js", "/api/about", "/api/items/1/image", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_the_page_asks_no_other_address(client):
    names = ("app.js", "api.js", "cards.js", "map.js", "why.js", "style.css")
    for name in ("", *names):
        text = client.get(f"/{name}").text
        assert not re.search(r"""(https?:)?//[a-z0-9-]+\.[a-z]""", text), name


def test_other_names_and_other_sites_are_refused(client):
    assert client.get("/api/about", headers={"Host": "evil.example"}).status_code == 400
    for good in ("localhost", "127.0.0.1:80", "[::1]:8000"):
        assert client.get("/api/about", headers={"Host": good}).status_code == 200
    answer = client.post(
        "/api/why", data={"item": 1, "neighbour": 2}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 403


def test_nothing_is_answered_without_the_token(guarded, send):
    with guarded.client() as stranger:
        for path in ("/", "/app.js", "/api/about", "/api/items/1/image", "/api/openapi.json"):
            answer = stranger.get(path)
            assert (answer.status_code, "token" in answer.text) == (401, True)
        assert send(stranger).status_code == 401
        assert stranger.get("/api/about", params={"token": "wrong"}).status_code == 401
        assert stranger.get("/api/health").json() == {"status": "ok"}


def test_a_browser_without_the_token_gets_a_field_for_it(guarded):
    browser = {"Accept": "text/html,application/xhtml+xml"}
    with guarded.client() as stranger:
        answer = stranger.get("/", headers=browser)
        assert answer.status_code == 401
        assert 'name="token"' in answer.text
        assert "form-action 'self'" in answer.headers["content-security-policy"]
        assert "not its token" not in answer.text
        wrong = stranger.get("/", params={"token": "wrong-token"}, headers=browser)
        assert "not its token" in wrong.text
        assert "wrong-token" not in wrong.text
        assert stranger.get("/style.css").status_code == 200
        assert stranger.get("/app.js").status_code == 401


def test_the_token_opens_by_header_and_by_address(guarded, send):
    with guarded.client(headers={"Authorization": f"Bearer {TOKEN}"}) as known:
        assert send(known, k=1).status_code == 200
    with guarded.client() as visitor:
        answer = visitor.get("/", params={"token": TOKEN, "item": "3"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/?item=3")
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert visitor.get("/api/about").status_code == 200  # by the cookie
    line, place = connected(guarded)
    escaped = TOKEN.replace(" ", "%20")
    line.sendall(
        f"GET //evil.example/?token={escaped} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    )
    assert b"\r\nlocation: /evil.example/\r\n" in line.recv(4000)


def connected(server):
    place = urlsplit(server.address)
    line = socket.create_connection((place.hostname, place.port), 10)
    line.settimeout(20)
    return line, place


def test_a_slow_upload_is_dropped(guarded):
    line, place = connected(guarded)
    head = (
        f"POST /api/search HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x"
    )
    line.sendall(head.encode())
    answer = line.recv(1000)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"too long" in answer + line.recv(1000)


def test_a_small_limit_on_uploads_holds(guarded, send):
    with guarded.client(headers={"Authorization": f"Bearer {TOKEN}"}) as known:
        assert send(known, bytes(300_000)).status_code == 413
        assert send(known, bytes(210_000)).status_code == 413


def test_openapi_describes_every_route_and_refusal(client):
    found = client.get("/api/openapi.json").json()
    assert set(found["paths"]) >= {
        "/api/search", "/api/why", "/api/map", "/api/labels", "/api/items", "/api/items/{id}",
        "/api/items/{id}/neighbours", "/api/items/{id}/image", "/api/health", "/api/about",
        "/api/query", "/api/ready", "/metrics",
    }  # fmt: skip
    for methods in found["paths"].values():
        for route in methods.values():
            assert set(route["responses"]) - {"304"} == {"200", "4XX", "503"}
            problem = route["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"]
            assert problem.endswith("/Problem")


def test_a_taken_port_is_refused(server):
    with pytest.raises(BadInput, match="--port"):
        bind("127.0.0.1", urlsplit(server.address).port)


def test_onnx_gives_the_same_answers(guarded, server, send):
    known = {"Authorization": f"Bearer {TOKEN}"}
    with server.client() as torch_client, guarded.client(headers=known) as onnx_client:
        assert onnx_client.get("/api/about").json()["runtime"] == "onnx"
        ours = send(torch_client, k=20).json()["neighbours"]
        theirs = send(onnx_client, k=20).json()["neighbours"]
    assert [near["id"] for near in ours] == [near["id"] for near in theirs]
    for one, two in zip(ours, theirs, strict=True):
        assert one["similarity"] == pytest.approx(two["similarity"], abs=1e-4)
    assert not any("Traceback" in line for line in guarded.said)


def test_an_encoder_of_another_model_is_refused(shop):
    class Stranger(Encoder):
        def run(self, batch):
            return batch

    embedder = shop.embedder
    with pytest.raises(BadInput, match="another model"):
        create_app(shop, encoder=Stranger(embedder.preset, embedder.normalisation, 4, "other"))
