"""``lookalike data``: fetch a data set, or look whether it is sound."""

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["data"]

data = typer.Typer(no_args_is_help=True, help="Fetch a data set, or look whether it is sound.")

Name = Annotated[str, typer.Argument(help="A data set: 'lookalike list datasets' shows all.")]
Root = Annotated[Path | None, typer.Option(help="The folder that holds it.")]


@data.command()
def prepare(
    name: Name,
    root: Root = None,
    mirror: Annotated[
        str | None, typer.Option(help="Fetch the same files from this address.")
    ] = None,
) -> None:
    """Download, unpack and check a data set; after an interruption it goes on.

    Example: lookalike data prepare cub --root data
    """
    from lookalike import data as room
    from lookalike.cli.console import ConsoleWatcher

    with ConsoleWatcher() as watcher:
        images = room.prepare(
            name, root, lambda file, done, total: watcher.stage(file, done, total or 0), mirror
        )
    print(f"{name}: {len(images):,} images of {len(images.class_names):,} classes are ready")


@data.command()
def check(
    name: Name,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Count images and classes; name unreadable and duplicate images, and lonely classes.

    Example: lookalike data check folder --root photos
    """
    from lookalike import data as room
    from lookalike.cli.console import ConsoleWatcher

    images = room.load(name, root)
    with ConsoleWatcher() as watcher:
        report = room.check(images, lambda done, total: watcher.stage("reading", done, total))
    print(json.dumps(report.as_dict(), indent=2) if as_json else report)
