"""The outermost layer: every request gets an id, a line in the log and a place in the metrics."""

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.serve.gate import CLIENT_LEFT, TOKEN_NAME, refusal
from lookalike.serve.limits import Limits
from lookalike.serve.logs import log
from lookalike.serve.metrics import Metrics

REQUEST_ID = "X-Request-Id"
GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
LEFT = 499
"""The status, in log and metrics, of requests whose client did not wait for the answer."""
METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})
QUIET = frozenset({"page", "/api/items/{id}/image", "/metrics", "/api/health", "/api/ready"})
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

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        self.running += 1
        self.metrics.running.inc()
        try:
            if self.running > self.limits.requests:
                busy = "Too many requests at a time; try again soon."
                await refusal(503, busy, {"Retry-After": "1"})(scope, receive, named)
            else:
                await self.app(scope, receive, named)
        except Exception:
            self.metrics.errors.inc()
            log.exception("a request failed", extra={"fields": {"request": name}})
            if not status:
                sentence = f"The server failed; its log says why, under {name}."
                await JSONResponse({"detail": sentence}, 500)(scope, receive, named)
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


def route_of(scope: Scope) -> str:
    """The pattern of the address: one of few, whatever clients ask for."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path:
        return path
    return "other" if scope["path"].startswith("/api") else "page"
