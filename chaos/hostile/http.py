"""A real server under requests that no browser sends."""

import ctypes
import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from chaos.hostile.fuzzer import Broken, Fuzzer, Input, Logged
from chaos.hostile.images import corpus
from chaos.hostile.mutation import mutated
from lookalike import serve as web
from lookalike.search import Embedder, Index

__all__ = ["Requests"]

PATHS = (
    *("//etc/passwd", "/\\..\\x", "/%00", "/%ff%fe", "*", "http://evil.example/", "/api/map"),
    *("/api/items/../../x", "/api/items/1/image?size=99999", "/api/items/-1", "/api/items/1e9"),
    *("/api/items/9223372036854775808", "/api/items/NaN/neighbours", "/index.html%00.png"),
    *("/api/items/0/neighbours?k=1e9", "/api/items?label=%27%3Bdrop", "/api/items?limit=-1"),
    *("/api/items?offset=1e30", "/api/" * 500, "/?" + "a" * 9999, "/metrics"),
    *("/api/items/0/neighbours?where=price%20%3C%201%20or%20(select%201)",),
    *("/api/items/0/image?size=0", "/api/items/0/image?size=-5"),
    *("/api/items/1/neighbours?label=%FF",),
)
DOTS = ("..", "%2e%2e", ".%2e", "%252e%252e", "%c0%ae%c0%ae", "..%00", "..;")
SLASHES = ("/", "%2f", "\\", "%5c", "%252f", "//", "/./")
BEGINNINGS = ("", "/static", "/web", "/api", "/api/items", "/api/items/0/image", "/index.html")
SOURCES = {1: "application.py", 2: "errors.py"}
"""Files of the product by how many folders they are above the page's folder, ``serve/web``."""
ENOUGH = 12
"""Steps up that reach the root from any folder."""
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 300)
ENDLESS = "Content-Length: 99999999999"
FORM = "Content-Type: multipart/form-data; boundary=B"
CONNECTIONS = 1000
HEADERS = (
    "Host: evil.example", "Content-Length: -1", ENDLESS, "Content-Length: x",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
    "X: " + "a" * 70_000, "Range: bytes=0-99999999999", "Cookie: " + "a=b; " * 2000, "A\0B: c",
    "If-None-Match: " + '"x",' * 1000, "Content-Type: multipart/form-data", "Bad header", ": x",
    "Content-Type: multipart/form-data; boundary=" + "x" * 3000, "Connection: upgrade",
    "Upgrade: websocket", "Accept-Encoding: " + "gzip," * 500, "Authorization: Bearer x" * 200,
)  # fmt: skip


PATIENCE = 10.0
"""Seconds in which a complete request is answered."""
SURELY_READ = 30_000
"""Bytes of a request that the server has read before it answers, whatever it answers.

If it closes a connection with bytes that it has not read, the system may drop the answer.
"""


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
        secret = folder.resolve() / "secret.png"
        secret.write_bytes(b"SECRET-OF-THE-MACHINE")
        self.targets = [(ENOUGH, "etc/passwd"), (ENOUGH, str(secret).lstrip("/")), (1, secret.name)]
        self.targets += SOURCES.items()
        self.secrets = secrets(secret)
        torch.manual_seed(0)
        embedder = Embedder.from_network("small-cnn", weights="none")
        Index.create(folder / "a.index", embedder, folder / "photos")
        self.whole = (folder / "photos" / "0.png").read_bytes()
        self.pictures = [data for files in corpus().values() for data in files]
        self.errors = folder / "server-errors"
        self.told = 0
        self.server = subprocess.Popen(
            [sys.executable, "-m", "lookalike", "serve", str(folder / "a.index"), "--port", "0",
             "--rate", "none"],
            stdout=subprocess.PIPE, stderr=self.errors.open("w"), text=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        assert self.server.stdout is not None
        line = next(line for line in self.server.stdout if "http://" in line)
        self.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        allow_connections(CONNECTIONS)

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:  # noqa: ARG002
        """Requests of several kinds; many connections and slow ones once in a while."""
        rare = {"connections": self.many, "head": self.head, "drip": self.drip, "sip": self.sip}
        makers = {"path": path_trick, "header": odd_header, "raw": raw, "length": wrong_length}
        makers |= {"climb": self.climb, "upload": self.upload}
        while True:
            if random.random() < 0.05:
                kind = random.choice(sorted(rare))
                yield Input(kind, rare[kind])
                continue
            kind = random.choice((*sorted(makers), "upload"))
            data, complete = makers[kind](random)
            yield Input(kind, self.call(data, complete), keep=data)

    def climb(self, random: Random) -> tuple[bytes, bool]:
        """A path that would leave the page's folder, if the server decoded it late, or twice."""
        steps, target = random.choice(self.targets)
        dots, slash = random.choice(DOTS), random.choice(SLASHES)
        path = random.choice(BEGINNINGS) + random.choice(("/", slash)) + (dots + slash) * steps
        path += target.replace("/", slash) if random.random() < 0.5 else target
        if random.random() < 0.1:
            path = "//" + target
        return request(random, random.choice(("GET", "GET", "HEAD", "POST")), path, []), True

    def upload(self, random: Random) -> tuple[bytes, bool]:
        """A picture, damaged, in a form, damaged too."""
        picture = random.choice(self.pictures)
        picture = mutated(random, picture, 200) if random.random() < 0.8 else picture
        name = random.choice(("a.png", "../../x", "a\0b", '"><script>', "x" * 5000))
        body = form(picture, name)
        if random.random() < 0.3:
            body = mutated(random, body, 120)
        kind = FORM
        where = random.choice(
            ("/api/search", "/api/search?k=5", "/api/search?where=1=1", "/api/why")
        )
        if random.random() < 0.2:
            where, kind = "/api/query", "Content-Type: application/json"
            body = mutated(
                random, json.dumps({"items": [1], "vectors": [[0.1] * 9], "k": 3}).encode()
            )
        data = request(random, "POST", where, [kind, f"Content-Length: {len(body)}"], body)
        return data, len(data) < SURELY_READ

    def call(self, data: bytes, complete: bool) -> Callable[[], None]:
        """Send bytes, judge the answer, and see that the server is still there."""

        def run() -> None:
            answer = self.send(data, PATIENCE if complete else 0.5)
            self.check(answer, complete)
            self.alive()

        return run

    def send(self, data: bytes, patience: float) -> bytes:
        """What the server says, until it closes, or is silent: at first for ``patience``."""
        with self.connected() as connection:
            with suppress(OSError):  # it may close before it has read everything
                connection.sendall(data)
            return received(connection, patience)

    def connected(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def check(self, answer: bytes, complete: bool = True) -> int:
        """No answer is a failure of the server, and none has what it must not have: the status."""
        self.check_log()
        line = answer.partition(b"\r\n")[0]
        if not answer and complete:
            raise Broken(f"a complete request was not answered within {PATIENCE:.0f} s")
        if answer and not line.startswith(b"HTTP/1."):
            raise Broken(f"not HTTP: {answer[:80]!r}")
        status = int(line.split()[1]) if answer else 0
        if status >= 500 and status != 503:
            raise Broken(f"{line!r}: {self.errors.read_text()[-1500:]}")
        for what, content in self.secrets.items():
            if content in answer:
                raise Broken(f"{what} was sent")
        return status

    def check_log(self) -> None:
        """The server has written no traceback since the last look."""
        text = self.errors.read_text(errors="replace")
        told, self.told = text[self.told :], len(text)
        if "Traceback" in told:
            raise Logged(told[-1500:])

    def alive(self) -> None:
        """The server answers."""
        if self.server.poll() is not None:
            raise Broken(f"the server has ended: {self.errors.read_text()[-1500:]}")
        answer = self.send(asking("/api/health"), 20)
        if self.check(answer) != 200:
            raise Broken(f"no health: {answer[:100]!r}")

    def many(self) -> None:
        """Connections that say nothing keep nobody from being answered, open or closed."""
        with ExitStack() as stack:
            opened = [stack.enter_context(self.connected()) for _ in range(CONNECTIONS)]
            self.alive()
            for one in opened:
                one.setblocking(False)
                try:
                    told = one.recv(1000)
                except BlockingIOError:  # open, and nothing is said
                    continue
                if not told.startswith(b"HTTP/1.1 503 "):
                    raise Broken(f"a silent connection was closed with {told!r}")
        self.alive()

    def head(self) -> None:
        """A request that never ends does not keep others from theirs."""
        with self.connected() as connection:
            connection.sendall(b"GET /api/about HTTP/1.1\r\nHost: localh")
            self.alive()

    def drip(self) -> None:
        """A body that comes in small pieces is answered as any other."""
        body = form(self.whole, "a.png")
        data = asking("/api/search", FORM, f"Content-Length: {len(body)}", method="POST") + body
        size = len(data) // 20 + 1
        with self.connected() as connection:
            for start in range(0, len(data), size):
                connection.sendall(data[start : start + size])
                time.sleep(0.05)
                if start == 10 * size:
                    self.alive()
            status = self.check(received(connection, PATIENCE))
        if status not in (200, 429):
            raise Broken(f"a slow upload got the status {status}")
        self.alive()

    def sip(self) -> None:
        """A client that reads slowly gets all of its answer, and others theirs."""
        with self.connected() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(asking("/api/openapi.json"))
            answer = b""
            for _ in range(20):
                answer += connection.recv(500)
                time.sleep(0.05)
            self.alive()
            answer += received(connection, PATIENCE)
        self.check(answer)
        head, _, body = answer.partition(b"\r\n\r\n")
        if f"content-length: {len(body)}".encode() not in head.lower():
            raise Broken(f"a slow reader got {len(body)} bytes after {head!r}")


def secrets(planted: Path) -> dict[str, bytes]:
    """What no answer may have: the first lines of files that paths lead to."""
    found = {"the planted file": planted, "/etc/passwd": Path("/etc/passwd")}
    page = Path(web.__file__).with_name("web")
    found |= {name: page.parents[steps - 1] / name for steps, name in SOURCES.items()}
    return {what: path.read_bytes().splitlines()[0] for what, path in found.items()}


def allow_connections(count: int) -> None:
    """Let this process have a file for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))


def received(connection: socket.socket, patience: float) -> bytes:
    """All that is said, waiting so long for the first bytes, and less for the others."""
    answer = b""
    connection.settimeout(patience)
    with suppress(OSError):
        while chunk := connection.recv(65536):
            answer += chunk
            connection.settimeout(min(patience, 1))
    return answer


def end_with_parent() -> None:
    """Let the kernel end this process when the fuzzer's is killed (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def asking(path: str, *headers: str, method: str = "GET") -> bytes:
    """The head of a request as any client sends it."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def form(picture: bytes, name: str) -> bytes:
    """The body of an upload."""
    head = f'--B\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
    return head.encode() + b"Content-Type: image/png\r\n\r\n" + picture + b"\r\n--B--\r\n"


def request(random: Random, method: str, path: str, headers: list[str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    host = random.choice(("Host: localhost", "Host: 127.0.0.1", "Host: 127.0.0.1:1"))
    lines = [f"{method} {path} HTTP/1.1", host, "Connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def path_trick(random: Random) -> tuple[bytes, bool]:
    """A path with parameters of other types, or no path."""
    return request(random, random.choice(METHODS), random.choice(PATHS), []), True


def odd_header(random: Random) -> tuple[bytes, bool]:
    """One or two headers that are too long, contradictory or no headers."""
    chosen = [random.choice(HEADERS) for _ in range(random.choice((1, 2)))]
    data = request(random, random.choice(METHODS[:3]), "/api/about", chosen, b"0\r\n\r\n")
    return data, ENDLESS not in chosen and len(data) < SURELY_READ


def raw(random: Random) -> tuple[bytes, bool]:
    """Bytes that were a request."""
    data = request(random, "GET", "/api/items/1", ["Accept: */*"])
    return (mutated(random, data) if random.random() < 0.8 else random.randbytes(500)), False


def wrong_length(random: Random) -> tuple[bytes, bool]:
    """A body that is longer or shorter than it says; one that is too long is refused at once."""
    length = random.choice((0, 1, 10, 10**6, 10**12))
    headers = [f"Content-Length: {length}", FORM]
    return request(random, "POST", "/api/search", headers, b"x" * 50), length != 10**6
