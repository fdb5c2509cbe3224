"""A file is removed, cut or one of its bits flipped: the same result, or a sentence naming it."""

import shutil
from pathlib import Path
from random import Random

from chaos.checks import same_or_sentence
from chaos.commands import Command, warm
from chaos.damage import damage, files_in
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import TrainingKills
from chaos.scenario import Outcome, Scenario
from chaos.study import findings, study_command
from chaos.training import outcome, settings

READERS = (
    ("evaluate", "{run}", "--json"),
    ("compare", "{run}", "--anyway", "--json"),
    ("export", "{run}", "-o", "exported"),
)
"""Commands that read a finished run."""


def judged(command: Command, same: bool, path: Path, done: str) -> Outcome:
    """The outcome of a command after a file was damaged; the file or its folder is to be named."""
    found = same_or_sentence(command, same, path.name, path.parent.name)
    problems = tuple(f"{done}: {problem}" for problem in found.problems)
    return Outcome(1, found.wrong, found.lost, found.tracebacks, problems)


class CheckpointDamage(TrainingKills):
    """A killed training whose folder was damaged is continued."""

    unit = "faults"
    weight = 2.0

    def __init__(self) -> None:
        super().__init__("ema")
        self.name = "disks.damage.checkpoint"
        self.quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill, damage, continue."""
        arguments = settings(self.variant, self.pictures, folder / "runs")
        fault = {"LOOKALIKE_FAULT": f"renamed:{random.randint(8, 30)}:kill"}
        warm(arguments, folder, self.cache | fault).wait()
        files = files_in(folder / "runs", "tensorboard", ".draft")
        if not files:
            return Outcome()
        path = random.choice(files)
        done = damage(random, path)
        command = warm(arguments, folder, self.cache)
        command.wait()
        same = outcome(folder / "runs") == self.expected
        return judged(command, same, path, done)


class CacheDamage(TrainingKills):
    """The image cache, or that of features, was damaged before a training."""

    unit = "faults"

    def __init__(self, variant: str, name: str) -> None:
        super().__init__(variant)
        self.name = f"disks.damage.{name}"
        self.quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, train."""
        cache = folder / "cache"
        shutil.copytree(self.cache["LOOKALIKE_CACHE"], cache)
        path = random.choice(files_in(cache))
        done = damage(random, path)
        command = warm(
            settings(self.variant, self.pictures, folder / "runs"),
            folder,
            {"LOOKALIKE_CACHE": str(cache)},
        )
        command.wait()
        return judged(command, outcome(folder / "runs") == self.expected, path, done)


class RunDamage(TrainingKills):
    """A file of a finished run was damaged before it is evaluated, compared or found again."""

    unit = "faults"
    weight = 2.0

    def __init__(self) -> None:
        super().__init__("plain")
        self.name = "disks.damage.run"
        self.quick = 0

    def prepare(self, folder: Path) -> None:
        """Train, and note what readers of the run print."""
        super().prepare(folder)
        found = [
            path for path in (folder / "first").glob("*/result.json") if "latest" not in str(path)
        ]
        self.run = found[0].parent
        self.printed = []
        for number in range(len(READERS)):
            command = self.read(number, self.run, folder)
            if command.poll() != 0:
                raise RuntimeError(f"an undisturbed run cannot be read: {command.errors}")
            self.printed.append(command.output.replace(str(self.run.parent), ""))

    def read(self, number: int, run: Path, folder: Path) -> Command:
        """One of the commands that read a run."""
        arguments = [text.format(run=run) for text in READERS[number]]
        command = warm(arguments, folder, self.cache)
        command.wait()
        return command

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, read."""
        run = folder / "runs" / self.run.name
        shutil.copytree(self.run, run)
        path = random.choice(files_in(run, "tensorboard"))
        done = damage(random, path)
        number = random.randrange(len(READERS))
        command = self.read(number, run, folder)
        same = command.output.replace(str(run.parent), "") == self.printed[number]
        return judged(command, same, path, done)


class StudyDamage(StudyScenario):
    """A file of a study was damaged, also its database, before it is run again."""

    name = "disks.damage.study"
    unit = "faults"
    weight = 2.0
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Run the study once."""
        super().prepare(folder)
        self.whole = folder / "whole"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, show, and run again."""
        results = folder / "results"
        shutil.copytree(self.whole, results)
        path = random.choice(files_in(results))
        done = damage(random, path)
        status = warm(["study", "status", str(results), "--json"], folder, self.cache)
        status.wait()
        total = judged(status, True, path, done)
        again = warm(
            study_command(self.study_in(folder), results, "--workers", "1"), folder, self.cache
        )
        again.wait()
        same = again.poll() == 0 and findings(results) == self.expected
        found = judged(again, same, path, done)
        return total + Outcome(0, found.wrong, found.lost, found.tracebacks, found.problems)


SCENARIOS: tuple[Scenario, ...] = (
    CheckpointDamage(),
    CacheDamage("plain", "raw-store"),
    CacheDamage("jpeg-store", "jpeg-store"),
    CacheDamage("frozen", "features"),
    RunDamage(),
    StudyDamage(),
)
