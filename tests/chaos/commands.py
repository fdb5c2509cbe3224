"""Commands of ``lookalike`` that are killed, stopped or fail, and what their end means."""

import errno
import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests import commands
from tests.chaos.outcome import Outcome

__all__ = [
    "POINTS", "Command", "begun", "failure", "kill_remaining", "refused", "same_or_sentence",
    "start", "unexpected",
]  # fmt: skip

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
PATIENCE = 600.0
"""Seconds after which a command counts as one that does not end."""
POINTS = ("written", "rename", "renamed")
"""Before a file is made durable (``os.fsync``), before it is renamed, and after that."""
FORKED = "from tests.chaos.commands import become; become({fault!r}, {limits!r})"
FRESH = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', *sys.argv])"
_lock = threading.Lock()
_started: "list[Command]" = []


class Command(commands.Command):
    """A command of the campaign.

    Attributes:
        folder: Where it was started.
        hung: It did not end in time and was killed; it counts as one that never ended.
    """

    def __init__(self, arguments: Sequence[Any], folder: Path, program: str, **variables: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.arguments, self.hung = folder.resolve(), arguments, False
        known = dict.fromkeys(THREADS, "1") | variables
        super().__init__(*arguments, cwd=folder, program=program, **known)
        with _lock:
            _started.append(self)

    def __str__(self) -> str:
        return " ".join(["lookalike", *map(str, self.arguments)])[:200]

    def poll(self) -> int | None:
        """The exit code, or None while it runs, and if it did not end by itself."""
        return None if self.hung else self.returncode

    def within(self, seconds: float) -> int | None:
        """The exit code; None if it has not ended after so many seconds."""
        self._process.join(seconds)
        return self.poll()

    def end(self) -> int | None:
        """The exit code; a command that does not end is killed, so that the next meets it not."""
        if self.within(PATIENCE) is None and not self.hung:
            self.kill_all()
            self.hung = True
        return self.poll()

    def kill_all(self) -> None:
        """Kill the command and the processes of its group, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.kill()  # one that has just begun has no group yet
        self._process.join(10)

    def kill_now(self) -> bool:
        """Kill it, and wait for its end; False if it had ended before."""
        with suppress(ProcessLookupError):
            self.kill()
        return self.end() == -signal.SIGKILL

    def children(self) -> list[int]:
        """The processes that the command has started."""
        with suppress(OSError):
            path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            return [int(number) for number in path.read_text().split()]
        return []

    @property
    def traceback(self) -> bool:
        """Whether it showed a traceback."""
        return "Traceback (most recent call last)" in self.stderr


def start(
    arguments: Sequence[str | Path],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    *,
    fault: str = "",
    limits: Mapping[str, int] | None = None,
    fresh: bool = False,
    program: str = "",
) -> Command:
    """Start ``lookalike ARGUMENTS``.

    Args:
        arguments: Of the command.
        folder: Where it is started.
        variables: Of its environment.
        fault: Where it fails as it writes whole files (:func:`install_fault`).
        limits: Of :mod:`resource`, as ``RLIMIT_FSIZE``.
        fresh: Whether it is a new program, as a user starts it, and no fork.
        program: Python that is run instead.
    """
    forked = FORKED.format(fault=fault, limits=dict(limits or {}))
    program = program or (FRESH if fresh else forked)
    return Command(arguments, folder, program, **(variables or {}))


def become(fault: str, limits: Mapping[str, int]) -> None:
    """Be the command, with a fault and limits: what the new process does."""
    from lookalike.cli import main

    if fault:
        install_fault(fault)
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    sys.stdin = open(os.devnull)  # noqa: SIM115 - until the process ends
    main()


def install_fault(fault: str) -> None:
    """Let this process fail where it writes.

    Args:
        fault: ``POINT:NUMBER:ACTION``: at the ``NUMBER``-th time that the process passes ``POINT``
            (``*``: every time) it is killed (``kill``), finds the disk full (``full``), or waits
            some seconds (``sleep=0.1``).
    """
    point, number, action = fault.split(":")
    passed = itertools.count(1)

    def passing(name: str) -> None:
        if name != point or number not in ("*", str(next(passed))):
            return
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            time.sleep(float(action.removeprefix("sleep=")))

    def around(call: Any, before: str, after: str = "") -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            passing(before)
            result = call(*arguments, **options)
            passing(after)
            return result

        return run

    os.fsync = around(os.fsync, "written")
    for name in ("rename", "replace"):
        setattr(Path, name, around(getattr(Path, name), "rename", "renamed"))


def kill_remaining(folder: Path) -> list[str]:
    """Kill the commands that were started below a folder and still run; which they were."""
    folder, found = folder.resolve(), []
    with _lock:
        mine = [one for one in _started if folder in (one.folder, *one.folder.parents)]
        for command in mine:
            _started.remove(command)
    for command in mine:
        if not command.hung and command.poll() is None:
            found.append(str(command))
            command.kill_all()
    return found


def send(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to all that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def begun(command: Command, done: Callable[[], bool]) -> bool:
    """Wait until a command has done something or ended; whether it is still running."""
    until = time.monotonic() + PATIENCE
    while command.poll() is None and not done() and time.monotonic() < until:
        time.sleep(0.02)
    return command.poll() is None


def unexpected(command: Command, codes: tuple[int, ...]) -> Outcome:
    """A problem if the command ended otherwise, or did not end."""
    code = command.end()
    if code in codes and not command.traceback:
        return Outcome()
    return failure(command, "it did not end" if code is None else f"exit code {code}")


def failure(command: Command, what: str) -> Outcome:
    """A command that should not have ended like this."""
    problem = f"{command}: {what}: {command.stderr[-3000:]}"
    return Outcome(wrong=1, tracebacks=int(command.traceback), problems=(problem,))


def refused(command: Command, *names: str) -> bool:
    """Whether it ended with one sentence that has one of ``names``, and exit code 1 or 2."""
    said = [line for line in command.stderr.splitlines() if line.startswith("lookalike: ")]
    named = not names or any(name in said[-1] for name in names) if said else False
    return command.poll() in (1, 2) and named and not command.traceback


def same_or_sentence(command: Command, same: bool, *names: str) -> Outcome:
    """After a fault a command gives the same result, or says in a sentence why not."""
    if (command.end() == 0 and same and not command.traceback) or refused(command, *names):
        return Outcome()
    what = "a wrong result" if command.poll() == 0 else f"exit code {command.poll()}"
    return failure(command, f"{what}, no sentence with one of {names}")
