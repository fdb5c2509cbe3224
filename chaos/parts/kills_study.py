"""``kill -9`` of the driver and the workers of a study: nothing lost, nothing twice."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.checks import failure, unexpected
from chaos.commands import Command, fork
from chaos.faults import FAULT, POINTS
from chaos.pictures import make_pictures
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
        if problems := ledger_problems(folder / "whole"):
            raise RuntimeError(f"the undisturbed study is not whole: {problems}")

    def study_in(self, folder: Path) -> Path:
        """The study's file of an attempt, whose runs are its own."""
        return write_study(folder, self.pictures)

    def compare(self, results: Path) -> Outcome:
        """Compare what was found, and count what is missing or there twice."""
        total = Outcome()
        if findings(results) != self.expected:
            total += Outcome(wrong=1, problems=("the results are not those of the whole study",))
        lost = ledger_problems(results)
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
        return total + self.compare(results)


SCENARIOS: tuple[Scenario, ...] = (LocalKills(),)
