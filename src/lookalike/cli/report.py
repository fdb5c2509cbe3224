"""``lookalike report``: one page on runs and studies, and their tables as files."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import Anyway, Metric, ResultFolders


def report(
    folders: ResultFolders,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The page; tables are written next to it.")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    metric: Metric = None,
    compare_published: Annotated[
        str | None,
        typer.Option(metavar="PAPER", help="Add the rows to a paper's table: metrix, thesis, dr."),
    ] = None,
    anyway: Anyway = False,
) -> None:
    """Write one HTML page that works offline, and CSV, Markdown and LaTeX tables next to it.

    Example: lookalike report results/laptop-reality-check -o page.html

    Example: lookalike report runs/cub-contrastive-0123456789ab --compare-published metrix
    """
    from lookalike.compare.contenders import gather
    from lookalike.report.descriptions import leading_sentence, title_of
    from lookalike.report.page import write_page

    gathered = gather(folders)
    command = ["lookalike", "report", *map(str, folders)]
    command += ["--compare-published", compare_published] if compare_published else []
    page, *tables = write_page(
        output,
        gathered,
        title or title_of(gathered),
        leading_sentence(gathered),
        commands=[shlex.join(command)],
        metric=metric,
        allow_unfair=anyway,
        paper=compare_published,
    )
    for sentence in gathered.skipped:
        print(f"note: {sentence}")
    print(f"The page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    print(f"Tables: {', '.join(str(path) for path in tables)}")
