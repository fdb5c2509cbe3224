"""Starting the processes of a run, watching them, and reporting the first error.

The process that was started by the user trains nothing itself: it starts one process per device
(``python -m lookalike.training.distributed.worker``, with the environment that torchrun would set),
reads their reports, and ends them all when one is lost. torchrun itself reports neither progress
nor errors to the process that started it.
"""

import json
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from lookalike.config import RunConfig
from lookalike.data import ImageSet
from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.training.distributed.ranks import LostRank
from lookalike.training.signals import Interrupted, stop_signals

IMAGES = "images.pickle"
"""The data set, beside the configuration of the processes."""
WORKER = "lookalike.training.distributed.worker"
"""The module that each process runs."""

GRACE_SECONDS = 10.0
"""Time for the other processes to end by themselves after one has ended."""
POLL_SECONDS = 0.1


def launch(config: RunConfig, watcher: Watcher, images: ImageSet) -> None:
    """Train what ``config`` describes with ``train.devices`` processes on this machine.

    They are given ``images``, so that not each of them looks at every file again.
    """
    with tempfile.TemporaryDirectory(prefix="lookalike-") as name, stop_signals() as signals:
        folder = Path(name)
        values = yaml.safe_dump(config.model_dump(mode="json"))
        (folder / "config.yaml").write_text(values, encoding="utf-8")
        with suppress(Exception):  # what a user's data set has may not be made for travelling
            (folder / IMAGES).write_bytes(pickle.dumps(images))
        ranks = RankProcesses(config, folder)
        try:
            ranks.watch(watcher, signals)
        finally:
            ranks.kill()
        ranks.raise_error(stopped=bool(signals))


class RankProcesses:
    """The processes of a run on this machine."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.folder = folder
        self.first = int(os.environ.get("NODE_RANK", 0)) * config.train.devices
        self.total = config.train.devices * config.train.nodes
        self.reports: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self.errors: dict[int, LookalikeError] = {}
        self.processes: list[subprocess.Popen[str]] = []
        self.reader_threads: list[threading.Thread] = []
        self.killed: set[int] = set()
        common = common_environment(config)
        for number in range(config.train.devices):
            with self.stderr_file(number).open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", WORKER, str(folder / "config.yaml")],
                    env=common | {"RANK": str(self.first + number), "LOCAL_RANK": str(number)},
                    stdin=subprocess.PIPE,  # closes whenever this process ends
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    start_new_session=True,  # so that Ctrl-C reaches this process only
                )
            self.processes.append(process)
            thread = threading.Thread(target=self.read, args=(number, process), daemon=True)
            thread.start()
            self.reader_threads.append(thread)

    def stderr_file(self, number: int) -> Path:
        """The file with the standard error of a process."""
        return self.folder / f"errors-{number}"

    def read(self, number: int, process: subprocess.Popen[str]) -> None:
        """Queue the reports of a process until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):  # what a library prints while it is imported
                self.reports.put((number, json.loads(line)))

    def watch(self, watcher: Watcher, signals: list[int]) -> None:
        """Forward reports until all have ended, or one is lost and a grace period is over."""
        deadline: float | None = None
        stopping = False
        while any(process.poll() is None for process in self.processes):
            self.forward_reports(watcher)
            if signals and not stopping:
                stopping = True
                if self.first == 0:  # let the process that writes save and end
                    self.processes[0].send_signal(signal.SIGTERM)
                else:
                    self.kill()
            if deadline is None and any(process.poll() for process in self.processes):
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self.kill()
        for thread in self.reader_threads:  # the last reports of processes that have ended
            thread.join(GRACE_SECONDS)
        self.forward_reports(watcher)

    def forward_reports(self, watcher: Watcher) -> None:
        """Pass the reports on to the watcher; wait a moment for more."""
        for wait in [POLL_SECONDS] + [0.0] * self.reports.qsize():
            try:
                number, report = self.reports.get(timeout=wait)
            except queue.Empty:
                return
            if "error" in report:
                self.errors[number] = error_of(**report)
            elif "stage" in report:
                watcher.stage(*report["stage"])
            else:
                watcher.note(report["note"])

    def kill(self) -> None:
        """Kill the processes that are still running."""
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                process.kill()
                self.killed.add(number)
            process.wait()

    def raise_error(self, stopped: bool) -> None:
        """Raise the first error that a process reported, or name the process that was lost."""
        own = [error for _, error in sorted(self.errors.items()) if type(error) is not LostRank]
        if own:
            raise own[0]
        codes = {number: process.returncode for number, process in enumerate(self.processes)}
        expected = self.killed | set(self.errors)
        dead = [number for number, code in codes.items() if code and number not in expected]
        if stopped and any(codes.values()):
            raise Interrupted("stopped; the same command resumes from the last checkpoint")
        if dead:
            raise LookalikeError(self.describe_exit(dead[0], codes[dead[0]]))
        for lost in self.errors.values():  # by a process of another machine
            raise lost

    def describe_exit(self, number: int, code: int) -> str:
        """How a process ended, and how to continue."""
        name = f"process {self.first + number} of {self.total}"
        if code < 0:
            reason = f"{name} was killed by {signal.Signals(-code).name}"
        else:
            text = self.stderr_file(number).read_text(encoding="utf-8", errors="replace")
            sys.stderr.write(text)
            reason = f"{name} failed: {(text.strip().splitlines() or ['without a message'])[-1]}"
        return f"{reason}; the same command resumes from the last checkpoint"


def error_of(error: str, exit_code: int, text: str) -> LookalikeError:
    """The error that another process reported."""
    for kind in (Interrupted, LostRank):
        if kind.__name__ == error:
            return kind(text)
    return BadInput(text) if exit_code == BadInput.exit_code else LookalikeError(text)


def common_environment(config: RunConfig) -> dict[str, str]:
    """The variables that torchrun would set, the same for all processes of this machine."""
    train = config.train
    threads = str(max(1, (os.cpu_count() or 1) // train.devices))
    single = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return {
        "OMP_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        **os.environ,
        **({} if train.nodes > 1 else single),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "WORLD_SIZE": str(train.devices * train.nodes),
        "LOCAL_WORLD_SIZE": str(train.devices),
        "GROUP_RANK": os.environ.get("NODE_RANK", "0"),
        "TORCHELASTIC_RUN_ID": "lookalike",
    }


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
