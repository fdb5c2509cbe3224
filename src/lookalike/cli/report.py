"""``lookalike report``: one page about runs and studies, and their tables as files."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|STUDY...", help="Folders of runs, of studies, or of many runs."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The page; tables go beside it.")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="What ranks; the study's own, else map@r.")
    ] = None,
    compare_published: Annotated[
        str | None,
        typer.Option(metavar="PAPER", help="Put our rows in a paper's table: metrix, thesis, dr."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Rank rows that differ beyond the method, and say so.")
    ] = False,
) -> None:
    """Write one HTML page that needs no network, and CSV, Markdown and LaTeX tables beside it.

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
        anyway=anyway,
        paper=compare_published,
    )
    for sentence in gathered.skipped:
        print(f"note: {sentence}")
    print(f"The page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    print(f"Tables: {', '.join(str(path) for path in tables)}")
