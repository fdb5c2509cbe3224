"""``lookalike demo``: training, test and report on data that need no download."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.progress import ConsoleWatcher


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder of the runs and the page.")
    ] = Path("demo"),
) -> None:
    """Train four losses on characters, test them on unseen ones, and write a report.

    Example: lookalike demo -o demo
    """
    from rich.console import Console

    from lookalike.compare.comparison import chosen_metric, compare, ranking_metrics
    from lookalike.report.demo import run_demo
    from lookalike.report.scores import compact, score_table
    from lookalike.report.tables import as_text

    with ConsoleWatcher() as watcher:
        methods, page = run_demo(output, watcher)
    (part,) = compare(methods, chosen_metric(methods)).datasets
    Console().print(as_text(compact(score_table(part, ranking_metrics(methods)))))
    print(f"The page: {page}")
