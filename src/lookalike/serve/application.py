"""The ASGI application: the page, the API, the metrics, and the layers around them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lookalike.errors import BadInput
from lookalike.serve.api import ALWAYS, api_router
from lookalike.serve.gate import Gate
from lookalike.serve.metrics import MEDIA_TYPE
from lookalike.serve.observer import Observer, failure
from lookalike.serve.options import Options
from lookalike.serve.service import Service
from lookalike.serve.tokens import Buckets


def application(service: Service, options: Options, buckets: Buckets | None) -> Observer:
    """The page at ``/``, the API under ``/api``, and ``/health``, ``/ready`` and ``/metrics``.

    Args:
        service: What the routes share; it is closed when the ASGI server shuts down.
        options: How the index is served.
        buckets: Count how often each token has searched; None: as often as it likes.

    Returns:
        The application with all its layers.
    """

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
    router = api_router(service)
    app.include_router(router)
    for route in router.routes:  # where programs that watch servers look first
        if getattr(route, "name", "") in ("health", "ready"):
            name, endpoint = route.name, route.endpoint  # type: ignore[attr-defined]
            methods = ["GET", "HEAD"]
            app.add_api_route(f"/{name}", endpoint, methods=methods, include_in_schema=False)

    @app.get(
        "/metrics",
        tags=["about"],
        response_class=Response,
        responses=ALWAYS | {200: {"content": {"text/plain": {}}, "description": "The numbers."}},
    )
    async def metrics() -> Response:
        """What Prometheus collects; needs the token, if there is one."""
        text = await asyncio.to_thread(service.metrics.text)
        return Response(text, headers={"Content-Type": MEDIA_TYPE})

    # as a mount at "/" it would answer 404 where a route has the path and not the method (405)
    app.router.default = StaticFiles(packages=[("lookalike.serve", "web")], html=True)
    for kind in (HTTPException, RequestValidationError, BadInput):
        app.add_exception_handler(kind, as_problem)
    app.add_exception_handler(Exception, as_failure)
    gate = Gate(
        app,
        limits=options.limits,
        tokens=options.tokens,
        buckets=buckets,
        loopback=options.loopback,
        refusing=lambda: service.refusing,
    )
    return Observer(gate, options.limits, service.metrics)


async def as_failure(request: Request, error: Exception) -> Response:
    """Whatever else is raised; the observer writes it to the log."""
    return failure(request.scope, error)


async def as_problem(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Every refusal as ``{"detail": "a sentence"}``."""
    if isinstance(error, HTTPException):
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return JSONResponse({"detail": f"'{where}': {first['msg']}."}, 422)
    sentence = str(error)
    end = "" if sentence.endswith((".", "?", "!")) else "."
    return JSONResponse({"detail": f"{sentence[:1].upper()}{sentence[1:]}{end}"}, 422)
