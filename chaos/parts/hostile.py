"""Hostile input, kind by kind: each fuzzer in a process of its own."""

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from chaos.hostile.fuzzers import NAMES
from chaos.scenario import Outcome, Scenario

SECONDS_TO_START = 300.0
SECONDS_OF_AN_ATTEMPT = 600.0
MOST_PROBLEMS = 5
QUICK = ("archives", "images", "settings")
"""In ``make test``; each fuzzer is a process that imports the product first."""
WEIGHTS = {"images": 2.0, "settings": 2.0, "results": 4.0, "archives": 2.0, "http": 2.0}
"""More for those with few inputs a second, and for pictures, which come from anybody."""


class Fuzzed(Scenario):
    """The inputs of one fuzzer."""

    unit = "inputs"

    def __init__(self, fuzzer: str) -> None:
        self.fuzzer = fuzzer
        self.name = f"hostile.{fuzzer}"
        self.quick = int(fuzzer in QUICK)
        self.weight = WEIGHTS.get(fuzzer, 1.0)
        self.process: subprocess.Popen[str] | None = None
        self.home = Path()
        self.started = 0
        self.kinds: Counter[str] = Counter()
        self.refused = self.accepted = 0

    def prepare(self, folder: Path) -> None:
        """Remember where the fuzzer keeps what it makes inputs of."""
        self.home = folder

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Some hundred inputs."""
        seed = random.randrange(2**32)
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"seed": seed, "folder": str(folder)}) + "\n")
        process.stdin.flush()
        line = self._line(SECONDS_OF_AN_ATTEMPT)
        if line is None:
            return self._died(folder)
        found: dict[str, Any] = json.loads(line)
        self.kinds.update(found["kinds"])
        self.refused += found["refused"]
        self.accepted += found["accepted"]
        return Outcome(
            done=sum(found["kinds"].values()),
            wrong=found["wrong"],
            tracebacks=found["tracebacks"],
            problems=tuple(found["problems"][:MOST_PROBLEMS]),
        )

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def remark(self) -> str:
        """The counts by kind."""
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(self.kinds.items()))
        return f"{self.refused:,} refused, {self.accepted:,} harmless ({kinds})"

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.started += 1
            home = self.home / str(self.started)  # what another one made may be damaged
            self.process = subprocess.Popen(
                [sys.executable, "-m", "chaos.hostile.process", self.fuzzer, str(home)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(self.home / "errors").open("w"),
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "LOOKALIKE_CACHE": str(self.home / "c")},
            )
            if self._line(SECONDS_TO_START) is None:
                self.close()
                raise RuntimeError((self.home / "errors").read_text(errors="replace")[-2000:])
        return self.process

    def _line(self, seconds: float) -> str | None:
        """The next line of the process; None if it has ended or takes too long."""
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return (self.process.stdout.readline() or None) if ready else None

    def _died(self, folder: Path) -> Outcome:
        """A process that ended, or hangs, in an input: the failure that it is."""
        assert self.process is not None
        code = self.process.poll()
        self.close()
        how = "does not end" if code is None else f"ended with {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        current = folder / "current"
        number = int(current.read_text()) if current.is_file() else 0
        told = (self.home / "errors").read_text(errors="replace")[-3000:]
        return Outcome(done=number + 1, wrong=1, problems=(f"input {number} {how}\n{told}",))


SCENARIOS = tuple(Fuzzed(name) for name in NAMES)
