"""The outermost layer: access, time and size of every request, security headers of every answer."""

import asyncio
import hashlib
import ipaddress
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.serve.limits import Limits, Refusal

OPEN_PATHS = frozenset({"/api/health", "/style.css", "/icon.svg"})
"""What needs no token: it says nothing about the pictures."""
ASKS_FOR_TOKEN = (Path(__file__).parent / "web" / "token.html").read_text(encoding="utf-8")
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
    """The outermost layer of the application.

    - On loopback only loopback's own names are answered, so that no other site can point its name
      at this machine and read the pictures (DNS rebinding); pages of other sites may not post.
    - With a ``token`` all but ``OPEN_PATHS`` needs it: ``Authorization: Bearer``, a cookie, or
      once ``?token=`` in the address, which sets the cookie and redirects. A browser without it
      gets a page with a field for it.
    - A body may have ``limits.upload_bytes``, a request ``limits.request_seconds``.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, token: str | None = None, loopback: bool = True
    ) -> None:
        self.app = app
        self.limits = limits
        self.token = token
        self.loopback = loopback
        # cookies do not know ports: two servers on one machine must not share one
        mark = hashlib.blake2b((token or "").encode(), digest_size=4).hexdigest()
        self.cookie = f"lookalike-{mark}"
        self._most_bytes = limits.upload_bytes + _FORM_OVERHEAD
        self._too_large = f"The file is larger than {limits.upload_bytes / 2**20:.0f} MB."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        try:
            async with asyncio.timeout(self.limits.request_seconds):
                answer = self._answer(scope)
                if answer is None:
                    await self.app(scope, self._counted(receive), with_headers)
                else:
                    await answer(scope, receive, with_headers)
        except TimeoutError:
            if not begun:
                answer = refusal(408, "The request took too long and was dropped.")
                await answer(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """The refusal of a request, or the redirection that sets the cookie; None: pass it on."""
        request = HTTPConnection(scope)
        headers = request.headers
        host = re.sub(r":\d*$", "", headers.get("host", ""))
        if self.loopback and not is_loopback(host):
            return refusal(421, "This server answers to this machine's own names only.")
        if scope["method"] == "POST" and headers.get("sec-fetch-site") == "cross-site":
            return refusal(403, "Requests from pages of other sites are refused.")
        if self.token is not None and scope["path"] not in OPEN_PATHS:
            given = request.query_params.getlist("token")
            if self._is_token(given) and scope["method"] in ("GET", "HEAD"):
                return self._set_cookie(request)
            kind, _, value = headers.get("authorization", "").partition(" ")
            given += [value.strip()] if kind.lower() == "bearer" else []
            given += [value for name, value in request.cookies.items() if name == self.cookie]
            if not self._is_token(given):
                needed = {"WWW-Authenticate": "Bearer"}
                if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                    return asks_for_token(wrong=bool(given), headers=needed)
                return refusal(401, "This server needs its token.", needed)
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._most_bytes:
            return refusal(413, self._too_large)
        return None

    def _is_token(self, given: Iterable[str]) -> bool:
        expected = (self.token or "").encode()
        return any(secrets.compare_digest(one.encode(), expected) for one in given)

    def _set_cookie(self, request: HTTPConnection) -> Response:
        """Move the token from the address, and the browser's history, to a cookie."""
        rest = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
        path = "/" + quote(request.scope["path"]).lstrip("/")  # "//host": another site
        response = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        secure = request.scope.get("scheme") == "https"
        response.set_cookie(self.cookie, self.token or "", httponly=True, secure=secure)
        return response

    def _counted(self, receive: Receive) -> Receive:
        """``receive`` that refuses a body that is too large."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most_bytes:
                raise Refusal(413, self._too_large)
            return message

        return counted


def asks_for_token(*, wrong: bool, headers: dict[str, str]) -> Response:
    """A page with a field for the token, which comes back once in the address."""
    complaint = '<p class="notice error" role="alert">That is not its token.</p>' if wrong else ""
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    own = {
        "Content-Security-Policy": policy.replace("form-action 'none'", "form-action 'self'"),
        "Connection": "close",
    }
    page = ASKS_FOR_TOKEN.replace("<!-- complaint -->", complaint)
    return HTMLResponse(page, 401, headers | own)


def refusal(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """An answer with one sentence; the body is not read, so the connection is closed."""
    return JSONResponse({"detail": sentence}, status, {"Connection": "close"} | (headers or {}))
