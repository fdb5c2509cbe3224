"""``kill -9`` of trainings: they end with the bits of a training that was never disturbed."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.checks import failure, killed_once, moment, unexpected
from chaos.commands import fork, spawn
from chaos.faults import FAULT, POINTS
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario, Unit
from chaos.training import VARIANTS, outcome, settings, whole_outcome

ATTEMPTS_TO_END = 4


class TrainingKills(Scenario):
    """A variant of the training, killed up to six times and started again to its end."""

    unit: Unit = "kills"

    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.name = f"kills.training.{variant}"
        self.quick = int(variant == "plain")

    def prepare(self, folder: Path) -> None:
        """Train undisturbed, and measure how long it takes."""
        self.pictures = make_pictures(folder / "pictures")
        self.cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
        begun = time.monotonic()
        first = fork(settings(self.variant, self.pictures, folder / "first"), folder, self.cache)
        if first.wait() != 0:
            raise RuntimeError(f"the undisturbed run failed: {first.errors}")
        self.seconds = time.monotonic() - begun
        self.expected = whole_outcome(folder / "first")
        if type(self) is TrainingKills and self.variant == "plain":
            # as a user starts it, not from a process that stands ready
            other = spawn(settings("plain", self.pictures, folder / "other"), folder, self.cache)
            if other.wait() != 0 or outcome(folder / "other") != self.expected:
                raise RuntimeError(f"two undisturbed runs differ: {other.errors}")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill at random moments and points, then let it end and compare."""
        arguments = settings(self.variant, self.pictures, folder / "runs")
        cache = self.cache
        if random.random() < 0.3:  # building the cache is killed too
            cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
        total = Outcome()
        kills = random.randint(2, 6)
        for _ in range(kills):
            delay = moment(random, self.seconds, kills)
            total += self.killed(arguments, folder, cache, random, delay)
        for _ in range(ATTEMPTS_TO_END):
            command = fork(arguments, folder, cache)
            code = command.wait()
            if code == 0:
                break
            total += failure(command, f"exit code {code} after kills")
        found = outcome(folder / "runs")
        if found != self.expected:
            total += Outcome(wrong=1, problems=(f"{found} instead of {self.expected}",))
        return total

    def killed(
        self,
        arguments: list[str],
        folder: Path,
        cache: dict[str, str],
        random: Random,
        delay: float,
    ) -> Outcome:
        """Start the training and kill it, after so many seconds or at a write."""
        return killed_once(arguments, folder, random, delay, write_number(random), cache)


class RankKills(TrainingKills):
    """Two processes: sometimes only one of them is killed, and the other must not wait forever."""

    weight = 2.0

    def killed(
        self,
        arguments: list[str],
        folder: Path,
        cache: dict[str, str],
        random: Random,
        delay: float,
    ) -> Outcome:
        """Kill the process that started the others, or one of the two."""
        draw = random.random()
        if draw < 0.4:  # whichever passes the point: the one that starts others writes the cache
            point = f"{random.choice(POINTS)}:{write_number(random)}:kill"
            command = fork(arguments, folder, cache | {FAULT: point})
            killed = command.wait() != 0
            return Outcome(int(killed)) + unexpected(command, (0, 1, -signal.SIGKILL))
        command = fork(arguments, folder, cache)
        if draw < 0.6:
            killed = command.kill_after(delay)
            return Outcome(int(killed)) + unexpected(command, (0, -signal.SIGKILL))
        command.wait(delay)
        ranks = command.children()
        killed = False
        if ranks and command.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(random.choice(ranks), signal.SIGKILL)
                killed = True
        return Outcome(int(killed)) + unexpected(command, (0, 1))


def write_number(random: Random) -> int:
    """At which write of a training to kill it: mostly at an early one."""
    return min(int(random.expovariate(0.2)) + 1, 40)


SCENARIOS: tuple[Scenario, ...] = tuple(
    RankKills(name) if name == "two-processes" else TrainingKills(name) for name in VARIANTS
)
