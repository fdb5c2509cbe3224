"""``kill -9`` while an image store is built."""

import time
from pathlib import Path
from random import Random

from chaos.checks import failure, killed_once, moment
from chaos.commands import fork
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario, Unit
from chaos.training import outcome, settings, whole_outcome
from lookalike.files import file_checksum


class StoreKills(Scenario):
    """A store of some hundred images is built by a training that is killed meanwhile."""

    unit: Unit = "kills"

    def __init__(self, kind: str) -> None:
        self.name = f"kills.store.{kind}"
        self.kind = kind
        self.quick = int(kind == "jpeg")

    def prepare(self, folder: Path) -> None:
        """Build the store undisturbed."""
        self.pictures = make_pictures(folder / "pictures", images=60)
        start = time.monotonic()
        command = fork(self.arguments(folder / "runs"), folder, self.cache(folder))
        if command.wait() != 0:
            raise RuntimeError(f"the undisturbed run failed: {command.errors}")
        self.seconds = time.monotonic() - start
        self.expected = (whole_outcome(folder / "runs"), self.content(folder))
        if not self.expected[1]:
            raise RuntimeError("the undisturbed run has made no store")

    def arguments(self, runs: Path) -> list[str]:
        """A training that needs the store, and does little with it."""
        common = settings("plain", self.pictures, runs)
        return [*common, "train.epochs=0", f"data.store={self.kind}"]

    def cache(self, folder: Path) -> dict[str, str]:
        """The variable that names the cache folder."""
        return {"LOOKALIKE_CACHE": str(folder / "cache")}

    def content(self, folder: Path) -> dict[str, str]:
        """The files of the store, without locks and what killed processes have left."""
        files = (path for path in (folder / "cache").rglob("*") if path.is_file())
        return {
            path.name: file_checksum(path)
            for path in files
            if not path.name.startswith((".", "digests-")) and path.suffix != ".lock"
        }

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to six times while the store is built."""
        arguments, total = self.arguments(folder / "runs"), Outcome()
        kills = random.randint(2, 6)
        for _ in range(kills):
            delay, number = moment(random, self.seconds, kills), random.randint(1, 6)
            total += killed_once(arguments, folder, random, delay, number, self.cache(folder))
        command = fork(arguments, folder, self.cache(folder))
        if command.wait() != 0:
            total += failure(command, f"exit code {command.poll()} after kills")
        result, files = outcome(folder / "runs"), self.content(folder)
        if (result, files) != self.expected:
            other = sorted({name for name, _ in files.items() ^ self.expected[1].items()})
            told = f"not the store or result of the undisturbed run: {result}, {other}"
            total += Outcome(wrong=1, problems=(told,))
        return total


SCENARIOS: tuple[Scenario, ...] = (StoreKills("raw"), StoreKills("jpeg"))
