"""``lookalike demo``: the main job, on data that need no download."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where runs and the page go.")
    ] = Path("demo"),
) -> None:
    """Train four losses on characters, test them on unseen ones, and write a page about it.

    Example: lookalike demo -o demo
    """
    from lookalike.cli.console import ConsoleWatcher
    from lookalike.report.demo import run_demo
    from lookalike.report.tables import print_scores

    with ConsoleWatcher() as watcher:
        runs, page = run_demo(output, watcher)
    print_scores(runs)
    print(f"The page: {page}")
