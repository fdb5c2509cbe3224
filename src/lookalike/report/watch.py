"""The page of a study while it runs: served on this machine, made again when results change."""

import html
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from lookalike.compare.contenders import gather
from lookalike.errors import BadInput, LookalikeError
from lookalike.report.descriptions import leading_sentence, title_of
from lookalike.report.page import write_page
from lookalike.study.status import status_of, status_table
from lookalike.study.table import DATABASE, is_study

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
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
        if not is_study(folder):
            raise BadInput(
                f"'{folder}' does not hold a study yet; 'lookalike study run' writes study.db "
                "there when it starts"
            )
        self.folder = folder
        self.refresh = REFRESH.format(seconds=seconds)
        self._one_at_a_time = threading.Lock()
        self._state = 0
        self._made = b""

    def html(self) -> bytes:
        """The page; made again only if the results have changed."""
        with self._one_at_a_time:
            state = (self.folder / DATABASE).stat().st_mtime_ns
            if state != self._state:
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


def serve_page(page: LivePage, port: int, ready: Callable[[str], None]) -> None:
    """Serve a page to this machine until Ctrl-C; ``ready`` is told its address.

    It is served to this machine's own names only, as another site may use its address.

    Args:
        page: What is served.
        port: Where; 0: any free port.
        ready: Is called once.
    """

    def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(page.html(), headers=HEADERS)

    names = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app = Starlette(routes=[Route("/", answer)], middleware=[names])
    with socket.create_server(("127.0.0.1", port)) as listener:
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, lifespan="off", log_level="critical")
        uvicorn.Server(config).run(sockets=[listener])
