"""Clocks that are set back or differ, and a database that pauses or fails over."""

import signal
import time
from pathlib import Path
from random import Random

from chaos.checks import begun, unexpected
from chaos.commands import fork, spawn
from chaos.parts.kills_study import PostgresKills, StudyScenario, any_running
from chaos.parts.kills_training import TrainingKills
from chaos.postgres import StandbyPair
from chaos.scenario import Outcome, Scenario, Unavailable
from chaos.study import records, study_command
from chaos.training import outcome, settings

LONGEST_PAUSE = 60.0
LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


def clock(offset: str) -> dict[str, str]:
    """Variables of a process whose clock is wrong by ``offset``.

    Raises:
        Unavailable: libfaketime is not installed.
    """
    found = [path for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])]
    if not found:
        raise Unavailable("libfaketime is not installed (apt install faketime)")
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": offset}


class Pause(PostgresKills):
    """The database stands still for up to a minute while two drivers work."""

    name = "time.database-pause"
    unit = "faults"
    weight = 1.0
    quick = 0
    shown = False
    """Whether the longest pause was made."""

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Pause once, at a random moment; the first time, so in a replay, as long as ever."""
        url, results, starts = self.places(random, folder)
        drawn = random.choice((5.0, 20.0, LONGEST_PAUSE))
        pause = drawn if self.shown else LONGEST_PAUSE
        self.shown = True
        drivers = [fork(start, folder, self.cache) for start in starts]
        time.sleep(random.uniform(0, self.seconds / 3))
        total = Outcome(done=int(any_running(drivers)))
        self.postgres.pause(pause)
        for start, driver in zip(starts, drivers, strict=True):
            total += self.to_the_end(start, folder, driver)
        return total + self.compared(results, url)


class FailOver(PostgresKills):
    """The database's server is killed while two drivers work, and its copy takes over."""

    name = "time.database-fail-over"
    unit = "faults"
    weight = 1.0
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Run the study undisturbed; every attempt has servers of its own."""
        StudyScenario.prepare(self, folder)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fail over once, at a random moment."""
        pair = StandbyPair()
        try:
            url, results, starts = self.places(random, folder, pair)
            drivers = [fork(start, folder, self.cache) for start in starts]
            time.sleep(random.uniform(0, self.seconds / 3))
            total = Outcome(done=int(any_running(drivers)))
            pair.fail_over(random.uniform(0, 5))
            for start, driver in zip(starts, drivers, strict=True):
                total += self.to_the_end(start, folder, driver)
            return total + self.compared(results, url)
        finally:
            pair.close()


class ClocksApart(PostgresKills):
    """Two drivers whose clocks differ by up to days; one of them is killed."""

    name = "time.clocks-apart"
    unit = "faults"
    weight = 1.0
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Let one clock be wrong, and kill perhaps."""
        url, results, starts = self.places(random, folder)
        wrong = clock(random.choice(("-1d", "+1d", "-1h", "+1h", "-5s", "+5s")))
        second = spawn(starts[1], folder, self.cache | wrong)
        begun(second, lambda: records(url) > 0)
        drivers = [fork(starts[0], folder, self.cache), second]
        total = Outcome(done=int(second.poll() is None))
        if random.random() < 0.5:
            drivers[random.randrange(2)].kill_after(random.uniform(0, self.seconds / 2))
        running = [driver if driver.poll() in (None, 0) else None for driver in drivers]
        for driver in drivers:
            if driver.poll() is not None:
                total += unexpected(driver, (0, -signal.SIGKILL))
        total += self.to_the_end(starts[0], folder, running[0])
        total += self.to_the_end(starts[1], folder, running[1], spawn, wrong)
        return total + self.compared(results, url)


class ClockSetBack(StudyScenario):
    """A study is killed, and the clock is set back before it is continued."""

    name = "time.clock-back.study"
    unit = "faults"
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Work in the future, go on today."""
        results = folder / "results"
        url = f"sqlite:///{results / 'study.db'}"
        start = study_command(self.study_in(folder), results, "--workers", "1")
        driver = spawn(start, folder, self.cache | clock(random.choice(("+2h", "+1d", "+40d"))))
        begun(driver, lambda: records(url) > 0)
        killed = driver.kill_after(random.uniform(0, 0.1) * self.seconds)
        total = Outcome(int(killed)) + unexpected(driver, (0, -signal.SIGKILL))
        total += self.to_the_end(start, folder, None)
        return total + self.compare(results, url)


class ClockSetBackTraining(TrainingKills):
    """The same of a training."""

    unit = "faults"

    def __init__(self) -> None:
        super().__init__("plain")
        self.name = "time.clock-back.training"
        self.quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Work in the future, go on today."""
        arguments = settings(self.variant, self.pictures, folder / "runs")
        cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
        future = spawn(arguments, folder, cache | clock("+1d"))
        begun(future, lambda: any((folder / "runs").glob("*/checkpoints/0*")))
        killed = future.kill_after(random.uniform(0, 0.2) * self.seconds)
        total = Outcome(int(killed)) + unexpected(future, (0, -signal.SIGKILL))
        total += unexpected(fork(arguments, folder, cache), (0,))
        if outcome(folder / "runs") != self.expected:
            total += Outcome(wrong=1, problems=("not the result of the undisturbed run",))
        return total


SCENARIOS: tuple[Scenario, ...] = (
    Pause(),
    FailOver(),
    ClocksApart(),
    ClockSetBack(),
    ClockSetBackTraining(),
)
