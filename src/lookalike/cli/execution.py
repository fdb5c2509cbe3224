"""Where work is computed: options that several commands share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lookalike.errors import BadInput
from lookalike.progress import ConsoleWatcher

Results = Annotated[Path | None, typer.Option(help="The folder of results; default: results/NAME.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Training runs, or shards, at the same time; default: all cores."),
]
Executor = Annotated[Literal["local", "ray"], typer.Option(help="This machine, or a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster; default: this machine.")
]
Cpus = Annotated[float, typer.Option(help="CPUs of one worker, on Ray.")]
Gpus = Annotated[float, typer.Option(help="GPUs of one worker, on Ray: a fraction or whole ones.")]


@dataclass(frozen=True)
class Execution:
    """Where work is computed, and how much at a time.

    Args:
        executor: This machine, or a Ray cluster.
        address: Of the cluster.
        workers: How much at a time.
        cpus: CPUs of one worker on the cluster.
        gpus: GPUs of one worker on the cluster.

    Raises:
        BadInput: Options of a cluster are given without one.
    """

    executor: str = "local"
    address: str | None = None
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.executor == "local" and (self.address is not None or self.gpus or self.cpus != 1):
            raise BadInput("--address, --cpus and --gpus need --executor ray")

    @property
    def on_cluster(self) -> dict[str, Any]:
        """The options of a cluster; empty: this machine."""
        if self.executor == "local":
            return {}
        names = ("address", "workers", "cpus", "gpus")
        return {name: getattr(self, name) for name in names}

    @contextmanager
    def running(self, what: str) -> Iterator[Mapping[str, Any]]:
        """The arguments of what trains, while progress is shown; stopped, it says how to resume.

        Args:
            what: What the same command resumes.

        Yields:
            ``executor`` and ``watcher``.
        """
        from lookalike.data.parallel import available_cores
        from lookalike.signals import Interrupted
        from lookalike.study.local import LocalExecutor
        from lookalike.study.ray import RayExecutor

        make: partial[Any] = partial(LocalExecutor, self.workers or available_cores())
        if self.on_cluster:
            make = partial(RayExecutor, **self.on_cluster)
        try:
            with ConsoleWatcher() as watcher:
                yield {"executor": partial(make, watcher=watcher), "watcher": watcher}
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; the same command resumes the {what}") from None
