"""The page of a study while it runs: served on this machine, made again when results change."""

import html
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lookalike.compare.contenders import gather
from lookalike.errors import BadInput, LookalikeError
from lookalike.report.descriptions import leading_sentence, title_of
from lookalike.report.page import write_page
from lookalike.study.status import status_of, status_table

__all__ = ["LivePage", "serve_page"]

HEAD = '<meta charset="utf-8">'
REFRESH = '<meta http-equiv="refresh" content="{seconds}">'
STATUS = """<!DOCTYPE html>
<html lang="en"><head>{head}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{name}</title></head>
<body><h1>{name}</h1><p>{sentence}</p><pre>{table}</pre></body></html>
"""


class LivePage:
    """The page of the study in a folder, as it is now.

    Args:
        folder: The results of the study.
        seconds: After how many seconds a browser asks again.
    """

    def __init__(self, folder: Path, seconds: int = 30) -> None:
        if not (folder / "study.json").is_file():
            raise BadInput(
                f"'{folder}' does not hold a study yet; 'lookalike study run' writes study.json "
                "there when it starts"
            )
        self.folder = folder
        self.refresh = REFRESH.format(seconds=seconds)
        self._one_at_a_time = threading.Lock()
        self._state: tuple[tuple[str, int], ...] = ()
        self._made = b""

    def html(self) -> bytes:
        """The page; made again only if a file of the results has changed."""
        with self._one_at_a_time:
            files = (path for path in self.folder.rglob("*") if path.suffix in (".json", ".csv"))
            state = tuple(sorted((str(path), path.stat().st_mtime_ns) for path in files))
            if state != self._state or not self._made:
                self._made = self._make().replace(HEAD, HEAD + self.refresh, 1).encode()
                self._state = state
            return self._made

    def _make(self) -> str:
        try:
            gathered = gather([self.folder])
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "page.html"
                commands = [f"lookalike study watch {self.folder}"]
                title, lead = title_of(gathered), leading_sentence(gathered)
                write_page(path, gathered, title, lead, commands=commands)
                return path.read_text(encoding="utf-8")
        except LookalikeError as error:  # nothing is tested yet
            found = status_of(self.folder)
            return STATUS.format(
                head=HEAD,
                name=html.escape(found["name"]),
                sentence=html.escape(f"No scores yet: {error}."),
                table=html.escape(status_table(found)),
            )


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page at ``/``, and with nothing else."""

    def __init__(self, page: LivePage, *args: Any) -> None:
        self.page = page
        super().__init__(*args)

    def do_GET(self) -> None:
        """The page; for this machine's own names only, as another site may use its address."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in ("127.0.0.1", "localhost"):
            self.send_error(421)
            return
        if self.path.partition("?")[0] != "/":
            self.send_error(404)
            return
        body = self.page.html()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: a request is no news."""


class _Server(ThreadingHTTPServer):
    """Says nothing about browsers that leave before they have their answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong here."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve_page(page: LivePage, port: int, ready: Callable[[str], None]) -> None:
    """Serve a page to this machine until Ctrl-C; ``ready`` is told its address.

    Args:
        page: What is served.
        port: Where; 0: any free port.
        ready: Is called once.
    """
    with _Server(("127.0.0.1", port), partial(_Handler, page)) as server:
        ready(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()
