"""Starting the processes of a run, watching them, and saying once what went wrong.

The process that was asked for a run on several devices is none of them: it starts one for each
(``python -m lookalike.training.distributed.rank``, with the environment that torchrun would give),
hears what they report, and ends them all when one is lost, however it died.
"""

import json
import os
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
from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.training.distributed.ranks import LostRank
from lookalike.training.signals import Interrupted, stop_signals

__all__ = ["launch"]

RANK = "lookalike.training.distributed.rank"
"""The module that each process runs."""

GRACE_SECONDS = 10.0
"""For the others to end by themselves after one has."""
SECONDS_BETWEEN_LOOKS = 0.1


def launch(config: RunConfig, watcher: Watcher) -> None:
    """Train what ``config`` describes by ``train.devices`` processes on this machine."""
    with tempfile.TemporaryDirectory(prefix="lookalike-") as name, stop_signals() as asked:
        folder = Path(name)
        values = yaml.safe_dump(config.model_dump(mode="json"))
        (folder / "config.yaml").write_text(values, encoding="utf-8")
        ranks = Ranks(config, folder)
        try:
            ranks.follow(watcher, asked)
        finally:
            ranks.kill()
        ranks.say_what_went_wrong(stopped=bool(asked))


class Ranks:
    """The processes of a run on this machine."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.folder = folder
        self.first = int(os.environ.get("NODE_RANK", 0)) * config.train.devices
        self.total = config.train.devices * config.train.nodes
        self.reports: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self.refused: dict[int, LookalikeError] = {}
        self.processes: list[subprocess.Popen[str]] = []
        self.ears: list[threading.Thread] = []
        self.killed: set[int] = set()
        common = common_environment(config)
        for number in range(config.train.devices):
            with self.errors(number).open("w") as errors:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "lookalike.training.distributed.rank",
                        str(folder / "config.yaml"),
                    ],
                    env=common | {"RANK": str(self.first + number), "LOCAL_RANK": str(number)},
                    stdin=subprocess.PIPE,  # closes when this process ends, however it does
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    start_new_session=True,  # Ctrl-C comes to us alone
                )
            self.processes.append(process)
            ear = threading.Thread(target=self.listen, args=(number, process), daemon=True)
            ear.start()
            self.ears.append(ear)

    def errors(self, number: int) -> Path:
        """What a process says on standard error."""
        return self.folder / f"errors-{number}"

    def listen(self, number: int, process: subprocess.Popen[str]) -> None:
        """Queue the reports of a process until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):  # what a library prints while it is imported
                self.reports.put((number, json.loads(line)))

    def follow(self, watcher: Watcher, asked: list[int]) -> None:
        """Hand on reports until all have ended, or one is lost and the others have had time."""
        deadline: float | None = None
        told = False
        while any(process.poll() is None for process in self.processes):
            self.hand_on(watcher)
            if asked and not told:
                told = True
                self.stop()
            if deadline is None and any(process.poll() for process in self.processes):
                deadline = time.monotonic() + GRACE_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                self.kill()
        for ear in self.ears:  # the last words of those that have ended
            ear.join(GRACE_SECONDS)
        self.hand_on(watcher)

    def stop(self) -> None:
        """Let the process that writes save and end; without it here, end those that are."""
        if self.first == 0:
            self.processes[0].send_signal(signal.SIGTERM)
        else:
            self.kill()

    def hand_on(self, watcher: Watcher) -> None:
        """Tell the watcher what has been reported; wait a moment for more."""
        wait = SECONDS_BETWEEN_LOOKS
        for _ in range(self.reports.qsize() + 1):
            try:
                number, report = self.reports.get(timeout=wait)
            except queue.Empty:
                return
            wait = 0
            if "refused" in report:
                self.refused[number] = refusal(**report)
            elif "stage" in report:
                watcher.stage(*report["stage"])
            else:
                watcher.note(report["note"])

    def kill(self) -> None:
        """End whatever is still there."""
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                process.kill()
                self.killed.add(number)
            process.wait()

    def say_what_went_wrong(self, stopped: bool) -> None:
        """Raise what the first process refused, or tell which one was lost."""
        said = [error for _, error in sorted(self.refused.items()) if type(error) is not LostRank]
        if said:
            raise said[0]
        codes = {number: process.returncode for number, process in enumerate(self.processes)}
        expected = self.killed | set(self.refused)
        dead = [number for number, code in codes.items() if code and number not in expected]
        if stopped and any(codes.values()):
            raise Interrupted("stopped; the same command goes on from the last checkpoint")
        if dead:
            raise LookalikeError(self.obituary(dead[0], codes[dead[0]]))
        for lost in self.refused.values():  # by a process of another machine
            raise lost

    def obituary(self, number: int, code: int) -> str:
        """How a process ended, and what to do."""
        name = f"process {self.first + number} of {self.total}"
        if code < 0:
            reason = f"{name} was killed by {signal.Signals(-code).name}"
        else:
            said = self.errors(number).read_text(encoding="utf-8", errors="replace")
            sys.stderr.write(said)
            reason = f"{name} failed: {(said.strip().splitlines() or ['it did not say why'])[-1]}"
        return f"{reason}; the same command goes on from the last checkpoint"


def refusal(refused: str, exit_code: int, text: str) -> LookalikeError:
    """The error of another process as one of this."""
    for kind in (Interrupted, LostRank):
        if kind.__name__ == refused:
            return kind(text)
    return BadInput(text) if exit_code == BadInput.exit_code else LookalikeError(text)


def common_environment(config: RunConfig) -> dict[str, str]:
    """What torchrun would set, the same for all processes of this machine."""
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
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
