"""What an operator sees: a log line for each request, and numbers for Prometheus.

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
import sys
import time
from collections.abc import Mapping, Sized
from datetime import UTC, datetime
from typing import Any

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from lookalike.errors import escaped, masked
from lookalike.serve.limits import LogFormat

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that prometheus_client itself reads when it is imported."""
SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})
QUIET = re.compile(r"page|(/api)?/(health|ready|metrics)|/api/items/\{id\}/image")
"""Routes that people do not want to read about while all is well."""
TOKEN_NAME = "lookalike.token"
"""Where the name of a request's token stands in its scope."""

log = logging.getLogger("lookalike.serve")


class Formatter(logging.Formatter):
    """Lines for people, or a JSON object in each.

    Args:
        kind: Which of them.
    """

    def __init__(self, kind: LogFormat) -> None:
        super().__init__()
        self.kind = kind

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        fields: dict[str, Any] = getattr(record, "fields", {})
        if self.kind == "json":
            moment = datetime.fromtimestamp(record.created, UTC)
            line = {
                "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "level": record.levelname.lower(),
                "event": record.getMessage(),
                **fields,
            }
            line |= {"traceback": trace} if trace else {}
            return escaped(masked(json.dumps(line, ensure_ascii=False, default=str)))
        text = record.getMessage()
        if "route" in fields:
            text = "{status} {method} {route} {ms:.0f} ms {token} [{request}]".format(
                **fields | {"token": fields.get("token") or "-"}
            )
        elif fields:
            text += " (" + ", ".join(f"{name} {value}" for name, value in fields.items()) + ")"
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        return escaped(masked("\n".join(filter(None, (f"{clock} {text}", trace)))))


def configure_logging(kind: LogFormat) -> None:
    """Write our own events and uvicorn's to standard error; JSON lines have every request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(kind))
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


REQUESTS = Histogram(
    "lookalike_request_seconds",
    "How long requests took, from the end of the head to the end of the answer.",
    ("method", "route", "status"),
    buckets=SECONDS,
)
RUNNING = Gauge(
    "lookalike_requests_running", "Requests being answered.", multiprocess_mode="livesum"
)
QUEUED = Gauge(
    "lookalike_queue_length", "What waits for a thread.", ("queue",), multiprocess_mode="livesum"
)
BATCHES = Histogram(
    "lookalike_batch_size",
    "How many pictures or vectors were computed together.",
    ("queue",),
    buckets=(1, 2, 4, 8, 16, 32, 64),
)
BATCH_SECONDS = Histogram(
    "lookalike_batch_seconds", "How long a batch took.", ("queue",), buckets=SECONDS
)
ERRORS = Counter("lookalike_errors", "Requests that failed by a fault of the server.")
RELOADS = Counter(
    "lookalike_index_reloads",
    "How often a changed index was opened, and how often that failed.",
    ("result",),
)
INDEX = {
    name: Gauge(f"lookalike_index_{name}", meaning, multiprocess_mode="mostrecent")
    for name, meaning in {
        "pictures": "Pictures in the index.",
        "generation": "Number of the last commit.",
        "updated_timestamp_seconds": "When the index was last changed.",
        "age_seconds": "Seconds since the index was last changed.",
    }.items()
}


def prometheus_text(queues: Mapping[str, Sized], updated: float) -> bytes:
    """All numbers, as Prometheus reads them; those of several processes together.

    Args:
        queues: What waits, by name.
        updated: When the index was last changed, in epoch seconds.
    """
    for name, queue in queues.items():
        QUEUED.labels(name).set(len(queue))
    INDEX["age_seconds"].set(max(0.0, time.time() - updated))
    registry = REGISTRY
    if SHARED in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def log_request(scope: Scope, name: str, status: int, seconds: float) -> None:
    """Count a request that has ended, and write its line.

    Args:
        scope: What was asked, and by whose token.
        name: The id of the request.
        status: Of the answer.
        seconds: How long it took.
    """
    route = route_of(scope)
    method = scope["method"] if scope["method"] in METHODS else "other"
    REQUESTS.labels(method, route, str(status)).observe(seconds)
    level = logging.DEBUG if QUIET.fullmatch(route) and status < 400 else logging.INFO
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


def route_of(scope: Scope) -> str:
    """The pattern of the address: one of few, whatever clients ask for."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path:
        return path
    return "other" if scope["path"].startswith("/api") else "page"
