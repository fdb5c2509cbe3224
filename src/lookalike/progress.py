"""What a user sees while a command works: progress reports, and text that is safe to print."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from lookalike.errors import escaped, masked

__all__ = ["ConsoleWatcher", "EscapedStream", "TimeLeft", "Watcher", "duration"]


class EscapedStream:
    """Standard output or error of a command: whatever is printed is :func:`escaped`.

    It is no terminal, so that libraries print without colours; ``stream`` may be one.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text, control characters as escapes."""
        self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, control characters as escapes."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """No: escape sequences are not for here."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


SECONDS_TO_FIRST_LINE = 10
SECONDS_BETWEEN_LINES = 60
"""How often a log file is told the time left of a long stage."""


@dataclass
class TimeLeft:
    """The time left of one stage, by its speed so far, as lines that are rare enough for a log.

    >>> left = TimeLeft(done=0, started=100.0, due=110.0)
    >>> left.line("training", 5, 100, now=105.0)
    >>> left.line("training", 10, 100, now=110.0)
    'training: 10 of 100, about 90 s left'
    """

    done: int
    """How much was finished when the clock started."""
    started: float = field(default_factory=lambda: time.monotonic())
    due: float = field(default_factory=lambda: time.monotonic() + SECONDS_TO_FIRST_LINE)

    def line(self, name: str, done: int, total: int, now: float | None = None) -> str | None:
        """The next line, if it is time for one."""
        now = time.monotonic() if now is None else now
        if now < self.due or done <= self.done or done >= total:
            return None
        self.due = now + SECONDS_BETWEEN_LINES
        left = (now - self.started) * (total - done) / (done - self.done)
        return f"{name}: {done:,} of {total:,}, about {duration(left)} left"


def duration(seconds: float) -> str:
    """A duration in a unit that fits.

    >>> duration(3.2), duration(90), duration(600), duration(72_000), duration(9e5)
    ('3 s', '90 s', '10 min', '20 h', '10 days')
    """
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 3 * 86400)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


class Watcher:
    """Receives the progress of a run; does nothing unless overridden."""

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """``done`` of ``total`` units of the stage called ``name`` are finished."""

    def note(self, text: str) -> None:
        """A line of text about the run."""


class ConsoleWatcher(Watcher):
    """Progress bars on a terminal or in a notebook; without one, notes and the time left."""

    def __init__(self) -> None:
        terminal: TextIO = getattr(sys.stderr, "stream", sys.stderr)  # bars need its sequences
        self.console = Console(file=terminal, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}"),
            console=self.console,
            transient=True,
            disable=not (terminal.isatty() or self.console.is_jupyter),
        )
        self.tasks: dict[str, TaskID] = {}
        self.left: dict[str, TimeLeft] = {}

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Update a bar, which is removed when full; without a terminal, write the time left."""
        if self.bars.disable:
            left = self.left.setdefault(name, TimeLeft(done))
            if line := left.line(name, done, total):
                self.note(line)
            if done >= total:
                del self.left[name]
            return
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task(escaped(name), total=total, detail="")
        self.bars.update(self.tasks[name], completed=done, total=total, detail=escaped(detail))
        if done >= total:
            self.bars.remove_task(self.tasks.pop(name))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(escaped(masked(text)), soft_wrap=True, markup=False)
