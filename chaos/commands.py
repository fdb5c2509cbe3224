"""Commands of ``lookalike`` as processes that can be killed, and what they say."""

import atexit
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

__all__ = ["Command", "environment", "fork", "kill_remaining", "send", "spawn"]

ROOT = Path(__file__).resolve().parent.parent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
PATIENCE = 600.0
"""Seconds after which a command counts as one that does not end."""
START_SECONDS = 120.0
"""By then a process of :func:`fork` has a number."""
_numbers = itertools.count()
_lock = threading.Lock()
_started: "list[Command]" = []


class Command:
    """A running or ended command.

    Args:
        folder: Has its standard output and error, and from :func:`fork` its number and exit code.
        arguments: Of ``lookalike``.
        process: The process, if this one started it itself.

    Attributes:
        hung: It did not end in time and was killed; it counts as one that never ended.
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str | Path],
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.folder = folder
        self.arguments = arguments
        self.process = process
        self.hung = False
        with _lock:
            _started.append(self)

    def __str__(self) -> str:
        """The beginning of the command."""
        return " ".join(["lookalike", *map(str, self.arguments)])[:200]

    @property
    def pid(self) -> int:
        """The number of the process.

        Raises:
            RuntimeError: It was never started.
        """
        if self.process is not None:
            return self.process.pid
        until = time.monotonic() + START_SECONDS
        while not (path := self.folder / "pid").exists():
            if time.monotonic() > until:
                raise RuntimeError(f"'{self}' was never started")
            time.sleep(0.005)
        return int(path.read_text())

    def poll(self) -> int | None:
        """The exit code, or None while it runs, and if it did not end by itself."""
        if self.hung:
            return None
        if self.process is not None:
            return self.process.poll()
        path = self.folder / "code"
        return int(path.read_text()) if path.exists() else None

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None if it has not ended after ``seconds``.

        Without ``seconds`` it must have ended after ``PATIENCE``, and is killed if it has not, so
        that whatever is started next does not meet it.
        """
        until = time.monotonic() + (PATIENCE if seconds is None else seconds)
        while (code := self.poll()) is None and not self.hung and time.monotonic() < until:
            time.sleep(0.01)
        if code is None and seconds is None and not self.hung:
            self.kill_all()
            self.hung = True
        return code

    def kill_all(self) -> None:
        """Kill the command and the processes of its group, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.kill()  # one that has just begun has no group yet
        self.wait(10)

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal; whether the command was still running."""
        if self.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill_after(self, seconds: float) -> bool:
        """Kill it ``seconds`` after now, and wait for its end; False if it had ended before."""
        self.wait(seconds)
        killed = self.kill()
        self.wait()
        return killed and self.poll() == -signal.SIGKILL

    def children(self) -> list[int]:
        """The processes that the command has started."""
        with suppress(OSError):
            path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            return [int(number) for number in path.read_text().split()]
        return []

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        return (self.folder / "stdout").read_text(encoding="utf-8", errors="replace")

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        path = self.folder / "stderr"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def traceback(self) -> bool:
        """Whether it showed a traceback."""
        return "Traceback (most recent call last)" in self.errors


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of every command: this source tree, one thread."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    known = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **dict.fromkeys(THREADS, "1")}
    return {**os.environ, **known, **variables}


def spawn(
    arguments: Sequence[str | Path],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> Command:
    """Start ``python -m lookalike ARGUMENTS`` in a new process, after the command ``before``."""
    place = new_place(folder)
    with (place / "stdout").open("wb") as out, (place / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "lookalike", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=place,
            env=environment(variables or {}),
            start_new_session=True,
        )
    return Command(place, arguments, process)


def fork(
    arguments: Sequence[str | Path],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
) -> Command:
    """Start the same command in a fork of :mod:`chaos.fork_server`, without the time of imports.

    ``limits`` are those of :mod:`resource`, as ``RLIMIT_FSIZE``.
    """
    place = new_place(folder)
    request = {
        "arguments": [str(argument) for argument in arguments],
        "folder": str(place),
        "variables": dict(variables or {}),
        "limits": dict(limits or {}),
    }
    with _lock:
        stream = server().stdin
        assert stream is not None
        stream.write(json.dumps(request).encode() + b"\n")
        stream.flush()
    return Command(place, arguments)


def kill_remaining(folder: Path) -> list[str]:
    """Kill the commands that were started below a folder and still run; which they were."""
    folder, found = folder.resolve(), []
    with _lock:
        mine = [command for command in _started if folder in command.folder.parents]
        for command in mine:
            _started.remove(command)
    for command in mine:
        if not command.hung and command.poll() is None:
            found.append(str(command))
            with suppress(RuntimeError):  # it never began
                command.kill_all()
    return found


def new_place(folder: Path) -> Path:
    """A new folder for what a command says."""
    place = (folder / f"command-{next(_numbers)}").resolve()
    place.mkdir(parents=True)
    return place


@cache
def server() -> subprocess.Popen[bytes]:
    """The process of :mod:`chaos.fork_server`; it ends with this one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chaos.fork_server"],
        stdin=subprocess.PIPE,
        env=environment({}),
        cwd=ROOT,
    )
    atexit.register(process.communicate)
    return process


def send(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to all that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
