"""Several processes that answer on one socket, and the one that looks after them."""

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory
from typing import Any, Self

from prometheus_client.multiprocess import mark_process_dead

from lookalike.errors import LookalikeError
from lookalike.serve.limits import cores
from lookalike.serve.logs import configure_logging, event
from lookalike.serve.metrics import SHARED
from lookalike.serve.options import Options
from lookalike.serve.tokens import Buckets

POLL_SECONDS = 0.2
SHORT_LIFE = 10.0
"""A worker that lived shorter than this is replaced after a delay, which doubles each time."""
MAX_BACKOFF = 30.0


@dataclass
class Worker:
    """A worker process, and when it is started again if it dies.

    Args:
        process: The process; None: it is to be started.
        started: When it was started.
        backoff: How long its replacement was delayed, in seconds.
        start_at: Not before this time is it started.
    """

    process: SpawnProcess | None = None
    started: float = 0.0
    backoff: float = 0.0
    start_at: float = 0.0


class StopSignals:
    """Remembers SIGINT and SIGTERM.

    A ``KeyboardInterrupt`` could come while a process is being started, which would then be half
    known.
    """

    def __init__(self) -> None:
        self.received = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _receive(self, *_: object) -> None:
        self.received = True


def supervise(
    options: Options, bound: socket.socket, count: int, ready: Callable[[], None]
) -> None:
    """Keep worker processes running until SIGINT or SIGTERM; then let them finish.

    A worker that dies is replaced.

    Args:
        options: How the index is served.
        bound: The socket on which all of them answer.
        count: How many there are.
        ready: Is called once all of them answer searches.

    Raises:
        LookalikeError: One of the first workers died before all were ready: it would die again.
    """
    context = multiprocessing.get_context("spawn")  # threads and fork do not go together
    state = context.RawArray("d", Buckets.size(len(options.tokens.names)))
    loaded = context.Semaphore(0)
    configure_logging(options.log)
    with TemporaryDirectory(prefix="lookalike-metrics-") as folder, StopSignals() as stop:
        os.environ[SHARED] = folder  # prometheus_client reads it when a worker imports it
        workers = [Worker() for _ in range(count)]
        arguments = (options, bound, state, max(1, cores() // count), loaded)
        loading = count
        try:
            while not stop.received:
                for worker in workers:
                    _ensure_running(worker, context, arguments, folder, serving=not loading)
                while loading and loaded.acquire(block=False):
                    loading -= 1
                    if not loading:
                        ready()
                time.sleep(POLL_SECONDS)
        finally:
            _stop(workers, options.limits.drain_seconds)
            del os.environ[SHARED]


def _ensure_running(
    worker: Worker, context: Any, arguments: tuple[Any, ...], folder: str, *, serving: bool
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
        worker.backoff = min(MAX_BACKOFF, max(0.5, 2 * worker.backoff)) if short else 0.0
        worker.start_at = now + worker.backoff
        event(
            "a worker died and is replaced",
            logging.ERROR,
            pid=process.pid,
            exitcode=process.exitcode,
        )
    if now >= worker.start_at:
        process = context.Process(target=run_worker, args=arguments, name="lookalike-worker")
        process.start()
        worker.process, worker.started = process, now


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


def run_worker(
    options: Options,
    bound: socket.socket,
    state: MutableSequence[float],
    threads: int,
    loaded: Any,
) -> None:
    """Serve the index in this process until SIGTERM, or until the supervisor is gone.

    Args:
        options: How the index is served.
        bound: The socket that the workers share.
        state: The memory in which the workers count requests.
        threads: How many cores to use.
        loaded: A semaphore, released once searches are answered.
    """
    from lookalike.search.index import Index
    from lookalike.serve.server import interrupted_by_sigterm, run

    try:
        with interrupted_by_sigterm():
            threading.Thread(target=_end_with_parent, daemon=True).start()
            index = Index.open(options.address)
            run(index, options, bound, options.buckets(state), threads, loaded.release)
    except KeyboardInterrupt:
        pass
    except LookalikeError as error:
        configure_logging(options.log)
        event(str(error), logging.ERROR)
        raise SystemExit(error.exit_code) from error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
