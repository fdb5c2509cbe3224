"""Several processes that answer on one socket: uvicorn's supervisor, and what it starts.

A worker answers its supervisor once it has imported this module, so nothing here imports much.
"""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from socket import socket
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead
from uvicorn import Config
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from lookalike.errors import LookalikeError
from lookalike.serve.limits import Options
from lookalike.serve.monitoring import configure_logging, event
from lookalike.serve.tokens import Buckets

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class WorkerApplication:
    """Makes the application of a worker.

    Args:
        options: How the index is served.
        state: The memory in which the workers count requests.
        threads: How many cores to use.
    """

    options: Options
    state: MutableSequence[float]
    threads: int

    def __call__(self) -> "FastAPI":
        """Open the index, load the model; a failure ends the server."""
        threading.Thread(target=_end_with_parent, daemon=True).start()
        configure_logging(self.options.log)
        try:
            from lookalike.search.index import Index
            from lookalike.serve.application import application

            index = Index.open(self.options.address)
            rate = self.options.rate
            searches = Buckets(rate, self.state) if rate is not None else None
            return application(index, self.options, searches=searches, threads=self.threads)
        except LookalikeError as error:
            event(str(error), logging.ERROR)
            raise SystemExit(STARTUP_FAILURE) from error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class Supervisor(Multiprocess):
    """Uvicorn's supervisor, which says when all workers answer, and which one died.

    A closed terminal stops it, as it stops every command; uvicorn's starts the workers again.

    Args:
        config: Of uvicorn, with the number of workers.
        bound: The socket on which all of them answer.
        ready: Is called once all of them answer.
    """

    def __init__(self, config: Config, bound: socket, ready: Callable[[], None]) -> None:
        hangup = signal.getsignal(signal.SIGHUP)
        super().__init__(config, [bound])
        if hangup is signal.SIG_IGN:  # nohup
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._ready: Callable[[], None] | None = ready

    def run(self) -> None:
        """Keep the workers running until a signal stops them.

        Raises:
            LookalikeError: A worker could not start: it would fail again.
        """
        super().run()
        if any(one.exitcode == STARTUP_FAILURE for one in self.processes):
            raise LookalikeError("a worker of the server could not start; its message is above")

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died."""
        former = [one.pid for one in self.processes]
        super().keep_subprocess_alive()
        for pid in {*former} - {one.pid for one in self.processes}:
            event("a worker died and is replaced", logging.ERROR, pid=pid)
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
        if self._ready is not None and all(one.is_ready() for one in self.processes):
            self._ready()
            self._ready = None

    def handle_hup(self) -> None:
        """Stop."""
        self.should_exit.set()
