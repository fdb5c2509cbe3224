"""HTTP connections that do not wait for ever for a request."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["impatient_protocol"]


def impatient_protocol(silent_seconds: float) -> type[asyncio.Protocol]:
    """A protocol that closes a connection without a whole request head after so many seconds.

    Uvicorn itself waits without end for a client that sends nothing, or one letter a minute.
    """

    class ImpatientProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_request()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._await_request()

        def _await_request(self) -> None:
            self.loop.call_later(silent_seconds, self._close_if_none, self.cycle)

        def _close_if_none(self, former: Any) -> None:
            if self.cycle is former and not self.transport.is_closing():
                self.transport.close()

    return ImpatientProtocol
