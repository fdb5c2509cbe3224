"""What strangers may send: a door is a way in, with the inputs that Hypothesis makes for it."""

import multiprocessing
import os
import resource
import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from tests.chaos.doors.archives import Archives
from tests.chaos.doors.door import Door, Verdicts, judge, too_slow
from tests.chaos.doors.filters import Filters
from tests.chaos.doors.http import Requests
from tests.chaos.doors.indexes import Indexes
from tests.chaos.doors.pictures import Pictures
from tests.chaos.doors.settings import Settings, Studies
from tests.chaos.doors.tables import Tables
from tests.chaos.doors.weights import Models, Weights
from tests.chaos.outcome import Outcome, Scenario

__all__ = ["DOORS", "doors"]

DOORS: dict[str, type[Door]] = {
    door.name: door
    for door in (
        *(Pictures, Archives, Settings, Studies, Weights, Models, Tables, Indexes, Filters),
        Requests,
    )
}
QUICK = ("archives", "pictures", "settings")
"""In ``make test``; each door is a process that imports the product first."""
WEIGHTS = {"pictures": 2.0, "settings": 2.0, "archives": 2.0, "http": 2.0}
"""More for those with few inputs a second, and for pictures, which come from anybody."""
SECONDS_TO_START, SECONDS_OF_AN_ATTEMPT = 300.0, 600.0
MOST_PROBLEMS = 5


class Opened(Scenario):
    """The inputs of one door, in a process of its own."""

    unit = "inputs"

    def __init__(self, door: str) -> None:
        self.door, self.name = door, f"doors.{door}"
        self.quick, self.weight = door in QUICK, WEIGHTS.get(door, 1.0)
        self.process: multiprocessing.process.BaseProcess | None = None
        self.home, self.started = Path(), 0
        self.kinds: Counter[str] = Counter()
        self.refused = self.accepted = 0

    def prepare(self, folder: Path) -> None:
        """Remember where the door keeps what it makes inputs of."""
        self.home = folder

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Some hundred inputs."""
        if self.process is None:
            self._open()
        self.connection.send((random.randrange(2**32), folder))
        found = self._answer(SECONDS_OF_AN_ATTEMPT)
        if found is None:
            assert self.process is not None
            code = self.process.exitcode
            self.close()
            how = "does not end" if code is None else f"ended with {code}"
            told = (self.home / "errors").read_text(errors="replace")[-3000:]
            problem = f"input {len(list((folder / 'work').iterdir()))} {how}\n{told}"
            return Outcome(1, wrong=1, problems=(problem,))
        self.kinds.update(found.kinds)
        self.refused += found.refused
        self.accepted += found.accepted
        problems = tuple(found.problems[:MOST_PROBLEMS])
        return Outcome(found.kinds.total(), found.wrong, 0, found.tracebacks, problems)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def remark(self) -> str:
        """The counts by kind."""
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(self.kinds.items()))
        return f"{self.refused:,} refused, {self.accepted:,} harmless ({kinds})"

    def _open(self) -> None:
        self.started += 1
        home = self.home / str(self.started)  # what another process made may be damaged
        self.connection, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("forkserver")
        self.process = context.Process(target=serve, args=(self.door, home, other), daemon=True)
        self.process.start()
        other.close()
        if self._answer(SECONDS_TO_START) is None:
            self.close()
            raise RuntimeError((self.home / "errors").read_text(errors="replace")[-2000:])

    def _answer(self, seconds: float) -> Verdicts | None:
        """What the process says; None if it has ended or takes too long."""
        try:
            return self.connection.recv() if self.connection.poll(seconds) else None
        except EOFError:
            return None


def serve(name: str, home: Path, connection: Connection) -> None:
    """Answer each seed and folder with what became of the inputs: what the process does."""
    home.mkdir(parents=True)
    os.environ |= {"LOOKALIKE_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    os.chdir(home)
    errors = os.open(home.parent / "errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(errors, stream)
    door = DOORS[name]()
    door.prepare(home)
    signal.signal(signal.SIGALRM, too_slow)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + door.megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    connection.send(Verdicts())
    while True:
        seed, folder = connection.recv()
        (folder / "work").mkdir()
        connection.send(judge(door, seed, folder / "work"))


def doors() -> list[Scenario]:
    """A scenario for each door."""
    return [Opened(name) for name in DOORS]
