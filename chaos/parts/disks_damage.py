"""A file is removed, cut or one of its bits flipped: the same result, or a sentence naming it."""

import shutil
import signal
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import yaml

from chaos.checks import same_or_sentence, unexpected
from chaos.commands import Command, fork
from chaos.damage import PLAIN_FILES, damage, files_in, names_of
from chaos.faults import FAULT
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import TrainingKills
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario
from chaos.study import findings, study_command
from chaos.training import outcome, settings, trained_weights, whole_outcome
from lookalike.files import file_checksum

EXPORTED = "exported"
Told = tuple[str, dict[str, str]]
READERS = (
    ("evaluate", "{run}", "--json"),
    ("compare", "{run}", "--anyway", "--json"),
    ("export", "{run}", "-o", f"{EXPORTED}/model.onnx"),
)
"""Commands that read a finished run."""


def judged(command: Command, same: bool, names: tuple[str, ...], done: str) -> Outcome:
    """The outcome of a command after a file was damaged: the same, or a sentence with a name."""
    found = same_or_sentence(command, same, *names)
    problems = tuple(f"{done}: {problem}" for problem in found.problems)
    return replace(found, done=1, problems=problems)


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
        fault = {FAULT: f"renamed:{random.randint(8, 30)}:kill"}
        first = fork(arguments, folder, self.cache | fault)
        if first.wait() != -signal.SIGKILL:
            return unexpected(first, (0,))
        files = files_in(folder / "runs", "tensorboard", ".draft")
        if not files:
            return Outcome()
        path = random.choice(files)
        done = damage(random, path)
        command = fork(arguments, folder, self.cache)
        command.wait()
        same = outcome(folder / "runs") == self.expected
        return judged(command, same, names_of(path), done)


class GivenDamage(TrainingKills):
    """The recipe or the file of weights that a training is given was damaged before.

    Either may be anybody's work, so a changed one may be used; but the run then has another name.
    """

    unit = "faults"

    def __init__(self) -> None:
        super().__init__("frozen")
        self.name = "disks.damage.recipe"
        self.quick = 0

    def prepare(self, folder: Path) -> None:
        """Train undisturbed, by a recipe."""
        self.pictures = make_pictures(folder / "pictures")
        self.cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
        self.weights = trained_weights(self.pictures)
        done = self.trained(folder, self.write(folder / "whole"))
        if done.poll() != 0:
            raise RuntimeError(f"the undisturbed run failed: {done.errors}")
        self.expected, self.run = whole_outcome(folder / "runs"), self.runs(folder)

    def write(self, place: Path) -> Path:
        """A folder with the recipe, and a copy of the weights that it names."""
        place.mkdir()
        shutil.copy(self.weights, place)
        given = settings(self.variant, self.pictures, place)[1:]
        nested: dict[str, Any] = {}
        for key, _, value in (text.partition("=") for text in given):
            if key not in ("data.root", "runs_dir"):
                part, _, name = key.partition(".")
                nested.setdefault(part, {})[name] = yaml.safe_load(value)
        nested["model"]["weights"] = str(place / self.weights.name)
        recipe = place / "recipe.yaml"
        recipe.write_text(yaml.safe_dump(nested))
        return recipe

    def trained(self, folder: Path, recipe: Path) -> Command:
        """The training by the recipe, ended."""
        places = [f"data.root={self.pictures}", f"runs_dir={folder / 'runs'}"]
        command = fork(["train", str(recipe), *places], folder, self.cache)
        command.wait()
        return command

    def runs(self, folder: Path) -> set[str]:
        """The names of the runs, which end in the hash of everything that they depend on."""
        return {path.parent.name for path in (folder / "runs").glob("*-*/result.json")}

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, train."""
        recipe = self.write(folder / "given")
        path = random.choice(files_in(recipe.parent))
        done = damage(random, path)
        command = self.trained(folder, recipe)
        other = command.poll() == 0 and self.runs(folder) != self.run
        same = other or outcome(folder / "runs") == self.expected
        # of a recipe also the value that is no valid one
        return judged(command, same, () if path == recipe else names_of(path), done)


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
        command = fork(
            settings(self.variant, self.pictures, folder / "runs"),
            folder,
            {"LOOKALIKE_CACHE": str(cache)},
        )
        command.wait()
        same = outcome(folder / "runs") == self.expected
        return judged(command, same, names_of(path), done)


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
        self.printed: list[Told] = []
        for number in range(len(READERS)):
            command = self.read(number, self.run, folder)
            if command.poll() != 0:
                raise RuntimeError(f"an undisturbed run cannot be read: {command.errors}")
            self.printed.append(told(command, self.run))
        if not self.printed[-1][1]:
            raise RuntimeError("the export has written no file")

    def read(self, number: int, run: Path, folder: Path) -> Command:
        """One of the commands that read a run."""
        arguments = [text.format(run=run) for text in READERS[number]]
        command = fork(arguments, folder, self.cache)
        command.wait()
        return command

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, read."""
        run = folder / "runs" / self.run.name
        shutil.copytree(self.run, run)
        path = random.choice(files_in(run, "tensorboard", *PLAIN_FILES))
        done = damage(random, path)
        number = random.randrange(len(READERS))
        command = self.read(number, run, folder)
        return judged(command, told(command, run) == self.printed[number], names_of(path), done)


def told(command: Command, run: Path) -> Told:
    """What a command has printed of a run, wherever that is, and the files that it has written."""
    exported = command.folder / EXPORTED
    sums = {str(path.relative_to(exported)): file_checksum(path) for path in files_in(exported)}
    return command.output.replace(str(run.parent), ""), sums


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
        status = self.status(self.whole, folder)
        if status.poll() != 0:
            raise RuntimeError(f"the undamaged study has no status: {status.errors}")
        self.shown = status.output.replace(str(self.whole), "")

    def status(self, results: Path, folder: Path) -> Command:
        """The command that shows a study, ended."""
        command = fork(["study", "status", str(results), "--json"], folder, self.cache)
        command.wait()
        return command

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage, show, and run again."""
        results = folder / "results"
        shutil.copytree(self.whole, results)
        path = random.choice(files_in(results))
        done = damage(random, path)
        status = self.status(results, folder)
        same = status.output.replace(str(results), "") == self.shown
        total = judged(status, same, names_of(path), done)
        again = fork(
            study_command(self.study_in(folder), results, "--workers", "1"), folder, self.cache
        )
        again.wait()
        same = again.poll() == 0 and findings(results) == self.expected
        return total + replace(judged(again, same, names_of(path), done), done=0)


SCENARIOS: tuple[Scenario, ...] = (
    CheckpointDamage(),
    GivenDamage(),
    CacheDamage("plain", "raw-store"),
    CacheDamage("jpeg-store", "jpeg-store"),
    CacheDamage("frozen", "features"),
    RunDamage(),
    StudyDamage(),
)
