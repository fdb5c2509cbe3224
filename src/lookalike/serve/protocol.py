"""Uvicorn's HTTP protocol, with limits on connections that it does not have."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from lookalike.serve.limits import Limits

FULL = b'{"detail":"Too many connections; try again soon."}'
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(FULL), FULL)
)


def closing_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """A protocol that closes a connection without a complete request head in time.

    Uvicorn's own limits do not: with ``limit_concurrency=256`` and a timeout round the application,
    256 silent connections get every later request a 503 for as long as they stay open. Beyond
    ``limits.connections`` a connection gets a 503 with ``Retry-After`` and is closed.
    """

    class ClosingProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(BUSY)
                transport.close()
                return
            self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._deadline is not None:
                self._deadline.cancel()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_request()

        def _await_request(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()  # a timer keeps its connection and request in memory
            self._deadline = self.loop.call_later(
                limits.silent_seconds, self._close_if_none, self.cycle
            )

        def _close_if_none(self, former: Any) -> None:
            if self.cycle is former and not self.transport.is_closing():
                self.transport.close()

    return ClosingProtocol
