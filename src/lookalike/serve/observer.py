"""The outermost layer: every request gets an id, a line in the log and a place in the metrics."""

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.errors import LookalikeError
from lookalike.serve.gate import CLIENT_LEFT, STATE_PATHS, TOKEN_NAME, refusal
from lookalike.serve.limits import Limits
from lookalike.serve.logs import log
from lookalike.serve.metrics import Metrics

REQUEST_ID = "X-Request-Id"
REQUEST_SCOPE = "lookalike.request"
"""Where the id of the request stands in the scope."""
GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
LEFT = 499
"""The status, in log and metrics, of requests whose client did not wait for the answer."""
METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})
QUIET = STATE_PATHS | {"page", "/api/items/{id}/image", "/metrics"}
"""Routes that people do not want to read about while all is well."""


class Observer:
    """Names, counts and times requests; turns whatever fails into an answer."""

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
        asked = Headers(scope=scope).get(REQUEST_ID, "")
        name = asked if GOOD_ID.fullmatch(asked) else secrets.token_hex(8)
        scope[REQUEST_SCOPE] = name

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
                await failure(scope, error)(scope, receive, named)
        finally:
            self.running -= 1
            self.metrics.running.dec()
            status = LEFT if scope.get(CLIENT_LEFT) else status or LEFT
            self._note(scope, name, status, time.perf_counter() - start)

    def _note(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        route = route_of(scope)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.seconds.labels(method, route, str(status)).observe(seconds)
        level = logging.DEBUG if route in QUIET and status < 400 else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields = {
            "request": name,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(1e3 * seconds, 1),
            "token": scope.get(TOKEN_NAME),
        }
        log.log(level, "request", extra={"fields": fields})


def failure(scope: Scope, error: Exception) -> Response:
    """The answer to a request that failed by a fault of the server, which only the log describes.

    Args:
        scope: The request.
        error: What was raised. A ``LookalikeError``, such as a database that does not answer, may
            pass: its status is 503.

    Returns:
        A sentence with the id of the request, so that its line in the log can be found.
    """
    sentence = f"The server failed; its log says why, under {scope[REQUEST_SCOPE]}."
    if isinstance(error, LookalikeError):
        return JSONResponse({"detail": sentence}, 503, {"Retry-After": "5"})
    return JSONResponse({"detail": sentence}, 500)


def route_of(scope: Scope) -> str:
    """The pattern of the address: one of few, whatever clients ask for."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path:
        return path
    return "other" if scope["path"].startswith("/api") else "page"
