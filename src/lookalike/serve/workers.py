"""Several processes that answer on one socket, and the one that looks after them."""

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from lookalike.errors import LookalikeError
from lookalike.serve.limits import cores
from lookalike.serve.logs import event, set_up
from lookalike.serve.metrics import SHARED
from lookalike.serve.options import Options
from lookalike.serve.tokens import Buckets, SharedState

LOOK_SECONDS = 0.2
SHORT_LIFE = 10.0
"""A worker that lived shorter than this is replaced later, and later each time."""
LONGEST_PAUSE = 30.0


@dataclass
class Worker:
    """A place for a worker process."""

    process: SpawnProcess | None = None
    started: float = 0.0
    pause: float = 0.0
    due: float = 0.0


def supervise(
    options: Options, bound: socket.socket, count: int, ready: Callable[[], None]
) -> None:
    """Keep ``count`` processes running until SIGINT or SIGTERM; then let them finish.

    A worker that dies is replaced. Where the first ones die before they were ready, the server
    ends: they would die again.
    """
    context = multiprocessing.get_context("spawn")  # threads and fork do not go together
    numbers = context.RawArray("d", Buckets.initial(len(options.tokens.names)))
    prepared = context.Semaphore(0)
    set_up(options.log)
    with TemporaryDirectory(prefix="lookalike-metrics-") as folder:
        os.environ[SHARED] = folder  # prometheus_client reads it when a worker imports it
        shared = SharedState(numbers, Path(folder) / "rates.lock")
        workers = [Worker() for _ in range(count)]
        arguments = (options, bound, shared, max(1, cores() // count), prepared)
        serving, waiting_for = False, count
        try:
            while True:
                for worker in workers:
                    _keep(worker, context, arguments, folder, serving)
                while waiting_for and prepared.acquire(block=False):
                    waiting_for -= 1
                    if not waiting_for:
                        serving = True
                        ready()
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            pass
        finally:
            _stop(workers, options.limits.drain_seconds)
            del os.environ[SHARED]


def _keep(
    worker: Worker, context: Any, arguments: tuple[Any, ...], folder: str, serving: bool
) -> None:
    """Start a worker, or replace it if it has died."""
    now = time.monotonic()
    process = worker.process
    if process is not None:
        if process.is_alive():
            return
        mark_process_dead(process.pid, folder)  # type: ignore[no-untyped-call]
        worker.process = None
        if not serving:
            raise LookalikeError("a worker of the server could not start; its message is above")
        short = now - worker.started < SHORT_LIFE
        worker.pause = min(LONGEST_PAUSE, max(0.5, 2 * worker.pause)) if short else 0.0
        worker.due = now + worker.pause
        event(
            "a worker died and is replaced",
            logging.ERROR,
            pid=process.pid,
            exitcode=process.exitcode,
        )
    if now >= worker.due:
        worker.process = context.Process(target=work, args=arguments, name="lookalike-worker")
        worker.process.start()
        worker.started = now


def _stop(workers: list[Worker], seconds: float) -> None:
    """End all workers; those that do not finish in time are killed."""
    alive = [worker.process for worker in workers if worker.process is not None]
    for process in alive:
        process.terminate()
    until = time.monotonic() + seconds + 5
    for process in alive:
        process.join(max(0.1, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def work(
    options: Options, bound: socket.socket, shared: SharedState, threads: int, prepared: Any
) -> None:
    """The life of a worker."""
    from lookalike.search.index import Index
    from lookalike.serve.server import interrupted_by_sigterm, run

    try:
        with interrupted_by_sigterm():
            threading.Thread(target=_end_with_parent, daemon=True).start()
            index = Index.open(options.place)
            run(index, options, bound, options.buckets(shared), threads, prepared.release)
    except KeyboardInterrupt:
        pass
    except LookalikeError as error:
        set_up(options.log)
        event(str(error), logging.ERROR)
        raise SystemExit(error.exit_code) from error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
