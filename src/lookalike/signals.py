"""Ctrl-C, SIGTERM and a closed terminal: one sentence and exit code 130, whenever they come.

A command ends at once (:class:`Stopping`), a training after its step (:func:`stop_signals`).
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

from lookalike.errors import LookalikeError

__all__ = ["SIGNALS", "STOPPED", "Interrupted", "Stopping", "stop_signals"]

STOPPED = 130
"""The exit code after Ctrl-C, SIGTERM or SIGHUP."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SENTENCE = "stopped; the same command starts again"
SECONDS_BEFORE_RAISING_AGAIN = 0.05


class Interrupted(LookalikeError):
    """Work was stopped by a signal; the same command resumes it."""

    exit_code = STOPPED


def _handle(react: Callable[[int], None]) -> dict[signal.Signals, Any]:
    """Let ``react`` handle the signals, and end the process at the third; the former handlers.

    Those that the process was started to ignore (``nohup``, a job in the background) are ignored.
    Only the main thread can set handlers.
    """
    received = 0

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received > 2:
            os._exit(STOPPED)
        react(number)

    if threading.current_thread() is not threading.main_thread():
        return {}
    caught = [one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    return {number: signal.signal(number, handle) for number in caught}


@contextmanager
def stop_signals(enabled: bool = True) -> Iterator[list[int]]:
    """A list of the signals received meanwhile; a training stops after its step.

    Of several processes only the first one reacts: it saves, and its end ends all. A signal that
    came too late for the last step is raised again at the end of the block. A third signal ends the
    process at once, whatever it waits for.
    """
    received: list[int] = []
    former = _handle(received.append if enabled else lambda _: None)
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])


class Stopping:
    """A process that the first signal ends with KeyboardInterrupt, and in one sentence.

    While it cleans up, a second signal is ignored (a shell, make or torchrun may send several), and
    a third one ends it at once. The handlers stay when the block ends, because an interpreter that
    is shutting down would print a traceback. Signals that the process was started to ignore
    (``nohup``, a job in the background) are ignored.
    """

    def __init__(self) -> None:
        self.received = 0
        self.ended = False

    def __enter__(self) -> Self:
        if _handle(self._react):
            sys.unraisablehook = self._raise_again
            atexit.register(self._last)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.ended = True
        exited = isinstance(error, SystemExit) and error.code == STOPPED  # by the code of others
        if not self.received and not exited and not isinstance(error, KeyboardInterrupt):
            return
        self.received = max(1, self.received)
        if error is None or not (exited and self._told(error)):
            _print(SENTENCE)
        sys.exit(STOPPED)

    def _told(self, error: BaseException) -> bool:
        """Whether the command has printed a sentence of its own, about how to resume."""
        cause = error.__context__
        return isinstance(cause, LookalikeError) and cause.exit_code == STOPPED

    def _react(self, number: int) -> None:
        self.received += 1
        self.number = number
        if self.received == 1 and not self.ended:
            raise KeyboardInterrupt

    def _last(self) -> None:
        """What the interpreter does last: it must not set our handlers aside, nor use its own code.

        It ends by SIGINT itself where a KeyboardInterrupt has passed through ``exec``.
        """
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.received:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(STOPPED)

    def _raise_again(self, lost: Any) -> None:
        """Repeat a KeyboardInterrupt that came where Python drops exceptions: in a destructor."""
        if not self.received or not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
        elif not self.ended:
            self.received = 0
            again = threading.Timer(SECONDS_BEFORE_RAISING_AGAIN, self._send)
            again.daemon = True
            again.start()

    def _send(self) -> None:
        if not self.ended:
            os.kill(os.getpid(), self.number)


def _print(sentence: str) -> None:
    try:
        print(f"lookalike: {sentence}", file=sys.stderr, flush=True)
    except OSError:  # the terminal is gone; what is printed from here on must not fail
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
