"""Progress reports of long work."""

import sys
import time
from dataclasses import dataclass, field
from typing import Self

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

__all__ = ["ConsoleWatcher", "TimeLeft", "Watcher", "duration"]


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
        self.console = Console(stderr=True, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}"),
            console=self.console,
            transient=True,
            disable=not (sys.stderr.isatty() or self.console.is_jupyter),
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
            self.tasks[name] = self.bars.add_task(name, total=total, detail="")
        self.bars.update(self.tasks[name], completed=done, total=total, detail=detail)
        if done >= total:
            self.bars.remove_task(self.tasks.pop(name))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text, soft_wrap=True, markup=False)
