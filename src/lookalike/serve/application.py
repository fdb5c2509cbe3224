"""The ASGI application of an index, with its layers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import faiss
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lookalike.errors import BadInput
from lookalike.imports import faiss_threads
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Index
from lookalike.serve.api import api_router
from lookalike.serve.gate import Gate, is_loopback
from lookalike.serve.limits import Options
from lookalike.serve.service import Service
from lookalike.serve.tokens import Buckets

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
COMPRESSED_FROM = 2_000
"""Bytes of an answer that is worth compressing."""
MISSING = (Path(__file__).parent / "web" / "missing.html").read_text(encoding="utf-8")


def application(
    index: Index,
    options: Options,
    *,
    encoder: Encoder | None = None,
    searches: Buckets | None = None,
    threads: int | None = None,
) -> FastAPI:
    """The page at ``/``, the API under ``/api``, and ``/health``, ``/ready`` and ``/metrics``.

    On one of this machine's own addresses only its own names are answered, so that no web site can
    point its name at this machine and read the pictures (DNS rebinding).

    Args:
        index: What is searched; its changes are followed.
        options: How it is served.
        encoder: Embeds uploads instead of the index's own model.
        searches: Counts the searches of each client, with other processes; None: alone.
        threads: How many cores to use by a process that does nothing else; None: all.

    Returns:
        The application, which is ready; ``state.service`` is what its routes share.
    """
    if threads is not None:
        faiss.omp_set_num_threads(faiss_threads(threads))
    service = Service(index, options.limits, encoder, options.runtime, threads)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        lifespan=lifespan,
        title="Lookalike",
        summary="Find the pictures that look like yours.",
        version="1",
        openapi_url="/api/openapi.json",
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.include_router(api_router(service))
    # as a mount at "/" it would answer 404 where a route has the path and not the method (405)
    app.router.default = StaticFiles(packages=[("lookalike.serve", "web")], html=True)
    for kind in (HTTPException, RequestValidationError, BadInput):
        app.add_exception_handler(kind, as_problem)
    if searches is None and options.rate is not None:
        searches = Buckets(options.rate)
    names = [*LOOPBACK, options.host] if is_loopback(options.host) else ["*"]
    # each one is put round the former ones
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=5)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    app.add_middleware(Gate, options=options, searches=searches)
    return app


async def as_problem(request: Request, error: Exception) -> Response:
    """Every refusal as ``{"detail": "a sentence"}``; for people, a missing page as a page."""
    if isinstance(error, HTTPException):
        asks_for_page = "text/html" in request.headers.get("accept", "")
        if error.status_code == 404 and asks_for_page and not request.url.path.startswith("/api"):
            return HTMLResponse(MISSING, 404)
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return JSONResponse({"detail": f"'{where}': {first['msg']}."}, 422)
    sentence = str(error)
    end = "" if sentence.endswith((".", "?", "!")) else "."
    return JSONResponse({"detail": f"{sentence[:1].upper()}{sentence[1:]}{end}"}, 422)
