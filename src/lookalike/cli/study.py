"""``lookalike study``: tune and test many methods under one protocol, and show the progress."""

from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.console import AsJson, print_next, print_result
from lookalike.cli.execution import Address, Cpus, Execution, Executor, Gpus, Results, Workers

StudyOrFolder = Annotated[
    list[str],
    typer.Argument(metavar="STUDY|FOLDER [KEY=VALUE]...", help="As of run, or its results."),
]

study = typer.Typer(no_args_is_help=True, help="Tune and test many methods under one protocol.")


@study.command()
def run(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY [KEY=VALUE]...",
            help="A YAML file or recipe:studies/NAME, then keys to override.",
        ),
    ],
    minutes: Annotated[
        float | None, typer.Option(help="The time for it; rows that do not fit in are left out.")
    ] = None,
    results: Results = None,
    workers: Workers = None,
    executor: Executor = "local",
    address: Address = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    as_json: AsJson = False,
) -> None:
    """Run everything of a study that is not finished.

    Example: lookalike study run recipes/studies/laptop-reality-check.yaml tuner.trials=5

    If interrupted, the same command resumes; finished work is not repeated.
    """
    clock = None
    if minutes is not None:
        from lookalike.study.driver import Clock

        clock = Clock(60 * minutes)
    from lookalike.registry import trust
    from lookalike.study.config import load_study
    from lookalike.study.driver import run_study

    config = load_study(arguments[0], arguments[1:])
    trust(config)
    with Execution(executor, address, workers, cpus, gpus).running("study") as how:
        finished = run_study(config, **how, folder=results, clock=clock)
    show(finished.folder, as_json)
    if not as_json:
        print_next(f"compare {finished.folder}", f"report {finished.folder} -o page.html")


@study.command()
def status(
    arguments: StudyOrFolder,
    results: Results = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study: trials, best score so far, time left.

    Example: lookalike study status recipes/studies/laptop-reality-check.yaml
    """
    show(folder_of(arguments, results), as_json)


@study.command()
def watch(
    arguments: StudyOrFolder,
    results: Results = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8765,
    seconds: Annotated[int, typer.Option(min=1, help="The browser asks again after these.")] = 30,
) -> None:
    """Serve the page of a study while it runs; it follows the results.

    Example: lookalike study watch results/tiny
    """
    from lookalike.report.watch import LivePage, serve_page

    page = LivePage(folder_of(arguments, results), seconds)
    serve_page(page, port, lambda address: print(f"{address}  (Ctrl-C stops)", flush=True))


def folder_of(arguments: list[str], results: Path | None) -> Path:
    """The results of a study that is named by its folder, its file or ``recipe:studies/NAME``."""
    from lookalike.study.config import load_study
    from lookalike.study.plan import results_folder
    from lookalike.study.table import is_study

    folder = Path(arguments[0])
    if is_study(folder):
        return folder
    return results_folder(load_study(arguments[0], arguments[1:]), results)


def show(folder: Path, as_json: bool) -> None:
    """Print the progress of a study."""
    from lookalike.study.status import status_of, status_table

    progress = status_of(folder)
    print_result(progress, status_table(progress), as_json)
