"""``kill -9`` of drivers, workers and the database of a study: nothing lost, nothing twice."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.checks import failure, refused, unexpected
from chaos.commands import Command, fork
from chaos.faults import FAULT, POINTS
from chaos.pictures import make_pictures
from chaos.postgres import Postgres, StandbyPair
from chaos.scenario import Outcome, Scenario, Unit
from chaos.study import findings, ledger_problems, study_command, write_study

STARTS = 6
"""Of a driver until it must have ended."""


class StudyScenario(Scenario):
    """A study, what it finds undisturbed, and how that is compared."""

    unit: Unit = "kills"

    def prepare(self, folder: Path) -> None:
        """Run the study undisturbed."""
        self.pictures = make_pictures(folder / "pictures")
        study = self.study_in(folder)
        self.cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
        begun = time.monotonic()
        first = fork(study_command(study, folder / "whole", "--workers", "1"), folder, self.cache)
        if first.wait() != 0:
            raise RuntimeError(f"the undisturbed study failed: {first.errors}")
        self.seconds = time.monotonic() - begun
        self.expected = findings(folder / "whole")
        if not self.expected:
            raise RuntimeError("the undisturbed study found nothing")
        if problems := ledger_problems(f"sqlite:///{folder / 'whole' / 'study.db'}"):
            raise RuntimeError(f"the undisturbed study is not whole: {problems}")

    def study_in(self, folder: Path) -> Path:
        """The study's file of an attempt, whose runs are its own."""
        return write_study(folder, self.pictures)

    def compare(self, results: Path, url: str) -> Outcome:
        """Compare what was found, and count what is missing or there twice."""
        total = Outcome()
        if findings(results) != self.expected:
            total += Outcome(wrong=1, problems=("the results are not those of the whole study",))
        lost = ledger_problems(url)
        return total + Outcome(lost=len(lost), problems=tuple(lost))

    def to_the_end(
        self,
        start: "list[str]",
        folder: Path,
        running: Command | None,
        again: Callable[..., Command] = fork,
        variables: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Let a driver end, or start it again.

        Args:
            start: Its arguments.
            folder: For what it says.
            running: It, if it is running.
            again: Starts it.
            variables: Of a driver that is started again, besides the cache.
        """
        total = Outcome()
        for _ in range(STARTS):
            command = running or again(start, folder, self.cache | dict(variables or {}))
            running = None
            if command.wait() == 0 and not command.traceback:
                return total
            if refused(command, "cannot open the storage"):  # started while the server was away
                time.sleep(1)
                continue
            total += failure(command, f"exit code {command.poll()}")
        return total


class LocalKills(StudyScenario):
    """A driver with two workers: the driver or a worker is killed."""

    name = "kills.study.local"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to four times."""
        results = folder / "results"
        start = study_command(self.study_in(folder), results, "--workers", "2")
        total = Outcome()
        command: Command | None = None
        for _ in range(random.randint(1, 4)):
            delay = random.uniform(0, self.seconds)
            if command is None and random.random() < 0.3:
                fault = f"{random.choice(POINTS)}:{random.randint(1, 8)}:kill"
                first = fork(start, folder, self.cache | {FAULT: fault})
                first.kill_after(delay / 3)  # its workers die of it, too: five would be too many
                total += Outcome(done=int(first.poll() == -signal.SIGKILL))
                total += unexpected(first, (0, -signal.SIGKILL))
                continue
            command = command or fork(start, folder, self.cache)
            if command.wait(delay) is not None:
                total += unexpected(command, (0,))
                command = None
                continue
            workers = command.children()
            if workers and random.random() < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(workers), signal.SIGKILL)
                    total += Outcome(done=1)
            else:
                total += Outcome(done=int(command.kill_after(0)))
                total += unexpected(command, (0, -signal.SIGKILL))
                command = None
        total += self.to_the_end(start, folder, command)
        return total + self.compare(results, f"sqlite:///{results / 'study.db'}")


class PostgresKills(StudyScenario):
    """Two drivers on one PostgreSQL: a driver, a worker or the server is killed."""

    name = "kills.study.postgres"
    weight = 2.0
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Run the study undisturbed, and start a server."""
        super().prepare(folder)
        self.postgres = Postgres()

    def close(self) -> None:
        """Stop the server."""
        if hasattr(self, "postgres"):
            self.postgres.close()

    def places(
        self, random: Random, folder: Path, server: Postgres | StandbyPair | None = None
    ) -> tuple[str, list[Path], list[list[str]]]:
        """A new database, and the results and arguments of two drivers on it."""
        server = server or self.postgres
        url = server.database(f"{folder.name}-{random.randrange(10**9)}")
        results = [folder / name for name in ("one", "two")]
        options = ("--workers", "1", "--storage", url)
        study = self.study_in(folder)
        starts = [study_command(study, one, *options) for one in results]
        return url, results, starts

    def ended(self, driver: Command) -> Outcome:
        """What is wrong with the end of a driver that was killed, if it had not ended before."""
        if refused(driver, "cannot open the storage"):
            return Outcome()
        return unexpected(driver, (0, -signal.SIGKILL))

    def compared(self, results: list[Path], url: str) -> Outcome:
        """Compare what both drivers wrote."""
        return self.compare(results[0], url) + self.compare(results[1], url)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to three times, the server among others."""
        url, results, starts = self.places(random, folder)
        drivers = [fork(start, folder, self.cache) for start in starts]
        total = Outcome()
        for _ in range(random.randint(1, 3)):
            time.sleep(random.uniform(0, self.seconds / 3))
            chosen = random.randrange(2)
            what = random.choice(("driver", "worker", "server"))
            if what == "server":
                total += Outcome(done=int(any_running(drivers)))
                self.postgres.restart(random.uniform(0, 2))
            elif what == "worker":
                workers = drivers[chosen].children()
                with suppress(ProcessLookupError, IndexError):
                    os.kill(random.choice(workers), signal.SIGKILL)
                    total += Outcome(done=1)
            else:
                total += Outcome(done=int(drivers[chosen].kill_after(0)))
                total += self.ended(drivers[chosen])
                drivers[chosen] = fork(starts[chosen], folder, self.cache)
        for start, driver in zip(starts, drivers, strict=True):
            total += self.to_the_end(start, folder, driver)
        return total + self.compared(results, url)


def any_running(drivers: Sequence[Command]) -> bool:
    """Whether a driver is still at work, so that what is done now disturbs it."""
    return any(driver.poll() is None for driver in drivers)


SCENARIOS: tuple[Scenario, ...] = (LocalKills(), PostgresKills())
