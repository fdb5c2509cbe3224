"""The options that several commands share, and how help shows them."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup

from lookalike.errors import masked
from lookalike.progress import EscapedStream
from lookalike.registry import trust


class Parsing:
    """Arguments whose errors show no password."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left."""
        try:
            return list(super().parse_args(ctx, args))  # type: ignore[misc]
        except Exception as error:  # a UsageError of the click inside of typer, or of click
            if "message" in vars(error):
                vars(error)["message"] = masked(vars(error)["message"])
            raise


class Command(Parsing, TyperCommand):
    """A command whose help shows a flag as ``--json``, not as an option with a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, flags without a type."""
        return without_types(super().get_params(ctx))


class Group(Parsing, TyperGroup):
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


def safely(command: Callable[..., None]) -> Callable[..., None]:
    """A command with what all have: the option ``--trust``, and output that is escaped."""

    @wraps(command)
    def trusting(trusted: list[str] | None, **options: Any) -> None:
        trust(trusted or [])
        with escaped_output():
            command(**options)

    own = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    option = inspect.Parameter("trusted", keyword, default=None, annotation=Trusted)
    shown = own.replace(parameters=[*own.parameters.values(), option])
    trusting.__signature__ = shown  # type: ignore[attr-defined]
    trusting.__annotations__ = {**command.__annotations__, "trusted": Trusted}
    return trusting


@contextmanager
def escaped_output() -> Iterator[None]:
    """Let nothing that is printed be obeyed by the terminal: labels and names may be anybody's."""
    out, error = EscapedStream(sys.stdout), EscapedStream(sys.stderr)
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, error)):
        yield


def print_next(*commands: str) -> None:
    """Print what one may do now, to standard error: results are on standard output."""
    for number, command in enumerate(commands):
        start = "next:" if number == 0 else "     "
        typer.echo(f"{start} lookalike {masked(command)}", err=True)


def print_skipped(skipped: list[Any]) -> None:
    """Print the pictures that could not be used."""
    for one in skipped[:10]:
        print(f"  skipped {one.path}: {one.reason}")
    if len(skipped) > 10:
        print(f"  and {len(skipped) - 10:,} more (--json names all)")


Trusted = Annotated[
    list[str] | None,
    typer.Option(
        "--trust", metavar="MODULE:NAME", help="Import this code, which a run or setting names."
    ),
]
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
Place = Annotated[str, typer.Argument(metavar="INDEX", help="A folder, or postgresql://...")]
Network = Annotated[str | None, typer.Option(help="A pretrained network instead of a run.")]
Weights = Annotated[
    str, typer.Option(help="The file of a pretrained network's weights; else ImageNet's.")
]
Transform = Annotated[str, typer.Option(help="The transform of a pretrained network.")]
