"""One process of a run on several devices, started by :mod:`lookalike.training.distributed.launch`.

It reports to the process that started it, one JSON object per line on standard output, and ends
with it: standard input is a pipe that closes when that process ends.
"""

import json
import os
import pickle
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from lookalike.config import load
from lookalike.errors import LookalikeError
from lookalike.progress import Watcher
from lookalike.training.distributed.launch import IMAGES
from lookalike.training.runner import train


class Reports(Watcher):
    """A watcher that sends everything to the process that started this one."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Report a stage."""
        self.write(stage=[name, done, total, detail])

    def note(self, text: str) -> None:
        """Report a line."""
        self.write(note=text)

    def error(self, error: LookalikeError) -> None:
        """Report the error that ended this process."""
        self.write(error=type(error).__name__, exit_code=error.exit_code, text=str(error))

    def write(self, **report: Any) -> None:
        """One line."""
        self.stream.write(json.dumps(report) + "\n")
        self.stream.flush()


def main() -> int:
    """Train the configuration in the file that is the only argument, on the data set beside it."""
    threading.Thread(target=end_with_parent, args=(os.dup(0),), daemon=True).start()
    reports = Reports(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # so that what libraries print is not mixed with the reports
    try:
        path = Path(sys.argv[1])
        images = None
        with suppress(Exception):  # it did not travel: it is loaded as the configuration says
            images = pickle.loads(path.with_name(IMAGES).read_bytes())
        train(load(path), reports, images)
    except LookalikeError as error:
        reports.error(error)
        return error.exit_code
    return 0


def end_with_parent(pipe: int) -> None:
    """End this process when the pipe of the process that started it closes."""
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
