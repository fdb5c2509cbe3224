"""A disk that is full, has a quota, is read-only or slow: a sentence, and the same result later."""

import math
import mmap
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from chaos.checks import failure, killed_at_write, same_or_sentence, unexpected
from chaos.commands import fork
from chaos.damage import files_in
from chaos.faults import FAULT, POINTS
from chaos.parts.kills_search import CLASSES, EVERY_CLASS, EmbedKills, IndexKills, to_the_end
from chaos.parts.kills_study import StudyScenario
from chaos.parts.kills_training import TrainingKills
from chaos.scenario import Outcome, Scenario, Unavailable
from chaos.study import study_command
from chaos.training import outcome, settings

PAGE = mmap.PAGESIZE


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
        command = fork(arguments, folder, cache | dict(fault or {}), limits)
        refused = command.wait() != 0
        return Outcome(int(refused)) + same_or_sentence(command, self.same(disk), str(disk))

    def again(self, disk: Path, folder: Path, fault: Mapping[str, str] | None = None) -> Outcome:
        """Train without the fault, or with a harmless one: the result of the undisturbed run."""
        variables = {"LOOKALIKE_CACHE": str(disk / "cache"), **(fault or {})}
        command = fork(settings(self.variant, self.pictures, disk / "runs"), folder, variables)
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

    def prepare(self, folder: Path) -> None:
        """Train undisturbed, and measure the space that it takes."""
        super().prepare(folder)
        self.space = space_of(folder / "first") + space_of(folder / "cache")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte."""
        with mounted(folder / "disk", size(random, self.space)) as disk:
            total = self.tried(disk, folder)
            mount("-o", "remount,size=200m", disk)
            return total + self.again(disk, folder)


class FullEmbed(EmbedKills):
    """The same while pictures are embedded."""

    name = "disks.full.embed"
    unit = "faults"
    weight = 0.5

    def prepare(self, folder: Path) -> None:
        """Embed undisturbed, and measure the space that it takes."""
        super().prepare(folder)
        self.space = space_of(folder / "vectors")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and go on when there is space."""
        with mounted(folder / "disk", size(random, self.space)) as disk:
            total = tried(self.arguments(disk / "vectors"), folder, disk)
            mount("-o", "remount,size=200m", disk)
            return total + self.completed(disk / "vectors", folder)


class ReadOnlyEmbed(EmbedKills):
    """A file system that becomes read-only after the embedding of pictures was killed on it."""

    name = "disks.read-only.embed"
    unit = "faults"
    weight = 0.5

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill, protect, try, and go on."""
        with mounted(folder / "disk", "size=200m") as disk:
            arguments = self.arguments(disk / "vectors")
            number = random.randint(1, 12)
            killed = killed_at_write(arguments, folder, random, number)
            mount("-o", "remount,ro", disk)
            total = tried(arguments, folder, disk) + replace(killed, done=0)
            mount("-o", "remount,rw", disk)
            return total + self.completed(disk / "vectors", folder)


class FullIndex(IndexKills):
    """The same while an index is made, added to and compacted."""

    name = "disks.full.index"
    unit = "faults"
    weight = 0.5
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Make an index undisturbed, and measure the space that it takes."""
        super().prepare(folder)
        self.whole = folder / "shop.index"
        self.space = space_of(self.whole)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and complete the index when there is space."""
        label = f"{random.randrange(CLASSES):02}"
        with mounted(folder / "disk", size(random, 2 * self.space)) as disk:
            place = disk / "shop.index"
            total, there = self.changed(place, folder, disk, label, self.creation(place))
            mount("-o", "remount,size=200m", disk)
            return total + self.completed(place, folder, there)

    def changed(
        self, place: Path, folder: Path, disk: Path, label: str, *first: list[str]
    ) -> tuple[Outcome, set[str]]:
        """Try some changes on a disk with a fault; the classes that the index has afterwards.

        Args:
            place: Of the index.
            folder: For what the commands say.
            disk: With the fault.
            label: A class that is removed and added again.
            first: Creates the index, if it is not there.
        """
        remove = ["index", "remove", str(place), "--label", label]
        add = ["index", "add", str(place), str(self.pictures)]
        total, there = Outcome(), set() if first else set(EVERY_CLASS)
        for change in (*first, remove, add, ["index", "compact", str(place)]):
            if change == remove and not there:  # it would be refused for another reason
                continue
            found = tried(change, folder, disk)
            total += found
            if not (place / "index.json").exists():
                break
            if not found.done:  # it was not refused
                after = {"remove": there - {label}, "compact": there}
                there = after.get(change[1], set(EVERY_CLASS))
        return total, there

    def completed(self, place: Path, folder: Path, there: set[str]) -> Outcome:
        """What the index has without the fault; then everything is added and compared again."""
        created = (place / "index.json").exists()
        total = self.compare(place, there) if created else Outcome()
        add = ["index", "add", str(place), str(self.pictures)]
        total += to_the_end(add if created else self.creation(place), folder)
        total += to_the_end(["index", "check", str(place)], folder)
        return total if total.failed else total + self.compare(place, EVERY_CLASS)


class ReadOnlyIndex(FullIndex):
    """An index on a file system that becomes read-only is changed."""

    name = "disks.read-only.index"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Protect, try each change, and go on."""
        label = f"{random.randrange(CLASSES):02}"
        with mounted(folder / "disk", "size=200m") as disk:
            place = disk / "shop.index"
            shutil.copytree(self.whole, place)
            mount("-o", "remount,ro", disk)
            total, there = self.changed(place, folder, disk, label)
            mount("-o", "remount,rw", disk)
            return total + self.completed(place, folder, there)


class FullStudy(StudyScenario):
    """The same of a study: a trial that had no space is no failed trial."""

    name = "disks.full.study"
    unit = "faults"
    quick = 0

    def prepare(self, folder: Path) -> None:
        """Run the study undisturbed, and measure the space that it takes."""
        super().prepare(folder)
        self.space = space_of(folder / "whole") + space_of(folder / "runs")

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fill the disk at a random byte, and go on when there is space."""
        with mounted(folder / "disk", size(random, self.space)) as disk:
            start = study_command(self.study_in(disk), disk / "results", "--workers", "1")
            total = tried(start, folder, disk)
            mount("-o", "remount,size=200m", disk)
            total += self.to_the_end(start, folder, None)
            return total + self.compare(disk / "results")


class ReadOnly(DiskFault):
    """A file system that becomes read-only, before or after a training was killed on it."""

    kind = "read-only"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill perhaps, protect, try, and go on."""
        killed = Outcome()
        with mounted(folder / "disk", "size=200m") as disk:
            if random.random() < 0.7:
                fault = {FAULT: f"renamed:{random.randint(1, 30)}:kill"}
                cache = {"LOOKALIKE_CACHE": str(disk / "cache")}
                arguments = settings(self.variant, self.pictures, disk / "runs")
                first = fork(arguments, folder, cache | fault)
                killed = unexpected(first, (0, -signal.SIGKILL))
            mount("-o", "remount,ro", disk)
            total = self.tried(disk, folder) + killed
            mount("-o", "remount,rw", disk)
            return total + self.again(disk, folder)


class Quota(DiskFault):
    """No file may be larger than a random number of bytes."""

    kind = "quota"

    def prepare(self, folder: Path) -> None:
        """Train undisturbed, and note the size of the largest file."""
        super().prepare(folder)
        files = files_in(folder / "first") + files_in(folder / "cache")
        self.largest = max(path.stat().st_size for path in files)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Limit the size of files, then not."""
        disk = folder / "disk"
        limit = int(10 ** random.uniform(2.5, math.log10(self.largest)))
        total = self.tried(disk, folder, limits={"RLIMIT_FSIZE": limit})
        return total + self.again(disk, folder)


class Refusing(DiskFault):
    """The disk is full between writing and renaming, and then every renaming is slow."""

    kind = "rename"

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Fail at a random point, then wait at each."""
        disk = folder / "disk"
        full, slow = f"{random.randint(1, 20)}:full", "*:sleep=0.05"
        first, second = (
            {FAULT: f"{random.choice(POINTS[:2])}:{action}"} for action in (full, slow)
        )
        return Outcome(1) + self.tried(disk, folder, first) + self.again(disk, folder, second)


def tried(arguments: list[str], folder: Path, disk: Path) -> Outcome:
    """A command on a disk with a fault: it ends well, or with a sentence that names the disk."""
    command = fork(arguments, folder)
    refused = command.wait() != 0
    return Outcome(int(refused)) + same_or_sentence(command, True, str(disk))


def space_of(folder: Path) -> int:
    """The bytes that a file system in memory needs for the files of a folder."""
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in files_in(folder))


def size(random: Random, space: int) -> str:
    """The option for a file system that is too small for ``space`` bytes."""
    return f"size={int(max(8 * PAGE, random.uniform(0.02, 0.95) * space))}"


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
    ReadOnlyEmbed(),
    ReadOnlyIndex(),
    Quota("ema"),
    Refusing("plain"),
)
