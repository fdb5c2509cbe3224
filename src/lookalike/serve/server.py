"""The search page and its API as an ASGI application, and uvicorn that runs it."""

import multiprocessing
import os
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI

from lookalike.data.parallel import available_cores
from lookalike.errors import BadInput
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Index
from lookalike.serve.application import application
from lookalike.serve.limits import Limits, Options
from lookalike.serve.monitoring import SHARED, configure_logging
from lookalike.serve.tokens import DEFAULT_RATE, Buckets, Rate, Tokens
from lookalike.serve.workers import Supervisor, WorkerApplication

BACKLOG = 1_024
HEALTHCHECK_SECONDS = 15
"""How long a worker may keep its interpreter busy, as the import of a library does."""


def create_app(
    index: Index,
    *,
    encoder: Encoder | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    tokens: Tokens | None = None,
    rate: Rate | None = DEFAULT_RATE,
    host: str = "127.0.0.1",
) -> FastAPI:
    """The application for any ASGI server: the page at ``/``, the API under ``/api``.

    Args:
        index: What is searched; its changes are followed.
        encoder: Embeds uploaded pictures instead of the index's own network.
        limits: What requests may use.
        token: Requests must have it.
        tokens: Or one of these.
        rate: How often each token, or without any each address, may search; None: always.
        host: The address that the server listens on; 127.0.0.1: answer this machine only.

    Returns:
        The application, which is ready.
    """
    tokens = tokens or Tokens.of([("token", token)] if token is not None else [])
    options = Options(index.address, limits or Limits(), tokens, rate, host=host)
    return application(index, options, encoder=encoder)


def serve(
    index: Index,
    options: Options,
    *,
    port: int = 8000,
    workers: int = 1,
    ready: Callable[[str], None] = lambda _: None,
) -> NoReturn:
    """Serve an index until a signal stops it, which ends in ``KeyboardInterrupt``.

    Args:
        index: What is searched; its changes are followed.
        options: How it is served.
        port: 0 is any free one.
        workers: How many processes answer.
        ready: Is called with the address once searches are answered.
    """
    configure_logging(options.log)
    allow_connections(options.limits.connections)
    with bind(options.host, port) as bound:
        name = f"[{options.host}]" if ":" in options.host else options.host
        address = f"http://{name}:{bound.getsockname()[1]}/"
        if workers > 1:
            supervise(options, bound, workers, lambda: ready(address))
        else:
            app = application(index, options, threads=available_cores())
            bound.listen(BACKLOG)
            ready(address)
            uvicorn.Server(server_config(app, options)).run([bound])
    raise KeyboardInterrupt


def bind(host: str, port: int) -> socket.socket:
    """The socket of a server, which does not listen yet.

    Args:
        host: The address to listen on.
        port: 0 is any free one.

    Raises:
        BadInput: The address is unknown, or the port is taken.
    """
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
    except OSError as error:
        bound.close()
        raise BadInput(
            f"cannot listen on {host}, port {port}: {error.strerror}; give another --port"
        ) from error
    return bound


def supervise(
    options: Options, bound: socket.socket, workers: int, ready: Callable[[], None]
) -> None:
    """Keep several processes answering on a socket, which count requests together."""
    context = multiprocessing.get_context("spawn")  # threads and fork do not go together
    state = context.RawArray("d", Buckets.SIZE)
    app = WorkerApplication(options, state, max(1, available_cores() // workers))
    config = server_config(app, options, factory=True, workers=workers)
    with TemporaryDirectory(prefix="lookalike-metrics-") as folder:
        os.environ[SHARED] = folder  # prometheus_client reads it when a worker imports it
        try:
            Supervisor(config, bound, ready).run()
        finally:
            del os.environ[SHARED]


def server_config(app: Any, options: Options, **more: Any) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.proxies),
        forwarded_allow_ips=options.proxies,
        backlog=BACKLOG,
        limit_concurrency=options.limits.connections,
        h11_max_incomplete_event_size=options.limits.head_bytes,
        timeout_graceful_shutdown=max(1, round(options.limits.drain_seconds)),
        timeout_worker_healthcheck=HEALTHCHECK_SECONDS,
        **more,
    )


def allow_connections(count: int) -> None:
    """Let this process have a file for each connection, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 512
    most = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
