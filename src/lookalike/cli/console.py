"""The options that several commands share, and how help shows them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose help shows a flag as ``--json``, not as an option with a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, flags without a type."""
        return without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, with flags as those of :class:`Command`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, flags without a type."""
        return without_types(super().get_params(ctx))


def without_types(parameters: list[Any]) -> list[Any]:
    """The parameters; help shows no type of those that take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def print_next(*commands: str) -> None:
    """Print what one may do now, to standard error: results are on standard output."""
    for number, command in enumerate(commands):
        typer.echo(f"{'next:' if number == 0 else '     '} lookalike {command}", err=True)


def print_skipped(skipped: list[Any]) -> None:
    """Print the pictures that could not be used."""
    for one in skipped[:10]:
        print(f"  skipped {one.path}: {one.reason}")
    if len(skipped) > 10:
        print(f"  and {len(skipped) - 10:,} more (--json names all)")


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
Network = Annotated[str | None, typer.Option(help="A pretrained network instead of a run.")]
Weights = Annotated[
    str, typer.Option(help="The file of a pretrained network's weights; else ImageNet's.")
]
Transform = Annotated[str, typer.Option(help="The transform of a pretrained network.")]
