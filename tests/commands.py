"""Commands of ``lookalike`` as processes, forked from one that has imported everything.

A fresh Python imports torch for three seconds; a fork of one that has, for none. What is
started is a process like any other: it has a number, an exit code, and ends by signals. Tests of
imports themselves start a Python of their own.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import psutil

__all__ = ["Command", "handles_signals", "run"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
IMPORTED = (
    *("tests.commands", "lookalike.cli.commands", "lookalike.training.runner"),
    *("lookalike.search.ingest", "lookalike.serve.server", "lookalike.study.driver"),
)
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(list(IMPORTED))


class Command:
    """A command that runs in a process of its own.

    Args:
        *arguments: Of ``lookalike``.
        cwd: Its current folder.
        program: Python to be executed instead of the command line.
        ignored: Signals that it is started to ignore, as by ``nohup``.
        joined: Whether standard error goes where standard output goes.
        **variables: Of its environment.
    """

    def __init__(self, *arguments, cwd=None, program=None, ignored=(), joined=False, **variables):
        reading, writing = os.pipe()
        self._errors = tempfile.NamedTemporaryFile(prefix="stderr-")  # noqa: SIM115
        self.stdout = os.fdopen(reading, encoding="utf-8", errors="replace")
        with Connection(writing, readable=False) as out:
            self._process = _FORKED.Process(
                target=_main,
                args=(
                    program or "from lookalike.cli import main; main()",
                    ["lookalike", *map(str, arguments)],
                    out,
                    None if joined else self._errors.name,
                    str(cwd or Path.cwd()),
                    os.environ | variables,
                    ignored,
                ),
            )
            self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        """The exit code; None while it runs."""
        return self._process.exitcode

    @property
    def stderr(self):
        """What it has written to standard error so far."""
        return Path(self._errors.name).read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds=300):
        """The exit code, once it has ended."""
        self._process.join(seconds)
        assert self.returncode is not None, f"process {self.pid} has not ended:\n{self.stderr}"
        return self.returncode

    def send_signal(self, number):
        """Send a signal, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, seconds=300):
        """All of standard output and error."""
        shown = []
        reader = threading.Thread(target=lambda: shown.append(self.stdout.read()), daemon=True)
        reader.start()
        self.wait(seconds)
        reader.join(20)  # its offspring may keep standard output open
        return "".join(shown), self.stderr

    def stop(self, number, seconds=0.0, until=None):
        """Send a signal so long after it handles signals, or once something has happened.

        Returns:
            What it wrote to standard error, after it and all its offspring have ended.
        """
        while self.returncode is None and not handles_signals(self.pid):
            time.sleep(0.001)
        begun = time.monotonic()
        while self.returncode is None and not (
            until() if until else time.monotonic() - begun >= seconds
        ):
            time.sleep(0.005)
        alive = self.returncode is None
        offspring = psutil.Process(self.pid).children(recursive=True) if alive else []
        self.send_signal(number)
        _, told = self.communicate(120)
        assert psutil.wait_procs(offspring, timeout=20)[1] == []
        return told


def run(*arguments, **options):
    """A command that has ended: its ``returncode``, ``stdout`` and ``stderr``."""
    command = Command(*arguments, **options)
    shown, told = command.communicate()
    return SimpleNamespace(returncode=command.returncode, stdout=shown, stderr=told)


def handles_signals(pid):
    """Whether a command has got so far that it handles signals; before, Python starts."""
    with open(f"/proc/{pid}/status") as lines:
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _main(program, arguments, out, errors, folder, variables, ignored):
    """Become the command: what the new process does."""
    import torch

    os.setsid()
    for number in SIGNALS:
        python = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in ignored else python)
    os.dup2(out.fileno(), 1)
    os.dup2(out.fileno(), 2)
    out.close()
    if errors is not None:
        with open(errors, "wb") as file:
            os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.argv = arguments
    try:
        exec(program, {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # which an interpreter does, and multiprocessing does not
