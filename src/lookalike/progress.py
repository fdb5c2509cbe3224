"""Progress reports of long work."""

import sys
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

__all__ = ["ConsoleWatcher", "Watcher"]


class Watcher:
    """Receives the progress of a run; does nothing unless overridden."""

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """``done`` of ``total`` units of the stage called ``name`` are finished."""

    def note(self, text: str) -> None:
        """A line of text about the run."""


class ConsoleWatcher(Watcher):
    """Progress bars on a terminal or in a notebook; without one, only the notes."""

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

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Update a bar; a full one is removed."""
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task(name, total=total, detail="")
        self.bars.update(self.tasks[name], completed=done, total=total, detail=detail)
        if done >= total:
            self.bars.remove_task(self.tasks.pop(name))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text, soft_wrap=True, markup=False)
