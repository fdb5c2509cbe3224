"""The search page and its API: an ASGI application, and the server that runs it."""

import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from lookalike.errors import BadInput
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Index
from lookalike.serve.application import application
from lookalike.serve.engine import Runtime
from lookalike.serve.gate import is_loopback
from lookalike.serve.limits import Limits, cores
from lookalike.serve.logs import LogFormat, configure_logging
from lookalike.serve.observer import Observer
from lookalike.serve.options import Options
from lookalike.serve.protocol import closing_protocol
from lookalike.serve.service import Service
from lookalike.serve.tokens import DEFAULT_RATE, Buckets, Rate, Tokens


def create_app(
    index: Index,
    *,
    encoder: Encoder | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    tokens: Tokens | None = None,
    rate: Rate | None = DEFAULT_RATE,
    loopback: bool = True,
) -> Observer:
    """The application for any ASGI server: the page at ``/``, the API under ``/api``.

    Args:
        index: What is searched; its changes are followed.
        encoder: Embeds uploaded pictures instead of the index's own network.
        limits: What requests may use.
        token: Requests must have it.
        tokens: Or one of these.
        rate: How often each token, or without any each address, may search; None: always.
        loopback: Answer this machine only.

    Returns:
        The application, which is ready.
    """
    tokens = tokens or Tokens.of([("token", token)] if token is not None else [])
    options = Options(index.address, limits or Limits(), tokens, rate, loopback=loopback)
    service = Service(index, options.limits)
    service.load(encoder)
    return application(service, options, options.buckets())


def listen(host: str, port: int) -> socket.socket:
    """Open the socket of a server.

    Args:
        host: The address to listen on.
        port: 0 is any free one.

    Returns:
        The socket, which listens.

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
        bound.listen(1_024)
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
    tokens: Tokens | None = None,
    rate: Rate | None = DEFAULT_RATE,
    runtime: Runtime = "torch",
    limits: Limits | None = None,
    workers: int = 1,
    log: LogFormat = "human",
    proxies: str = "",
    ready: Callable[[str], None] | None = None,
) -> NoReturn:
    """Serve an index until interrupted, by SIGINT or SIGTERM: both end in ``KeyboardInterrupt``.

    Args:
        index: What is searched; its changes are followed.
        host: The address to listen on.
        port: 0 is any free one.
        tokens: Requests must have one of them.
        rate: How often each token, or without any each address, may search; None: always.
        runtime: What embeds uploaded pictures.
        limits: What requests may use.
        workers: How many processes answer.
        log: How the log is written to standard error.
        proxies: Addresses or networks, with commas, of proxies whose headers are believed.
        ready: Is called with the address once searches are answered.
    """
    options = Options(
        index.address,
        limits or Limits(),
        tokens or Tokens(),
        rate,
        runtime,
        log,
        is_loopback(host),
        proxies,
    )
    bound = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{bound.getsockname()[1]}/"

    def tell() -> None:
        if ready is not None:
            ready(address)

    with bound, interrupted_by_sigterm():
        if workers > 1:
            from lookalike.serve.workers import supervise

            supervise(options, bound, workers, tell)
        else:
            run(index, options, bound, options.buckets(), cores(), tell)
    raise KeyboardInterrupt


def run(
    index: Index,
    options: Options,
    bound: socket.socket,
    buckets: Buckets | None,
    threads: int,
    ready: Callable[[], None],
) -> None:
    """Answer requests in this process; the model is loaded while the server listens already.

    Args:
        index: What is searched.
        options: How it is served.
        bound: The socket to listen on.
        buckets: Count how often each token has searched; None: there is no rate.
        threads: How many cores to use.
        ready: Is called once searches are answered.
    """
    import faiss

    limits = options.limits
    configure_logging(options.log)
    allow_connections(limits.connections)
    faiss.omp_set_num_threads(threads)
    service = Service(index, limits, threads)
    app = application(service, options, buckets)
    server = DrainingServer(service, server_config(app, limits, options.proxies))
    failures: list[BaseException] = []

    def load() -> None:
        try:
            service.load(runtime=options.runtime)
            ready()
        except BaseException as error:
            failures.append(error)
            server.should_exit = True

    threading.Thread(target=load, name="loading", daemon=True).start()
    try:
        server.run(sockets=[bound])
    finally:
        service.close()
    if failures:
        raise failures[0]


class DrainingServer(uvicorn.Server):
    """Says that it is not ready any more as soon as it is asked to stop."""

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting, and finish what runs."""
        self._service.drain()
        super().handle_exit(sig, frame)


def server_config(app: Any, limits: Limits, proxies: str = "") -> uvicorn.Config:
    """How uvicorn runs the application; ``proxies`` are those whose headers it believes."""
    return uvicorn.Config(
        app,
        http=closing_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        backlog=1_024,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=max(1, round(limits.drain_seconds)),
        h11_max_incomplete_event_size=limits.head_bytes,
    )


def allow_connections(count: int) -> None:
    """Let this process have a file for each connection, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 512
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # which cannot set handlers
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
