"""Progress on a terminal, and the options that several commands share."""

import sys
from pathlib import Path
from typing import Annotated, Self

import typer
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

AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Page = Annotated[Path | None, typer.Option(help="Write an HTML page.")]
ResultFolders = Annotated[
    list[Path],
    typer.Argument(metavar="RUN|STUDY...", help="Folders of runs, of studies, or of many runs."),
]
Metric = Annotated[
    str | None,
    typer.Option(help="The metric that ranks; by default the study's own, else map@r."),
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Rank rows that differ beyond the method, and say so.")
]


class ConsoleWatcher(Watcher):
    """Progress bars on a terminal; without one, only the notes."""

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
