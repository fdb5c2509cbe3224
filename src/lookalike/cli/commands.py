"""All commands of ``lookalike``, and what their errors become."""

import importlib.metadata
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Annotated, NoReturn, TextIO

import typer

from lookalike.cli.audit import audit
from lookalike.cli.choose import choose
from lookalike.cli.compare import compare
from lookalike.cli.console import Command, Group, safely
from lookalike.cli.data import data
from lookalike.cli.demo import demo
from lookalike.cli.duplicates import duplicates
from lookalike.cli.embed import embed
from lookalike.cli.evaluate import evaluate
from lookalike.cli.export import export
from lookalike.cli.extras import missing_extra
from lookalike.cli.index import index
from lookalike.cli.list import list_parts
from lookalike.cli.mislabelled import mislabelled
from lookalike.cli.report import report
from lookalike.cli.reproduce import reproduce
from lookalike.cli.search import search
from lookalike.cli.serve import serve
from lookalike.cli.study import study
from lookalike.cli.train import train
from lookalike.errors import LookalikeError, LookalikeWarning, escaped, masked
from lookalike.files import FULL

__all__ = ["app", "run"]

SECONDS_FOR_THE_FIRST_RANK = 10
OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
)
"""In the messages of exceptions that have no class of their own."""

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Teach a network which images look alike, and prove fairly how well it does.",
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, choose, train, evaluate, reproduce, compare, audit, report),
    *(embed, search, export, duplicates, mislabelled, serve),
)
for command in COMMANDS:
    app.command(no_args_is_help=command is train)(command)
app.command("list")(list_parts)
GROUPS = {"data": data, "study": study, "index": index}
for name, group in GROUPS.items():
    app.add_typer(group, name=name, cls=group.info.cls or Group)
for one in (app, *GROUPS.values()):
    for registered in one.registered_commands:
        registered.cls = Command
        assert registered.callback is not None
        registered.callback = safely(registered.callback)


def show_version(requested: bool) -> None:
    """Print the version and end."""
    if requested:
        print(importlib.metadata.version("lookalike"))
        raise typer.Exit


@app.callback()
def common_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Teach a network which images look alike, and prove fairly how well it does."""


def run() -> None:
    """Run the command line; an error becomes one sentence and an exit code."""
    warnings.showwarning = show_warning
    try:
        app()
    except LookalikeError as error:
        end(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        sentence = missing_extra(error.name or "")
        if sentence is None:
            raise
        end(sentence, 2)
    except (FileExistsError, NotADirectoryError, PermissionError, FileNotFoundError) as error:
        end(f"{error.strerror}: '{error.filename}'", 2)
    except OSError as error:
        remedy = "; free some space, and the same command resumes" * (error.errno in FULL)
        named = f": '{error.filename}'" if error.filename else ""
        end(f"{error.strerror or error}{named}{remedy}", 1)
    except RecursionError:
        end("a folder, or what is in a file, is nested too deep", 1)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_lack_of_memory(error):
            raise
        end(
            "there is not enough memory; take a smaller sampler.batch_size, train.accumulate or "
            "fewer workers",
            1,
        )


def is_lack_of_memory(error: Exception) -> bool:
    """Whether an exception of Python, torch or the loader of libraries is about memory."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)


def end(sentence: str, exit_code: int) -> NoReturn:
    """Print an error, once.

    Of the processes that torchrun has started, rank 0 prints it. The others give it time, because
    torchrun ends all processes when one has ended.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0":
        time.sleep(SECONDS_FOR_THE_FIRST_RANK)
    else:
        print(escaped(f"lookalike: {masked(sentence)}"), file=sys.stderr)
    sys.exit(exit_code)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show our own warnings as a sentence, others as Python does."""
    text = f"lookalike: {message}\n"
    if not issubclass(category, LookalikeWarning):
        text = warnings.formatwarning(message, category, filename, lineno, line)
    print(text, end="", file=file or sys.stderr)
