"""Ctrl-C, SIGTERM and SIGHUP: stop after the current step, and resume later."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lookalike.errors import LookalikeError


class Interrupted(LookalikeError):
    """The run was stopped by a signal; the same command resumes it."""

    exit_code = 130


@contextmanager
def stop_signals(enabled: bool = True) -> Iterator[list[int]]:
    """A list of the SIGINT, SIGTERM and SIGHUP signals received; the run stops after its step.

    Of several processes only the first one reacts: it saves, and its end ends all. SIGHUP stays
    ignored where it was (``nohup``). A signal that came too late for the last step is raised again
    at the end of the block. A third signal ends the process at once, whatever it waits for.
    """
    received: list[int] = []
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which cannot set handlers
        yield received
        return

    def handle(number: int, _: FrameType | None) -> None:
        signals.append(number)
        if len(signals) > 2:
            os._exit(Interrupted.exit_code)
        if enabled:
            received.append(number)

    caught = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        caught.append(signal.SIGHUP)
    former = {number: signal.signal(number, handle) for number in caught}
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])
