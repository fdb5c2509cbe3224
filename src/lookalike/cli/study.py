"""``lookalike study``: tune and test many methods under one protocol, and show the progress."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.console import AsJson, ConsoleWatcher
from lookalike.errors import BadInput

if TYPE_CHECKING:
    from lookalike.study.driver import Executor

study = typer.Typer(no_args_is_help=True, help="Tune and test many methods under one protocol.")

Results = Annotated[Path | None, typer.Option(help="The folder of results; default: results/NAME.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Trainings at the same time; default: all cores.")
]
ExecutorName = Annotated[
    Literal["local", "ray"], typer.Option(help="Processes on this machine, or a Ray cluster.")
]
Address = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster; default: this machine.")
]
Cpus = Annotated[float, typer.Option(help="CPUs of one training, on Ray.")]
Gpus = Annotated[
    float, typer.Option(help="GPUs of one training, on Ray: a fraction or whole ones.")
]
Storage = Annotated[
    str | None,
    typer.Option(help="postgresql://... to share a study; default: SQLite in the folder."),
]
Lease = Annotated[
    float, typer.Option(help="Seconds after which the work of a dead driver is taken over.")
]


@study.command()
def run(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY [KEY=VALUE]...",
            help="A YAML file or recipe:studies/NAME, then keys to override.",
        ),
    ],
    results: Results = None,
    workers: Workers = None,
    executor: ExecutorName = "local",
    address: Address = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    storage: Storage = None,
    lease: Lease = 30,
    as_json: AsJson = False,
) -> None:
    """Run everything of a study that is not finished.

    Example: lookalike study run recipes/studies/laptop-reality-check.yaml tuner.trials=5

    If interrupted, the same command resumes; finished work is not repeated.
    """
    from lookalike.study.config import load_study
    from lookalike.study.driver import run_study

    chosen = chosen_executor(executor, workers, address, cpus, gpus)
    config = load_study(arguments[0], arguments[1:])
    with resumable("study"), ConsoleWatcher() as watcher:
        found = run_study(
            config,
            partial(chosen, watcher=watcher),
            folder=results,
            storage=storage,
            lease=lease,
            watcher=watcher,
        )
    show(found.folder, as_json)


def chosen_executor(
    executor: Literal["local", "ray"],
    workers: int | None,
    address: str | None,
    cpus: float,
    gpus: float,
) -> Callable[..., AbstractContextManager["Executor"]]:
    """What executes trainings, by the options of a command; it is called with a watcher."""
    from lookalike.study.local import LocalExecutor
    from lookalike.study.ray import RayExecutor

    if executor == "ray":
        return partial(RayExecutor, address, workers=workers, cpus=cpus, gpus=gpus)
    if address is not None or gpus or cpus != 1:
        raise BadInput("--address, --cpus and --gpus need --executor ray")
    return partial(LocalExecutor, workers or os.cpu_count() or 1)


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Say after an interruption how to go on."""
    from lookalike.training.signals import Interrupted

    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the same command resumes the {what}") from None


@study.command()
def status(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="STUDY|FOLDER [KEY=VALUE]...", help="As of run, or its results."),
    ],
    results: Results = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study: trials, best score so far, time left.

    Example: lookalike study status recipes/studies/laptop-reality-check.yaml
    """
    from lookalike.study.config import load_study
    from lookalike.study.plan import results_folder

    folder = Path(arguments[0])
    if not (folder / "study.json").is_file():
        folder = results_folder(load_study(arguments[0], arguments[1:]), results)
    show(folder, as_json)


def show(folder: Path, as_json: bool) -> None:
    """Print the progress of a study."""
    from lookalike.study.intervals import Interval
    from lookalike.study.status import status_of, status_table

    found = status_of(folder)
    shown = json.dumps(found, indent=2, default=Interval.as_mapping) if as_json else None
    print(shown or status_table(found))
