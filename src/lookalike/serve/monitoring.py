"""What an operator sees: an id and a log line for each request, and numbers for Prometheus.

Logs go to standard error, for people or as a line of JSON for each event. A line has the request's
id, route, status, milliseconds and the name of the token, never the token, the address with its
parameters, or anything of a picture.

Values of metric labels are few and known: routes by their pattern, status codes, names of queues.
With several worker processes (``PROMETHEUS_MULTIPROC_DIR``) each one writes to files there, and
whichever is asked adds them up.
"""

import json
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.errors import LookalikeError, escaped, masked
from lookalike.serve.gate import CLIENT_LEFT, STATE_PATHS, TOKEN_NAME, refusal
from lookalike.serve.limits import Limits, LogFormat

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that prometheus_client itself reads when it is imported."""
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)

REQUEST_ID = "X-Request-Id"
GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CLIENT_LEFT_STATUS = 499
"""The status, in log and metrics, of requests whose client did not wait for the answer."""
METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})
QUIET = STATE_PATHS | {"page", "/api/items/{id}/image", "/metrics"}
"""Routes that people do not want to read about while all is well."""

log = logging.getLogger("lookalike.serve")


class JsonFormatter(logging.Formatter):
    """A JSON object in a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return escaped(masked(json.dumps(line, ensure_ascii=False, default=str)))


class HumanFormatter(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = getattr(record, "fields", {})
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{clock} {record.getMessage()}"
        if "route" in fields:
            who = f" {fields['token']}" if fields.get("token") else ""
            text = (
                f"{clock} {fields['status']} {fields['method']} {fields['route']} "
                f"{fields['ms']:.0f} ms{who} [{fields['request']}]"
            )
        elif fields:
            text += " (" + ", ".join(f"{name} {value}" for name, value in fields.items()) + ")"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return escaped(masked(text))


def configure_logging(kind: LogFormat) -> None:
    """Write our own events and uvicorn's to standard error; JSON lines have every request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if kind == "json" else HumanFormatter())
    for name, level in (
        ("lookalike.serve", logging.DEBUG if kind == "json" else logging.INFO),
        ("uvicorn.error", logging.WARNING),
        ("asyncio", logging.ERROR),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def event(text: str, level: int = logging.INFO, **fields: object) -> None:
    """Log something that is no request."""
    log.log(level, text, extra={"fields": fields})


class Metrics:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.seconds = Histogram(
            "lookalike_request_seconds",
            "How long requests took, from the end of the head to the end of the answer.",
            ("method", "route", "status"),
            buckets=SECONDS,
            registry=registry,
        )
        self.running = Gauge(
            "lookalike_requests_running",
            "Requests being answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.queue = Gauge(
            "lookalike_queue_length",
            "What waits for a thread.",
            ("queue",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.batches = Histogram(
            "lookalike_batch_size",
            "How many pictures or vectors were computed together.",
            ("queue",),
            buckets=SIZES,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "lookalike_batch_seconds",
            "How long a batch took.",
            ("queue",),
            buckets=SECONDS,
            registry=registry,
        )
        self.errors = Counter(
            "lookalike_errors", "Requests that failed by a fault of the server.", registry=registry
        )
        self.reloads = Counter(
            "lookalike_index_reloads",
            "How often a changed index was opened, and how often that failed.",
            ("result",),
            registry=registry,
        )
        self.pictures = self._latest("lookalike_index_pictures", "Pictures in the index.")
        self.generation = self._latest("lookalike_index_generation", "Number of the last commit.")
        self.updated = self._latest(
            "lookalike_index_updated_timestamp_seconds", "When the index was last changed."
        )
        self.age = self._latest(
            "lookalike_index_age_seconds", "Seconds since the index was last changed."
        )
        self._queues: dict[str, Sized] = {}
        self._index_updated = 0.0
        self._shared = SHARED in os.environ
        if not self._shared:
            ProcessCollector(registry=registry)

    def _latest(self, name: str, meaning: str) -> Gauge:
        return Gauge(name, meaning, registry=self.registry, multiprocess_mode="mostrecent")

    def watch_queue(self, name: str, queue: Sized) -> None:
        """Report the length of ``queue``."""
        self._queues[name] = queue

    def observe_batch(self, queue: str, size: int, seconds: float) -> None:
        """A batch has been computed."""
        self.batches.labels(queue).observe(size)
        self.batch_seconds.labels(queue).observe(seconds)

    def observe_index(self, pictures: int, generation: int, updated: float) -> None:
        """An index has been opened."""
        self.pictures.set(pictures)
        self.generation.set(generation)
        self.updated.set(updated)
        self._index_updated = updated

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        for name, queue in self._queues.items():
            self.queue.labels(name).set(len(queue))
        self.age.set(max(0.0, time.time() - self._index_updated))
        if not self._shared:
            return generate_latest(self.registry)
        all_workers = CollectorRegistry()
        MultiProcessCollector(all_workers)  # type: ignore[no-untyped-call]
        return generate_latest(all_workers)


class Observer:
    """The outermost layer: names, counts and times requests; what fails becomes an answer."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note what became of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        sent_id = Headers(scope=scope).get(REQUEST_ID, "")
        name = sent_id if GOOD_ID.fullmatch(sent_id) else secrets.token_hex(8)

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        self.running += 1
        self.metrics.running.inc()
        try:
            if self.running > self.limits.requests and scope["path"] not in STATE_PATHS:
                busy = "Too many requests at a time; try again soon."
                await refusal(503, busy, {"Retry-After": "1"})(scope, receive, named)
            else:
                await self.app(scope, receive, named)
        except Exception as error:
            self.metrics.errors.inc()
            log.exception("a request failed", extra={"fields": {"request": name}})
            if not status:
                await failure(name, error)(scope, receive, named)
        finally:
            self.running -= 1
            self.metrics.running.dec()
            left = scope.get(CLIENT_LEFT) or not status
            status = CLIENT_LEFT_STATUS if left else status
            self._note(scope, name, status, time.perf_counter() - start)

    def _note(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        route = route_of(scope)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.seconds.labels(method, route, str(status)).observe(seconds)
        level = logging.DEBUG if route in QUIET and status < 400 else logging.INFO
        event(
            "request",
            level,
            request=name,
            method=method,
            route=route,
            status=status,
            ms=round(1e3 * seconds, 1),
            token=scope.get(TOKEN_NAME),
        )


def failure(name: str, error: Exception) -> Response:
    """The answer to a request that failed by a fault of the server, which only the log describes.

    Args:
        name: The id of the request, by which its line in the log can be found.
        error: What was raised. A ``LookalikeError``, such as a database that does not answer, may
            pass: its status is 503.

    Returns:
        A sentence with the id.
    """
    sentence = f"The server failed; its log says why, under {name}."
    if isinstance(error, LookalikeError):
        return JSONResponse({"detail": sentence}, 503, {"Retry-After": "5"})
    return JSONResponse({"detail": sentence}, 500)


def route_of(scope: Scope) -> str:
    """The pattern of the address: one of few, whatever clients ask for."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path:
        return path
    return "other" if scope["path"].startswith("/api") else "page"
