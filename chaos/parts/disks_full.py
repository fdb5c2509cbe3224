"""A disk that is full, has a quota, is read-only or slow: a sentence, and the same result later."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

from chaos.checks import failure, same_or_sentence
from chaos.commands import warm
from chaos.parts.kills_search import CLASSES, EVERY_CLASS, EmbedKills, IndexKills, to_the_end
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import POINTS, TrainingKills
from chaos.scenario import Outcome, Scenario, Unavailable
from chaos.study import study_command
from chaos.training import outcome, settings


class DiskFault(TrainingKills):
    """A training on a disk with a fault, and again when the fault is gone."""

    unit = "faults"
    kind = ""

    def __init__(self, variant: str) -> None:
        super().__init__(variant)
        self.name = f"disks.{self.kind}.{variant}"
        self.quick = int(self.kind == "rename")

    def tried(
        self,
        disk: Path,
        folder: Path,
        fault: Mapping[str, str] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Outcome:
        """Train with the fault: the same result, or a sentence that names a file on the disk."""
        cache = {"LOOKALIKE_CACHE": str(disk / "cache")}
        arguments = settings(self.variant, self.pictures, disk / "runs")
        command = warm(arguments, folder, cache | dict(fault or {}), limits)
        command.wait()
        return Outcome(1) + same_or_sentence(command, self.same(disk), str(disk))

    def again(self, disk: Path, folder: Path) -> Outcome:
        """Train without the fault: the result of the undisturbed run."""
        cache = {"LOOKALIKE_CACHE": str(disk / "cache")}
        command = warm(settings(self.variant, self.pictures, disk / "runs"), folder, cache)
        if command.wait() == 0 and self.same(disk) and not command.traceback:
            return Outcome()
        return failure(command, "not the undisturbed result after the fault")

    def same(self, disk: Path) -> bool:
        """Whether the result is there, and that of the undisturbed run."""
        return outcome(disk / "runs") == self.expected


class Full(DiskFault):
    """A file system of a random, small size, enlarged afterwards."""

    kind = "full"
    weight = 2.0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte."""
        size = int(10 ** random.uniform(4.5, 6.7))
        with mounted(folder / "disk", f"size={size}") as disk:
            total = self.tried(disk, folder)
            mount("-o", "remount,size=200m", disk)
            return total + self.again(disk, folder)


class FullEmbed(EmbedKills):
    """The same while pictures are embedded."""

    name = "disks.full.embed"
    unit = "faults"
    weight = 0.5

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and go on when there is space."""
        with mounted(folder / "disk", f"size={int(10 ** random.uniform(3.5, 6))}") as disk:
            total = tried(self.arguments(disk / "vectors"), folder, disk)
            mount("-o", "remount,size=200m", disk)
            return total + self.completed(disk / "vectors", folder)


class FullIndex(IndexKills):
    """The same while an index is made, added to and compacted."""

    name = "disks.full.index"
    unit = "faults"
    weight = 0.5
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and complete the index when there is space."""
        with mounted(folder / "disk", f"size={int(10 ** random.uniform(4, 6))}") as disk:
            place, label = disk / "shop.index", f"{random.randrange(CLASSES):02}"
            more = ["index", "add", str(place), str(self.pictures)]
            total = Outcome()
            for change in (
                self.creation(place),
                ["index", "remove", str(place), "--label", label],
                more,
                ["index", "compact", str(place)],
            ):
                total += tried(change, folder, disk)
            mount("-o", "remount,size=200m", disk)
            whole = more if (place / "index.json").exists() else self.creation(place)
            total += to_the_end(whole, folder) + to_the_end(["index", "check", str(place)], folder)
            return total if total.failed else total + self.compare(place, EVERY_CLASS)


class FullStudy(StudyScenario):
    """The same of a study: a trial that had no space is no failed trial."""

    name = "disks.full.study"
    unit = "faults"
    quick = 0

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and go on when there is space."""
        with mounted(folder / "disk", f"size={int(10 ** random.uniform(4.5, 6.5))}") as disk:
            start = study_command(self.study_in(disk), disk / "results", "--workers", "1")
            total = tried(start, folder, disk)
            mount("-o", "remount,size=200m", disk)
            total += self.to_the_end(start, folder, None)
            return total + self.compare(
                disk / "results", f"sqlite:///{disk / 'results' / 'study.db'}"
            )


class ReadOnly(DiskFault):
    """A file system that becomes read-only, before or after a training was killed on it."""

    kind = "read-only"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill perhaps, protect, try, and go on."""
        with mounted(folder / "disk", "size=200m") as disk:
            if random.random() < 0.7:
                fault = {"LOOKALIKE_FAULT": f"renamed:{random.randint(1, 30)}:kill"}
                cache = {"LOOKALIKE_CACHE": str(disk / "cache")}
                arguments = settings(self.variant, self.pictures, disk / "runs")
                warm(arguments, folder, cache | fault).wait()
            mount("-o", "remount,ro", disk)
            total = self.tried(disk, folder)
            mount("-o", "remount,rw", disk)
            return total + self.again(disk, folder)


class Quota(DiskFault):
    """No file may be larger than a random number of bytes."""

    kind = "quota"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Limit the size of files, then not."""
        disk = folder / "disk"
        limit = int(10 ** random.uniform(2.5, 6))
        total = self.tried(disk, folder, limits={"RLIMIT_FSIZE": limit})
        return total + self.again(disk, folder)


class Refusing(DiskFault):
    """The disk is full between writing and renaming, or every renaming is slow."""

    kind = "rename"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fail at a random point, or wait at each."""
        disk = folder / "disk"
        action = f"{random.randint(1, 30)}:full" if random.random() < 0.8 else "*:sleep=0.05"
        fault = {"LOOKALIKE_FAULT": f"{random.choice(POINTS[:2])}:{action}"}
        return self.tried(disk, folder, fault) + self.again(disk, folder)


def tried(arguments: list[str], folder: Path, disk: Path) -> Outcome:
    """A command on a disk with a fault: it ends well, or with a sentence that names the disk."""
    command = warm(arguments, folder)
    command.wait()
    return Outcome(1) + same_or_sentence(command, True, str(disk))


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own in memory."""
    folder.mkdir()
    mount("-t", "tmpfs", "-o", options, "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def mount(*arguments: str | Path) -> None:
    """Call ``mount``.

    Raises:
        Unavailable: This user may not.
    """
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"mounting a file system is not permitted ({done.stderr.strip()})")


SCENARIOS: tuple[Scenario, ...] = (
    Full("plain"),
    Full("frozen"),
    Full("jpeg-store"),
    FullEmbed(),
    FullIndex(),
    FullStudy(),
    ReadOnly("plain"),
    Quota("ema"),
    Refusing("plain"),
)
