"""The options that several commands share, and how help shows them."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
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
    """Errors in arguments show no password; help shows no type of flags, which take no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left."""
        try:
            return list(super().parse_args(ctx, args))  # type: ignore[misc]
        except Exception as error:  # a UsageError of the click inside of typer, or of click
            if "message" in vars(error):
                vars(error)["message"] = masked(vars(error)["message"])
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class Command(Parsing, TyperCommand):
    """A command of ours."""


class Group(Parsing, TyperGroup):
    """A group of commands of ours."""


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


def print_json(value: Any) -> None:
    """Print what ``--json`` asks for."""
    print(json.dumps(value, indent=2, default=_as_mapping))


def _as_mapping(value: Any) -> Any:
    return value.as_mapping() if hasattr(value, "as_mapping") else str(value)


def print_result(value: Any, text: object, as_json: bool) -> None:
    """Print a value as JSON, or the text for people."""
    if as_json:
        print_json(value)
    else:
        print(text)


def print_values(values: dict[str, Any], as_json: bool) -> None:
    """Print names and values, a line each."""
    if as_json:
        print_json(values)
        return
    width = max(map(len, values))
    for name, value in values.items():
        print(f"{name:<{width}} {', '.join(value) if isinstance(value, list) else value}")


def print_lines(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts as columns that are as wide as their longest one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


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
