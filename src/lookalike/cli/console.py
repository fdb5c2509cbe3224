"""The options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
