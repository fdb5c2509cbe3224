"""What serves an index: its state, its queues, and the ASGI application with its layers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import faiss
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lookalike.data.parallel import available_cores
from lookalike.errors import BadInput
from lookalike.imports import faiss_threads
from lookalike.inference.encoder import Encoder
from lookalike.inference.onnx_encoder import OnnxEncoder
from lookalike.search.index import Index
from lookalike.serve.api import ALWAYS, api_router
from lookalike.serve.collection import Collection
from lookalike.serve.engine import Engine
from lookalike.serve.gate import Gate, is_loopback
from lookalike.serve.limits import Limits, Options, Runtime
from lookalike.serve.monitoring import Metrics, Observer
from lookalike.serve.queues import Workers
from lookalike.serve.tokens import Buckets

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
COMPRESSED_FROM = 2_000
"""Bytes of an answer that is worth compressing."""


class Service:
    """One index being served by one process.

    Args:
        index: What is searched; its changes are followed.
        limits: What requests may use.
        threads: How many cores to use; None: all that this process may use.
    """

    def __init__(self, index: Index, limits: Limits, threads: int | None = None) -> None:
        self.limits = limits
        self.metrics = Metrics()
        self.collection = Collection(index, limits, self.metrics)
        self.engine = Engine(limits, self.metrics, threads or available_cores())
        # pictures and maps take long: what a search looks up must not wait behind them
        self.lookups = Workers(self.engine.threads, 8 * limits.waiting, "lookups")
        self.thumbnails = Workers(self.engine.threads, 8 * limits.waiting, "thumbnails")
        self.analyses = Workers(1, limits.waiting, "analyses")
        self.filters = Workers(1, limits.filters, "filters")
        self.parsing = Workers(1, limits.waiting, "parsing")
        self._pools = (self.lookups, self.thumbnails, self.analyses, self.filters, self.parsing)
        for queue in self._pools:
            self.metrics.watch_queue(queue.name, queue)

    def load(self, encoder: Encoder | None = None, runtime: Runtime = "torch") -> None:
        """Load the model, if the index has one, and follow the changes of the index.

        Args:
            encoder: Embeds uploads instead of the index's own model; it must be the same model.
            runtime: What runs the index's own model.
        """
        index = self.collection.view.index
        if encoder is None and index.fingerprint:
            encoder = index.embedder
            if runtime == "onnx":
                encoder = OnnxEncoder.of(index.embedder, self.limits.torch_threads)
        if encoder is not None:
            index.check_encoder(encoder)
            self.engine.use(encoder)
        self.collection.follow()

    def close(self) -> None:
        """End the threads."""
        self.collection.close()
        for workers in self._pools:
            workers.close()
        self.engine.close()


def loaded_application(
    index: Index, options: Options, buckets: Buckets | None, threads: int
) -> FastAPI:
    """The application of a process that serves only it.

    Args:
        index: What is searched.
        options: How it is served.
        buckets: Count how often each token has searched; None: there is no rate.
        threads: How many cores to use.
    """
    faiss.omp_set_num_threads(faiss_threads(threads))
    service = Service(index, options.limits, threads)
    service.load(runtime=options.runtime)
    return application(service, options, buckets)


def application(service: Service, options: Options, buckets: Buckets | None) -> FastAPI:
    """The page at ``/``, the API under ``/api``, and ``/health``, ``/ready`` and ``/metrics``.

    On one of this machine's own addresses only its own names are answered, so that no web site can
    point its name at this machine and read the pictures (DNS rebinding).

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
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    # as a mount at "/" it would answer 404 where a route has the path and not the method (405)
    app.router.default = StaticFiles(packages=[("lookalike.serve", "web")], html=True)
    for kind in (HTTPException, RequestValidationError, BadInput):
        app.add_exception_handler(kind, as_problem)
    names = [*LOOPBACK, options.host] if is_loopback(options.host) else ["*"]
    # each one is put round the former ones
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=5)
    app.add_middleware(Gate, limits=options.limits, tokens=options.tokens, buckets=buckets)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    app.state.metrics = service.metrics
    app.add_middleware(Observer, limits=options.limits, metrics=service.metrics)
    return app


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
