"""A worker process: tasks come in by lines of JSON, what came of them goes out the same way.

``python -m lookalike.study.worker``; it ends when the process that started it does.
"""

import json
import os
import sys
import threading
import time
from typing import Any

from lookalike.progress import Watcher

__all__ = ["main"]


def main() -> None:
    """Work until there is nothing more to read."""
    parent = os.getppid()
    threading.Thread(target=die_with, args=(parent,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not get between the answers

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    import torch

    torch.set_num_threads(1)  # the same sums in the same order, however many cores there are
    from lookalike.study.bench import Bench
    from lookalike.study.tasks import Task

    bench = Bench(Telling(answer))
    answer({"ready": True})
    for line in sys.stdin:
        answer(bench.run(Task(**json.loads(line))))


def die_with(parent: int) -> None:
    """End this process when the one that started it is gone, however that happened."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


class Telling(Watcher):
    """A watcher that tells the driver, now and then."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.told = 0.0

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Only what takes long is worth telling: features, images, not the steps of a run."""
        if name not in ("decoding", "computing features"):
            return
        if done < total and time.monotonic() - self.told < 0.5:
            return
        self.told = time.monotonic()
        self.answer({"stage": [name, done, total, detail]})

    def note(self, text: str) -> None:
        """Epochs of a run are not told."""


if __name__ == "__main__":
    main()
