"""Faults where a process writes whole files: it is killed, finds the disk full, or waits.

A whole file is written under another name, made durable (``os.fsync``) and renamed.
"""

import errno
import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any

__all__ = ["FAULT", "POINTS", "install"]

FAULT = "LOOKALIKE_FAULT"
"""The variable with the fault of a command that ``chaos.commands.fork`` starts."""
POINTS = ("written", "rename", "renamed")
"""Before the file is made durable, before it is renamed, and after that."""


def install(fault: str) -> None:
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
