"""The search page and its API: an ASGI application, and the server that runs it."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import torch
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.exceptions import HTTPException

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Index
from lookalike.serve.api import api_router
from lookalike.serve.gate import Gate, is_loopback
from lookalike.serve.limits import Limits


def create_app(
    index: Index,
    *,
    encoder: Encoder | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    loopback: bool = True,
) -> Gate:
    """The application for any ASGI server: the page at ``/``, the API under ``/api``.

    ``encoder`` embeds uploaded pictures instead of the index's own network; requests must have the
    ``token``, if any; ``loopback``: answer this machine only.
    """
    limits = limits or Limits()
    encoder = encoder or index.embedder
    index.check_encoder(encoder)
    app = FastAPI(
        title="Lookalike",
        summary="Find the pictures that look like yours.",
        version="1",
        openapi_url="/api/openapi.json",
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
    )
    app.include_router(api_router(index, encoder, limits))
    app.mount("/", StaticFiles(packages=[("lookalike.serve", "web")], html=True))
    for kind in (HTTPException, RequestValidationError, LookalikeError, Exception):
        app.add_exception_handler(kind, as_problem)
    return Gate(app, limits=limits, token=token, loopback=loopback)


async def as_problem(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Every refusal as ``{"detail": "a sentence"}``."""
    if isinstance(error, HTTPException):
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return JSONResponse({"detail": f"'{where}': {first['msg']}."}, 422)
    if isinstance(error, LookalikeError):
        return JSONResponse({"detail": f"{error}."}, 422)
    return JSONResponse({"detail": "The server failed; its log says why."}, 500)


def listen(host: str, port: int) -> socket.socket:
    """A socket on ``host`` and ``port`` (0: any free one); ``BadInput`` if that is impossible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen on '{host}': {reason}") from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise BadInput(
            f"cannot listen on {host}, port {port}: {error.strerror}; give another --port"
        ) from error
    return bound


def serve(
    index: Index,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    encoder: Encoder | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve an index until interrupted; arguments as of :func:`create_app`.

    Port 0 is any free one. ``ready`` is called with the address once the server answers.
    """
    import faiss
    import uvicorn

    limits = limits or Limits()
    torch.set_num_threads(1)  # there is a worker for each core
    faiss.omp_set_num_threads(1)
    bound = listen(host, port)
    app = create_app(index, encoder=encoder, limits=limits, token=token, loopback=is_loopback(host))
    config = uvicorn.Config(
        app,
        http=closing_protocol(limits.silent_seconds),
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
    )
    (encoder or index.embedder).embed([Image.new("RGB", (64, 64))])  # the first call is slow
    if ready is not None:
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{bound.getsockname()[1]}/")
    uvicorn.Server(config).run(sockets=[bound])


def closing_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Uvicorn's HTTP protocol, which closes a connection without a complete request head in time.

    Uvicorn's own limits do not: with ``limit_concurrency=256`` and a timeout round the application,
    256 silent connections get every later request a 503 for as long as they stay open.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ClosingProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_request()

        def _await_request(self) -> None:
            self.loop.call_later(seconds, self._close_if_none, self.cycle)

        def _close_if_none(self, former: Any) -> None:
            if self.cycle is former and not self.transport.is_closing():
                self.transport.close()

    return ClosingProtocol
