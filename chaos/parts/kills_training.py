"""``kill -9`` of trainings: they end with the bits of a training that was never disturbed."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.checks import after_fault, failure, moment, unexpected
from chaos.commands import Command, cold, warm
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario, Unit
from chaos.training import VARIANTS, outcome, settings

POINTS = ("written", "rename", "renamed")
"""Of :func:`lookalike.files.fault_point`."""
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
        first = warm(settings(self.variant, self.pictures, folder / "first"), folder, self.cache)
        if first.wait() != 0:
            raise RuntimeError(f"the undisturbed run failed: {first.errors}")
        self.seconds = time.monotonic() - begun
        self.expected = outcome(folder / "first")
        if (
            self.name == "kills.training.plain"
        ):  # as a user starts it, not from a process that stands ready
            other = cold(settings("plain", self.pictures, folder / "other"), folder, self.cache)
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
            fault = {}
            if random.random() < 0.4:
                number = min(int(random.expovariate(0.2)) + 1, 40)
                fault = {"LOOKALIKE_FAULT": f"{random.choice(POINTS)}:{number}:kill"}
            command = warm(arguments, folder, cache | fault)
            delay = moment(random, self.seconds, kills)
            total += self.killed(command, random, None if fault else delay)
        for _ in range(ATTEMPTS_TO_END):
            command = warm(arguments, folder, cache)
            code = command.wait()
            if code == 0:
                break
            total += failure(command, f"exit code {code} after kills")
        found = outcome(folder / "runs")
        if found != self.expected:
            total += Outcome(wrong=1, problems=(f"{found} instead of {self.expected}",))
        return total

    def killed(self, command: Command, random: Random, delay: float | None) -> Outcome:  # noqa: ARG002
        """Kill the command after so many seconds; None: its fault point does so."""
        if delay is None:
            return after_fault(command)
        killed = command.kill_after(delay)
        return Outcome(done=int(killed)) + unexpected(command, (0, -signal.SIGKILL))


class RankKills(TrainingKills):
    """Two processes: sometimes only one of them is killed, and the other must not wait forever."""

    weight = 2.0

    def killed(self, command: Command, random: Random, delay: float | None) -> Outcome:
        """Kill the process that started the others, or one of the two."""
        if delay is None:  # it is the ranks that pass the points
            code = command.wait()
            return Outcome(done=int(code != 0)) + unexpected(command, (0, 1))
        if random.random() < 0.3:
            killed = command.kill_after(delay)
            return Outcome(done=int(killed)) + unexpected(command, (0, -signal.SIGKILL))
        command.wait(delay)
        ranks = command.children()
        killed = False
        if ranks and command.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(random.choice(ranks), signal.SIGKILL)
                killed = True
        command.wait()
        return Outcome(done=int(killed)) + unexpected(command, (0, 1))


SCENARIOS: tuple[Scenario, ...] = tuple(
    RankKills(name) if name == "two-processes" else TrainingKills(name) for name in VARIANTS
)
