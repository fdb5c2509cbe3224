"""``lookalike data``: download a data set, or check it."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson, print_result
from lookalike.progress import ConsoleWatcher

data = typer.Typer(no_args_is_help=True, help="Download a data set, or check it.")

Name = Annotated[str, typer.Argument(help="A data set; 'lookalike list datasets' lists them.")]
Root = Annotated[Path | None, typer.Option(help="The folder of the data set.")]


@data.command()
def prepare(
    name: Name,
    root: Root = None,
    mirror: Annotated[
        str | None, typer.Option(help="Download the same files from this address.")
    ] = None,
) -> None:
    """Download, unpack and check a data set; after an interruption it resumes.

    Example: lookalike data prepare cub --root data
    """
    from lookalike import data as room

    with ConsoleWatcher() as watcher:
        images = room.prepare(
            name, root, lambda file, done, total: watcher.stage(file, done, total or 0), mirror
        )
    print(f"{name}: {len(images):,} images of {len(images.class_names):,} classes are ready")


@data.command()
def check(
    name: Name,
    root: Root = None,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Read every file again, whatever the cache has.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count images and classes; list unreadable and duplicate images, and classes of one image.

    Example: lookalike data check folder --root photos

    The exit code is 1 where 'lookalike train' would refuse the data set; the last lines say why.
    """
    from lookalike import data as room

    with ConsoleWatcher() as watcher:
        reading = "reading files to know their content"
        images = room.load(name, root, False, lambda *done: watcher.stage(reading, *done), rehash)
        report = room.check(images, lambda done, total: watcher.stage("reading", done, total))
    print_result(report.as_dict(), report, as_json)
    if report.refusals:
        raise typer.Exit(1)
