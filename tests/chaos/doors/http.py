"""A real server under requests that no browser sends."""

import ctypes
import json
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import torch
from hypothesis import strategies as st

from lookalike import serve as web
from lookalike.search import Embedder, Index
from tests.chaos.doors.door import Broken, Door, Input, Logged, damaged
from tests.chaos.doors.pictures import corpus
from tests.chaos.works import make_pictures

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
HEADERS = (
    "Host: evil.example", "Content-Length: -1", ENDLESS, "Content-Length: x",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
    "X: " + "a" * 70_000, "Range: bytes=0-99999999999", "Cookie: " + "a=b; " * 2000, "A\0B: c",
    "If-None-Match: " + '"x",' * 1000, "Content-Type: multipart/form-data", "Bad header", ": x",
    "Content-Type: multipart/form-data; boundary=" + "x" * 3000, "Connection: upgrade",
    "Upgrade: websocket", "Accept-Encoding: " + "gzip," * 500, "Authorization: Bearer x" * 200,
)  # fmt: skip
CONNECTIONS = 1000
PATIENCE = 10.0
"""Seconds in which a complete request is answered."""
SURELY_READ = 30_000
"""Bytes of a request that the server has read before it answers, whatever it answers.

If it closes a connection with bytes that it has not read, the system may drop the answer.
"""


class Requests(Door):
    """Answers are below 500, no file from outside is sent, and the server goes on."""

    name = "http"
    count = 60
    seconds = 90

    def prepare(self, folder: Path) -> None:
        """Start a server about a few pictures."""
        photos = make_pictures(folder / "photos", classes=2, images=3)
        planted = folder.resolve() / "secret.png"
        planted.write_bytes(b"SECRET-OF-THE-MACHINE")
        self.targets = [(ENOUGH, "etc/passwd"), (ENOUGH, str(planted).lstrip("/"))]
        self.targets += [(1, planted.name), *SOURCES.items()]
        page = Path(web.__file__).with_name("web")
        secret = [planted, Path("/etc/passwd")]
        secret += [page.parents[steps - 1] / name for steps, name in SOURCES.items()]
        self.secrets = {path.name: path.read_bytes().splitlines()[0] for path in secret}
        torch.manual_seed(0)
        model = Embedder.from_network("small-cnn", weights="none")
        Index.create(folder / "a.index", model, photos)
        self.whole = next(photos.rglob("*.png")).read_bytes()
        self.pictures = [data for files in corpus().values() for data in files]
        self.errors, self.told = folder / "server-errors", 0
        self.server = subprocess.Popen(
            [sys.executable, "-m", "lookalike", "serve", str(folder / "a.index"), "--port", "0",
             "--rate", "none"],
            stdout=subprocess.PIPE, stderr=self.errors.open("w"), text=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        assert self.server.stdout is not None
        line = next(line for line in self.server.stdout if "http://" in line)
        self.port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < CONNECTIONS + 200:
            resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS + 200, hard))

    def inputs(self) -> st.SearchStrategy[Input]:
        """Requests of several kinds; many connections and slow ones once in a while."""
        kinds = {
            "path": paths(),
            "climb": climbs(self.targets),
            "header": odd_headers(),
            "raw": raw(),
            "length": wrong_lengths(),
            "upload": uploads(self.pictures),
        }
        sent = [st.builds(Input, st.just(kind), made) for kind, made in kinds.items()]
        slow = st.sampled_from(("connections", "head", "drip", "sip"))
        return st.one_of(*sent * 3, st.builds(Input, slow, st.none()))

    def receive(self, sent: Input, folder: Path) -> None:
        """Send it, judge the answer, and see that the server is still there."""
        if sent.content is None:
            manner = {"connections": self.many, "head": self.head}
            (manner | {"drip": self.drip, "sip": self.sip})[sent.kind]()
        else:
            data, complete = sent.content
            self.check(self.send(data, PATIENCE if complete else 0.5), complete)
        self.alive()

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
        text = self.errors.read_text(errors="replace")
        told, self.told = text[self.told :], len(text)
        if "Traceback" in told:
            raise Logged(told[-1500:])
        line = answer.partition(b"\r\n")[0]
        if not answer and complete:
            raise Broken(f"a complete request was not answered within {PATIENCE:.0f} s")
        if answer and not line.startswith(b"HTTP/1."):
            raise Broken(f"not HTTP: {answer[:80]!r}")
        status = int(line.split()[1]) if answer else 0
        if status >= 500 and status != 503:
            raise Broken(f"{line!r}: {text[-1500:]}")
        for what, content in self.secrets.items():
            if content in answer:
                raise Broken(f"{what} was sent")
        return status

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
                with suppress(BlockingIOError):  # open, and nothing is said
                    told = one.recv(1000)
                    if not told.startswith(b"HTTP/1.1 503 "):
                        raise Broken(f"a silent connection was closed with {told!r}")

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
    """Let the kernel end this process when the door's is killed (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def asking(path: str, *headers: str, method: str = "GET") -> bytes:
    """The head of a request as any client sends it."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


def form(picture: bytes, name: str) -> bytes:
    """The body of an upload."""
    head = f'--B\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
    return head.encode() + b"Content-Type: image/png\r\n\r\n" + picture + b"\r\n--B--\r\n"


@st.composite
def paths(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A path with parameters of other types, or no path; whether the request is complete."""
    return asking(draw(st.sampled_from(PATHS)), method=draw(st.sampled_from(METHODS))), True


@st.composite
def climbs(draw: st.DrawFn, targets: list[tuple[int, str]]) -> tuple[bytes, bool]:
    """A path that would leave the page's folder, if the server decoded it late, or twice."""
    steps, target = draw(st.sampled_from(targets))
    dots, slash = draw(st.sampled_from(DOTS)), draw(st.sampled_from(SLASHES))
    start = draw(st.sampled_from(BEGINNINGS)) + draw(st.sampled_from(("/", slash)))
    ends = (target, target.replace("/", slash))
    path = draw(
        st.sampled_from((*(start + (dots + slash) * steps + end for end in ends), f"//{target}"))
    )
    return asking(path, method=draw(st.sampled_from(("GET", "GET", "HEAD", "POST")))), True


@st.composite
def odd_headers(draw: st.DrawFn) -> tuple[bytes, bool]:
    """One or two headers that are too long, contradictory or no headers."""
    chosen = draw(st.lists(st.sampled_from(HEADERS), min_size=1, max_size=2))
    method = draw(st.sampled_from(METHODS[:3]))
    data = asking("/api/about", *chosen, method=method) + b"0\r\n\r\n"
    return data, ENDLESS not in chosen and len(data) < SURELY_READ


def raw() -> st.SearchStrategy[tuple[bytes, bool]]:
    """Bytes that were a request."""
    some = damaged(asking("/api/items/1", "Accept: */*")) | st.binary(max_size=500)
    return some.map(lambda data: (data, False))


@st.composite
def wrong_lengths(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A body that is longer or shorter than it says; one that is too long is refused at once."""
    length = draw(st.sampled_from((0, 1, 10, 10**6, 10**12)))
    data = asking("/api/search", f"Content-Length: {length}", FORM, method="POST")
    return data + b"x" * 50, length != 10**6


@st.composite
def uploads(draw: st.DrawFn, pictures: list[bytes]) -> tuple[bytes, bool]:
    """A picture, damaged, in a form, damaged too; or marks."""
    picture = draw(st.sampled_from(pictures).flatmap(lambda data: damaged(data, 200)))
    names = ("a.png", "../../x", "a\0b", '"><script>', "x" * 5000)
    body, kind = form(picture, draw(st.sampled_from(names))), FORM
    where = draw(
        st.sampled_from(("/api/search", "/api/search?k=5", "/api/search?where=1=1", "/api/why"))
    )
    if draw(st.integers(0, 4)) == 0:
        where, kind = "/api/query", "Content-Type: application/json"
        body = json.dumps({"items": [1], "vectors": [[0.1] * 9], "k": 3}).encode()
    if kind != FORM or draw(st.booleans()):
        body = draw(damaged(body, 120))
    data = asking(where, kind, f"Content-Length: {len(body)}", method="POST") + body
    return data, len(data) < SURELY_READ
