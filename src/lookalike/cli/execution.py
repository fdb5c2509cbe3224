"""Where training runs are computed: the options that ``study run`` and ``reproduce`` share."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lookalike.errors import BadInput
from lookalike.progress import ConsoleWatcher

if TYPE_CHECKING:
    from lookalike.study.driver import Executor

Results = Annotated[Path | None, typer.Option(help="The folder of results; default: results/NAME.")]


@dataclass(frozen=True)
class Execution:
    """Where training runs are computed, how many at a time, and where their results are."""

    results: Results = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Training runs at the same time; default: all cores.")
    ] = None
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Processes on this machine, or a Ray cluster.")
    ] = "local"
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; default: this machine.")
    ] = None
    cpus: Annotated[float, typer.Option(help="CPUs of one training run, on Ray.")] = 1
    gpus: Annotated[
        float, typer.Option(help="GPUs of one training run, on Ray: a fraction or whole ones.")
    ] = 0

    @property
    def make_executor(self) -> Callable[..., AbstractContextManager["Executor"]]:
        """What executes training runs; it is called with a watcher."""
        from lookalike.data.parallel import available_cores
        from lookalike.study.local import LocalExecutor
        from lookalike.study.ray import RayExecutor

        if self.executor == "ray":
            return partial(
                RayExecutor, self.address, workers=self.workers, cpus=self.cpus, gpus=self.gpus
            )
        if self.address is not None or self.gpus or self.cpus != 1:
            raise BadInput("--address, --cpus and --gpus need --executor ray")
        return partial(LocalExecutor, self.workers or available_cores())

    @contextmanager
    def running(self, what: str) -> Iterator[Mapping[str, Any]]:
        """The arguments of what trains, while progress is shown; stopped, it says how to resume.

        Args:
            what: What the same command resumes.

        Yields:
            ``executor``, ``folder`` and ``watcher``.
        """
        from lookalike.signals import Interrupted

        executor = self.make_executor
        try:
            with ConsoleWatcher() as watcher:
                yield {
                    "executor": partial(executor, watcher=watcher),
                    "folder": self.results,
                    "watcher": watcher,
                }
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; the same command resumes the {what}") from None


def with_execution(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Execution` in place of its parameter ``execution``.

    Args:
        command: The function of a command.

    Returns:
        The same with an option for each field.
    """
    options = inspect.signature(Execution).parameters
    own = inspect.signature(command).parameters

    @wraps(command)
    def with_options(**given: Any) -> None:
        chosen = Execution(**{name: given.pop(name) for name in options})
        command(**given, execution=chosen)

    shown = [
        option
        for name, one in own.items()
        for option in (options.values() if name == "execution" else [one])
    ]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in shown]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(with_options)["__signature__"] = inspect.Signature(parameters)
    return with_options
