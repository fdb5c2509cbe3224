"""Ctrl-C, SIGTERM and a closed terminal at random moments: one sentence, 130, and nothing lost."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.checks import begun, failure, moment, unexpected
from chaos.commands import Command, fork
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import TrainingKills
from chaos.scenario import Outcome, Scenario
from chaos.study import study_command
from chaos.training import outcome, settings

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED = 130
LAST_WORDS = "next: "
"""After them a command has done its work, and a signal may come too late."""


def stopped(command: Command, random: Random, seconds: float) -> Outcome:
    """Send a signal to the command's group, as a terminal does, after so many seconds."""
    begun(command, lambda: is_handling(command.pid))
    command.wait(seconds)
    number = random.choice(SIGNALS)
    working = command.poll() is None and LAST_WORDS not in command.errors
    with suppress(ProcessLookupError):
        os.killpg(command.pid, number)
    said = [] if command.wait() == 0 else sentences(command)
    if working and command.poll() == 0:
        return failure(command, f"it went on after signal {number}")
    if command.traceback or command.poll() not in (0, STOPPED) or len(said) > 1:
        return failure(command, f"exit code {command.poll()} after a signal")
    if command.poll() == STOPPED and not said:
        return failure(command, "no sentence after a signal")
    return Outcome(done=int(command.poll() == STOPPED))


def sentences(command: Command) -> list[str]:
    """What the command says of its end."""
    return [line for line in command.errors.splitlines() if line.startswith("lookalike: stopped")]


def is_handling(process: int) -> bool:
    """Whether a process has come so far that it handles SIGTERM; before that Python starts."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has ended
        return True
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


class TrainingSignals(TrainingKills):
    """A training is stopped up to three times, and ends with the bits of an undisturbed one."""

    unit = "faults"

    def __init__(self) -> None:
        super().__init__("plain")
        self.name = "signals.training"
        self.weight = 3.0
        self.quick = 1

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Stop, go on, compare."""
        arguments, total = settings(self.variant, self.pictures, folder / "runs"), Outcome()
        stops = random.randint(1, 3)
        for _ in range(stops):
            at = moment(random, self.seconds, stops + 1)
            total += stopped(fork(arguments, folder, self.cache), random, at)
        last = fork(arguments, folder, self.cache)
        total += unexpected(last, (0,))
        if outcome(folder / "runs") != self.expected:
            total += failure(last, "not the result of the undisturbed run")
        return total


class StudySignals(StudyScenario):
    """A study is stopped up to three times: no trial is lost, counted twice or failed."""

    name = "signals.study"
    unit = "faults"
    weight = 3.0
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Stop, go on, compare."""
        results, total = folder / "results", Outcome()
        start = study_command(self.study_in(folder), results, "--workers", "2")
        stops = random.randint(1, 3)
        for _ in range(stops):
            at = moment(random, self.seconds, stops + 1)
            total += stopped(fork(start, folder, self.cache), random, at)
        total += self.to_the_end(start, folder, None)
        return total + self.compare(results)


SCENARIOS: tuple[Scenario, ...] = (TrainingSignals(), StudySignals())
