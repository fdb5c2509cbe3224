"""Claims: files beside what is made, by which processes of several machines share work.

A claim only saves work. Should two processes make the same file, each writes it atomically and both
are equal, so nothing breaks.
"""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lookalike.files import parse_json, read_text

__all__ = ["STALE_SECONDS", "Claim", "claimed"]

STALE_SECONDS = 120
"""A claim of another machine that was not renewed for so long is void."""


class Claim:
    """The right to make one file; it must be renewed while the work goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def renew(self) -> None:
        """Tell the others that this process is alive."""
        with suppress(OSError):
            os.utime(self.path)


@contextmanager
def claimed(path: Path) -> Iterator[Claim | None]:
    """The claim on ``path`` while the block runs; None: another process has it."""
    claim = path.with_name(f"{path.name}.claim")
    if not _created(claim):
        if not _is_void(claim):
            yield None
            return
        with suppress(FileNotFoundError):
            claim.unlink()
        if not _created(claim):
            yield None
            return
    try:
        yield Claim(claim)
    finally:
        claim.unlink(missing_ok=True)


def _created(claim: Path) -> bool:
    try:
        handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as file:
        json.dump({"host": socket.gethostname(), "pid": os.getpid()}, file)
    return True


def _is_void(claim: Path) -> bool:
    """Whether the process has ended, if it is of this machine; of another: silent for long."""
    try:
        age = _now(claim.parent) - claim.stat().st_mtime
        with suppress(ValueError, KeyError, TypeError):  # it is being written
            owner = parse_json(read_text(claim))
            if owner["host"] == socket.gethostname() and not _is_alive(int(owner["pid"])):
                return True
    except FileNotFoundError:
        return True
    return age > STALE_SECONDS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _now(folder: Path) -> float:
    """The time by the clock of the file system, which may be another machine's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
