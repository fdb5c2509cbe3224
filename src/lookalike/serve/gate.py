"""What every request passes: its id, access, time, size, security headers, log line and metrics."""

import asyncio
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.errors import LookalikeError
from lookalike.serve.limits import Options, Refusal
from lookalike.serve.monitoring import ERRORS, RUNNING, TOKEN_NAME, log, log_request
from lookalike.serve.tokens import WRONG_TOKENS, Buckets

STATE_PATHS = frozenset({"/api/health", "/api/ready", "/health", "/ready"})
"""How the server is: answered always."""
OPEN_PATHS = STATE_PATHS | {"/style.css", "/icon.svg"}
"""What needs no token: it says nothing about the pictures."""
RATED = re.compile(r"/api/(search|query|why|map|items|items/[^/]*/neighbours)")
"""What a rate counts: the requests that compute. A page of results shows many pictures."""
REQUEST_ID = "X-Request-Id"
GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CLIENT_LEFT = 499
"""The status, in log and metrics, of requests whose client did not wait for the answer."""
TOKEN_FORM = (Path(__file__).parent / "web" / "token.html").read_text(encoding="utf-8")
_FORM_OVERHEAD = 64 * 1024
"""The most that a form adds to its file."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    name = host.strip("[]")
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Gate:
    """The outermost layer.

    - Each request has an id (the client's, if it is a good one), a line in the log, and is counted.
    - Pages of other sites may not post.
    - With ``tokens`` all but ``OPEN_PATHS`` needs one: ``Authorization: Bearer``, a cookie, or
      once ``?token=`` in the address, which sets the cookie and redirects. A browser without it
      gets a page with a field for it.
    - ``searches`` bounds how often each token, or without any each address, may search. An address
      that has sent too many wrong tokens has to wait, too.
    - A body may have ``limits.upload_bytes`` or, without a file, ``limits.json_bytes``, and a
      request ``limits.request_seconds``; where the client has left, its request is cancelled.
    - What fails becomes an answer that names the request's id, under which the log says why.
    """

    def __init__(self, app: ASGIApp, options: Options, searches: Buckets | None) -> None:
        self.app = app
        self.limits = options.limits
        self.tokens = options.tokens
        self.searches = searches
        self.running = 0
        self.wrong_tokens = Buckets(WRONG_TOKENS)
        # cookies do not know ports: two servers on one machine must not share one
        self.cookie = f"lookalike-{self.tokens.mark}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        start, status, ended, left = time.perf_counter(), 0, False, False
        sent_id = Headers(scope=scope).get(REQUEST_ID, "")
        name = sent_id if GOOD_ID.fullmatch(sent_id) else secrets.token_hex(8)

        async def answer(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for header, value in SECURITY_HEADERS.items():
                    headers.setdefault(header, value)
                headers[REQUEST_ID] = name
            elif message["type"] == "http.response.body":
                ended = not message.get("more_body", False)
            await send(message)

        self.running += 1
        RUNNING.inc()
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                refused = self._refusal(scope)
                if refused is not None:
                    await refused(scope, receive, answer)
                else:
                    left = await self._forward(scope, receive, answer, lambda: ended)
        except TimeoutError:
            if not status:
                slow = refusal(408, "The request took too long and was dropped.")
                await slow(scope, receive, answer)
        except Exception as error:
            ERRORS.inc()
            log.exception("a request failed", extra={"fields": {"request": name}})
            if not status:
                await failure(name, error)(scope, receive, answer)
        finally:
            self.running -= 1
            RUNNING.dec()
            status = CLIENT_LEFT if left or not status else status
            seconds = time.perf_counter() - start
            log_request(scope, name, status, seconds)

    async def _forward(
        self, scope: Scope, receive: Receive, send: Send, ended: Callable[[], bool]
    ) -> bool:
        """Let the application answer while somebody waits for it; whether the client has left."""
        complete, gone = asyncio.Event(), asyncio.Event()
        seen, most = 0, self._most_bytes(scope)

        async def body() -> Message:
            nonlocal seen
            if complete.is_set():  # the client's leaving is noticed below
                await asyncio.Event().wait()
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise Refusal(413, too_large(most))
            if message["type"] == "http.disconnect":
                gone.set()
            elif not message.get("more_body", False):
                complete.set()
            return message

        async def leaving() -> None:
            if scope["method"] != "GET":
                await complete.wait()
            while (await receive())["type"] != "http.disconnect":
                pass

        answering = asyncio.ensure_future(self.app(scope, body, send))
        left = asyncio.ensure_future(leaving())
        try:
            await asyncio.wait({answering, left}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done() or ended():
                await answering
            else:
                gone.set()
        finally:
            for task in (answering, left):
                if not task.done():
                    task.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await task
        return gone.is_set()

    def _refusal(self, scope: Scope) -> Response | None:
        """The refusal of a request, or the redirection that sets the cookie; None: pass it on."""
        request = HTTPConnection(scope)
        headers, path = request.headers, scope["path"]
        if self.running > self.limits.requests and path not in STATE_PATHS:
            busy = "Too many requests at a time; try again soon."
            return refusal(503, busy, {"Retry-After": "1"})
        if sum(len(key) + len(value) for key, value in scope["headers"]) > self.limits.head_bytes:
            return refusal(431, "The head of the request is too large.")  # it came in one piece
        if scope["method"] == "POST" and headers.get("sec-fetch-site") == "cross-site":
            return refusal(403, "Requests from pages of other sites are refused.")
        client = client_of(scope)
        name: str | None = None
        if self.tokens and path not in OPEN_PATHS:
            address_tokens = request.query_params.getlist("token")
            kind, _, value = headers.get("authorization", "").partition(" ")
            sent = [*address_tokens, *([value.strip()] if kind.lower() == "bearer" else [])]
            sent += [request.cookies[self.cookie]] if self.cookie in request.cookies else []
            if sent and (seconds := self.wrong_tokens.wait(client)):
                return too_often("Too many wrong tokens came from this address", seconds)
            if self._name_of(address_tokens) and scope["method"] in ("GET", "HEAD"):
                return self._set_cookie(request)
            name = self._name_of(sent)
            if name is None:
                if sent:
                    self.wrong_tokens.take(client)
                needed = {"WWW-Authenticate": "Bearer"}
                if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                    return token_form(wrong=bool(sent), headers=needed)
                return refusal(401, "This server needs its token.", needed)
            scope[TOKEN_NAME] = name
        length, most = headers.get("content-length", ""), self._most_bytes(scope)
        if length.isdigit() and int(length) > most:
            return refusal(413, too_large(most))
        if self.searches is None or not RATED.fullmatch(path):
            return None
        seconds = self.searches.take(name or client)
        who = "token" if name else "address"
        return too_often(f"This {who} has searched too often", seconds) if seconds else None

    def _name_of(self, sent: list[str]) -> str | None:
        """Whose token is among those that were sent."""
        names = [self.tokens.name_of(token) for token in sent[:4]]
        return next((name for name in names if name is not None), None)

    def _set_cookie(self, request: HTTPConnection) -> Response:
        """Move the token from the address, and the browser's history, to a cookie."""
        pairs = request.query_params.multi_items()
        parameters = [pair for pair in pairs if pair[0] != "token"]
        token = next(value for name, value in pairs if name == "token" and self._name_of([value]))
        path = "/" + quote(request.scope["path"]).lstrip("/")  # "//host": another site
        response = RedirectResponse(path + (f"?{urlencode(parameters)}" if parameters else ""), 303)
        secure = request.scope.get("scheme") == "https"
        response.set_cookie(self.cookie, token, httponly=True, secure=secure, samesite="lax")
        return response

    def _most_bytes(self, scope: Scope) -> int:
        """The largest body of a request: a form may contain a file, JSON is parsed in one piece."""
        kind = Headers(scope=scope).get("content-type", "")
        if kind.startswith("multipart/form-data"):
            return self.limits.upload_bytes + _FORM_OVERHEAD
        return self.limits.json_bytes


def client_of(scope: Scope) -> str:
    """The address of a client; of IPv6 the network, as each client has 2^64 addresses.

    >>> client_of({"client": ("192.0.2.7", 1)}), client_of({"client": ("2001:db8::7", 1)})
    ('192.0.2.7', '2001:db8::/64')
    """
    host = (scope.get("client") or ("unknown", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(getattr(address, "ipv4_mapped", None) or address)


def too_often(reason: str, seconds: float) -> Response:
    """The refusal of a client that has to wait."""
    again = {"Retry-After": str(max(1, math.ceil(seconds)))}
    return refusal(429, f"{reason}; try again later.", again)


def too_large(most_bytes: int) -> str:
    """The sentence that refuses a body."""
    return f"The body of the request is larger than {most_bytes // 2**20} MB."


def token_form(*, wrong: bool, headers: dict[str, str]) -> Response:
    """A page with a field for the token, which comes back once in the address."""
    complaint = '<p class="notice error" role="alert">That is not its token.</p>' if wrong else ""
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    own = {
        "Content-Security-Policy": policy.replace("form-action 'none'", "form-action 'self'"),
        "Connection": "close",
    }
    page = TOKEN_FORM.replace("<!-- complaint -->", complaint)
    return HTMLResponse(page, 401, headers | own)


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """An answer with one sentence; the body is not read, so the connection is closed."""
    return JSONResponse({"detail": sentence}, status, {"Connection": "close"} | (headers or {}))


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
