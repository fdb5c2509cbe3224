"""The command ``lookalike``: one file a command; they parse, call and print."""

import os
import sys
import time
import warnings
from typing import NoReturn, TextIO

import typer

from lookalike.cli.audit import audit
from lookalike.cli.compare import compare
from lookalike.cli.data import data
from lookalike.cli.demo import demo
from lookalike.cli.duplicates import duplicates
from lookalike.cli.evaluate import evaluate
from lookalike.cli.export import export
from lookalike.cli.index import index
from lookalike.cli.list import list_parts
from lookalike.cli.mislabelled import mislabelled
from lookalike.cli.report import report
from lookalike.cli.search import search
from lookalike.cli.serve import serve
from lookalike.cli.study import study
from lookalike.cli.train import train
from lookalike.errors import LookalikeError, LookalikeWarning

__all__ = ["app", "main"]

SECONDS_FOR_THE_FIRST = 10

STOPPED = 130
"""How a command ends that Ctrl-C stopped."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Teach a network which images look alike, and prove fairly how well it does.",
)
app.command()(demo)
app.command()(train)
app.command()(evaluate)
app.command()(compare)
app.command()(audit)
app.command()(report)
app.command()(search)
app.command()(export)
app.command()(duplicates)
app.command()(mislabelled)
app.command()(serve)
app.command("list")(list_parts)
app.add_typer(data, name="data")
app.add_typer(study, name="study")
app.add_typer(index, name="index")


def main() -> None:
    """Run the command line; what goes wrong becomes one sentence and an exit code."""
    warnings.showwarning = in_one_line
    try:
        app()
    except SystemExit as ended:
        if ended.code == STOPPED:
            print("lookalike: stopped; the same command starts again", file=sys.stderr)
        raise
    except LookalikeError as error:
        end(str(error), error.exit_code)
    except (FileExistsError, NotADirectoryError, PermissionError, FileNotFoundError) as error:
        end(f"{error.strerror}: '{error.filename}'", 2)
    except OSError as error:
        end(str(error), 1)


def end(sentence: str, exit_code: int) -> NoReturn:
    """Say what went wrong, once.

    Of the processes that torchrun has started, the first one says it. The others give it time:
    torchrun ends them all when one has ended.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0":
        time.sleep(SECONDS_FOR_THE_FIRST)
    else:
        print(f"lookalike: {sentence}", file=sys.stderr)
    sys.exit(exit_code)


def in_one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings as a sentence, others as Python shows them."""
    if issubclass(category, LookalikeWarning):
        print(f"lookalike: {message}", file=sys.stderr)
    else:
        print(
            warnings.formatwarning(message, category, filename, lineno, line),
            end="",
            file=file or sys.stderr,
        )
