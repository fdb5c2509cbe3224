"""What a person sees while something runs: a bar with the time left, and a line now and then."""

import sys
from types import TracebackType
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

from lookalike.progress import Watcher

__all__ = ["ConsoleWatcher"]


class ConsoleWatcher(Watcher):
    """Bars on a terminal; without one, only the lines."""

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
            disable=not sys.stderr.isatty(),
        )
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Move a bar; one that is full goes away."""
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task(name, total=total, detail="")
        self.bars.update(self.tasks[name], completed=done, total=total, detail=detail)
        if done >= total:
            self.bars.remove_task(self.tasks.pop(name))

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self.console.print(text, soft_wrap=True, markup=False)
