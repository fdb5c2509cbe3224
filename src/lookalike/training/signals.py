"""Ctrl-C and SIGTERM: stop after the step that is being made, and go on another time."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lookalike.errors import LookalikeError

__all__ = ["Interrupted", "stop_signals"]


class Interrupted(LookalikeError):
    """The run was asked to stop; the same command goes on where it stopped."""


@contextmanager
def stop_signals(enabled: bool = True) -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C or SIGTERM asks the run to stop after its step.

    Of several processes only the first one heeds them: it saves, and its end is that of all.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals are not ours there
        yield asked
        return

    def ask(number: int, _: FrameType | None) -> None:
        if enabled:
            asked.append(number)

    former = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
