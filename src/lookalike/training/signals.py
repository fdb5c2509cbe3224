"""Ctrl-C and SIGTERM: stop after the current step, and resume later."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lookalike.errors import LookalikeError


class Interrupted(LookalikeError):
    """The run was stopped by a signal; the same command resumes it."""


@contextmanager
def stop_signals(enabled: bool = True) -> Iterator[list[int]]:
    """A list of the SIGINT and SIGTERM signals received; the run stops after its step.

    Of several processes only the first one reacts: it saves, and its end ends all.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which cannot set handlers
        yield received
        return

    def handle(number: int, _: FrameType | None) -> None:
        if enabled:
            received.append(number)

    former = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
