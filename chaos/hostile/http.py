"""A real server under requests that no browser sends."""

import ctypes
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.images import corpus
from chaos.hostile.mutation import mutated
from lookalike.search import Embedder, Index

__all__ = ["Requests"]

PATHS = (
    *(
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fsecret.png",
        "//etc/passwd",
        "/\\..\\x",
    ),
    *(
        "/api/items/../../x",
        "/api/items/1/image?size=99999",
        "/api/items/-1",
        "/api/items/1e9",
        "/%00",
    ),
    *(
        "/api/items/9223372036854775808",
        "/api/items/NaN/neighbours",
        "/api/items/0/neighbours?k=1e9",
    ),
    *(
        "/api/items?label=%27%3Bdrop",
        "/api/items?limit=-1",
        "/api/items?offset=1e30",
        "/api/" * 500,
    ),
    *(
        "/static/../server.py",
        "/index.html%00.png",
        "/%ff%fe",
        "*",
        "http://evil.example/",
        "/?" + "a" * 9999,
    ),
    *("/api/items/0/neighbours?where=price%20%3C%201%20or%20(select%201)", "/api/map", "/metrics"),
    *(
        "/api/items/0/image?size=0",
        "/api/items/0/image?size=-5",
        "/api/items/1/neighbours?label=%FF",
    ),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 300)
HEADERS = (
    "Host: evil.example", "Content-Length: -1", "Content-Length: 99999999999", "Content-Length: x",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
    "X: " + "a" * 70_000, "Range: bytes=0-99999999999", "Cookie: " + "a=b; " * 2000, "A\0B: c",
    "If-None-Match: " + '"x",' * 1000, "Content-Type: multipart/form-data", "Bad header", ": x",
    "Content-Type: multipart/form-data; boundary=" + "x" * 3000, "Connection: upgrade",
    "Upgrade: websocket", "Accept-Encoding: " + "gzip," * 500, "Authorization: Bearer x" * 200,
)  # fmt: skip


class Requests(Fuzzer):
    """Answers are below 500, no file from outside is sent, and the server goes on."""

    name = "http"
    count = 60
    seconds = 90

    def prepare(self, folder: Path) -> None:
        """Start a server about a few pictures."""
        rng = np.random.default_rng(0)
        (folder / "photos").mkdir()
        for number in range(6):
            picture = Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8))
            picture.save(folder / "photos" / f"{number}.png")
        (folder / "secret.png").write_bytes(b"SECRET-OF-THE-MACHINE")
        torch.manual_seed(0)
        embedder = Embedder.from_network("small-cnn", weights="none")
        Index.create(folder / "a.index", embedder, folder / "photos")
        self.pictures = [data for files in corpus().values() for data in files]
        self.errors = folder / "server-errors"
        self.server = subprocess.Popen(
            [sys.executable, "-m", "lookalike", "serve", str(folder / "a.index"), "--port", "0"],
            stdout=subprocess.PIPE, stderr=self.errors.open("w"), text=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        assert self.server.stdout is not None
        line = next(line for line in self.server.stdout if "http://" in line)
        self.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:  # noqa: ARG002
        """Requests of several kinds; many connections once in a while."""
        makers = {"path": path_trick, "header": odd_header, "raw": raw, "length": wrong_length}
        while True:
            draw = random.random()
            if draw < 0.01:
                yield Input("connections", lambda: self.many(1000))
            elif draw < 0.03:
                yield Input("slow", self.slow)
            elif draw < 0.4:
                data = self.upload(random)
                yield Input("upload", self.call(data), keep=data)
            else:
                kind = random.choice(sorted(makers))
                data = makers[kind](random)
                yield Input(kind, self.call(data), keep=data)

    def upload(self, random: Random) -> bytes:
        """A picture, damaged, in a form, damaged too."""
        picture = random.choice(self.pictures)
        picture = mutated(random, picture, 200) if random.random() < 0.8 else picture
        name = random.choice(("a.png", "../../x", "a\0b", '"><script>', "x" * 5000))
        head = f'--B\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
        body = head.encode() + b"Content-Type: image/png\r\n\r\n" + picture + b"\r\n--B--\r\n"
        if random.random() < 0.3:
            body = mutated(random, body, 120)
        kind = "Content-Type: multipart/form-data; boundary=B"
        where = random.choice(
            ("/api/search", "/api/search?k=5", "/api/search?where=1=1", "/api/why")
        )
        if random.random() < 0.2:
            where, kind = "/api/query", "Content-Type: application/json"
            body = mutated(
                random, json.dumps({"items": [1], "vectors": [[0.1] * 9], "k": 3}).encode()
            )
        return request(random, "POST", where, [kind, f"Content-Length: {len(body)}"], body)

    def call(self, data: bytes) -> Callable[[], None]:
        """Send bytes, judge the answer, and see that the server is still there."""

        def run() -> None:
            self.check(self.send(data))
            self.alive()

        return run

    def send(self, data: bytes, patience: float = 0.5) -> bytes:
        """What the server says, until it closes, or is silent for so long."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            with suppress(OSError):  # it may close before it has read everything
                connection.sendall(data)
            connection.settimeout(patience)
            with suppress(OSError):
                while chunk := connection.recv(65536):
                    answer += chunk
        return answer

    def check(self, answer: bytes) -> None:
        """No answer is a failure of the server, and none has what it must not have."""
        line = answer.partition(b"\r\n")[0]
        if answer and not line.startswith(b"HTTP/1."):
            raise Broken(f"not HTTP: {answer[:80]!r}")
        status = int(line.split()[1]) if answer else 0
        if status >= 500 and status != 503:
            raise Broken(f"{line!r}: {self.errors.read_text()[-1500:]}")
        if b"SECRET-OF-THE-MACHINE" in answer or b"root:x:0" in answer:
            raise Broken("a file from outside was sent")

    def alive(self) -> None:
        """The server answers."""
        if self.server.poll() is not None:
            raise Broken(f"the server has ended: {self.errors.read_text()[-1500:]}")
        asked = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = self.send(asked, patience=20)
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise Broken(f"no health: {answer[:100]!r}")
        if "Traceback" in self.errors.read_text():
            raise Broken(self.errors.read_text()[-1500:])

    def many(self, count: int) -> None:
        """Connections that say nothing; when they are gone the server answers at once."""
        opened = []
        with suppress(OSError):
            for _ in range(count):
                opened.append(socket.create_connection(("127.0.0.1", self.port), timeout=2))
        for one in opened:
            one.close()
        for attempt in range(20):
            try:
                self.alive()
                return
            except (Broken, OSError):
                if attempt == 19:
                    raise

    def slow(self) -> None:
        """A request that never ends does not keep others from theirs."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"GET /api/about HTTP/1.1\r\nHost: localh")
            self.alive()


def end_with_parent() -> None:
    """Let the kernel end this process when the fuzzer's is killed (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def request(random: Random, method: str, path: str, headers: list[str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    host = random.choice(("Host: localhost", "Host: 127.0.0.1", "Host: 127.0.0.1:1"))
    lines = [f"{method} {path} HTTP/1.1", host, "Connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def path_trick(random: Random) -> bytes:
    """A path that leads elsewhere, or has parameters of other types."""
    return request(random, random.choice(METHODS), random.choice(PATHS), [])


def odd_header(random: Random) -> bytes:
    """One or two headers that are too long, contradictory or no headers."""
    chosen = [random.choice(HEADERS) for _ in range(random.choice((1, 2)))]
    return request(random, random.choice(METHODS[:3]), "/api/about", chosen, b"0\r\n\r\n")


def raw(random: Random) -> bytes:
    """Bytes that were a request."""
    data = request(random, "GET", "/api/items/1", ["Accept: */*"])
    return mutated(random, data) if random.random() < 0.8 else random.randbytes(500)


def wrong_length(random: Random) -> bytes:
    """A body that is longer or shorter than it says."""
    length = random.choice((0, 1, 10, 10**6, 10**12))
    kind = "Content-Type: multipart/form-data; boundary=B"
    return request(random, "POST", "/api/search", [f"Content-Length: {length}", kind], b"x" * 50)
