"""A process that has imported everything and forks for each command, which saves four seconds.

It reads one request a line: the arguments of ``lookalike``, variables, limits and the folder for
standard output, standard error, the process's number (``pid``) and its exit code (``code``). What
it starts is a process like any other, and is killed like one.
"""

import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from chaos.faults import FAULT, install

IMPORTED = (
    *("lookalike.training.runner", "lookalike.study.driver", "lookalike.study.local"),
    *("lookalike.inference.job", "lookalike.search.ingest", "lookalike.search.check"),
)


def serve() -> list[str] | None:
    """Fork for each request; the arguments in the child, None when there are no more requests."""
    for name in IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        if os.fork() == 0:
            return guard(request)
    return None


def guard(request: dict[str, Any]) -> list[str]:
    """Start the command, note its number and its exit code; returns in the command itself."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    folder = Path(request["folder"])
    start, go = os.pipe()
    child = os.fork()
    if child:
        note(folder / "pid", child)
        os.write(go, b"1")
        _, status = os.waitpid(child, 0)
        note(folder / "code", os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.read(start, 1)
    os.setsid()
    for stream, name in ((0, os.devnull), (1, folder / "stdout"), (2, folder / "stderr")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, stream)
        os.close(handle)
    os.environ |= request["variables"]
    os.chdir(folder)
    for name, value in request["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    return list(request["arguments"])


def note(path: Path, number: int) -> None:
    """Write a number to a file, whole."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(str(number))
    draft.rename(path)


if __name__ == "__main__":
    given = serve()
    if given is not None:
        import torch

        from lookalike.cli import main

        if FAULT in os.environ:
            install(os.environ[FAULT])
        torch.set_num_threads(1)
        sys.argv = ["lookalike", *given]
        sys.stdin = open(os.devnull)  # noqa: SIM115 - until the process ends
        main()
