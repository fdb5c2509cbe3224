"""Clocks that are set back."""

import signal
from pathlib import Path
from random import Random

from chaos.checks import begun, unexpected
from chaos.commands import fork, spawn
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import TrainingKills
from chaos.scenario import Outcome, Scenario, Unavailable
from chaos.study import records, study_command
from chaos.training import outcome, settings

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


class ClockSetBack(StudyScenario):
    """A study is killed, and the clock is set back before it is continued."""

    name = "time.clock-back.study"
    unit = "faults"
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Work in the future, go on today."""
        results = folder / "results"
        start = study_command(self.study_in(folder), results, "--workers", "1")
        driver = spawn(start, folder, self.cache | clock(random.choice(("+2h", "+1d", "+40d"))))
        begun(driver, lambda: records(results) > 0)
        killed = driver.kill_after(random.uniform(0, 0.1) * self.seconds)
        total = Outcome(int(killed)) + unexpected(driver, (0, -signal.SIGKILL))
        total += self.to_the_end(start, folder, None)
        return total + self.compare(results)


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
        begun(future, lambda: any((folder / "runs").glob("*/checkpoints/last.pt")))
        killed = future.kill_after(random.uniform(0, 0.2) * self.seconds)
        total = Outcome(int(killed)) + unexpected(future, (0, -signal.SIGKILL))
        total += unexpected(fork(arguments, folder, cache), (0,))
        if outcome(folder / "runs") != self.expected:
            total += Outcome(wrong=1, problems=("not the result of the undisturbed run",))
        return total


SCENARIOS: tuple[Scenario, ...] = (
    ClockSetBack(),
    ClockSetBackTraining(),
)
