"""What may happen to any work: kills, signals, disks with faults, wrong clocks, damaged files.

Each disturbance is a function of a work, which disturbs it in a new folder, lets it come to its end
without any disturbance, and compares.
"""

import math
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.chaos.commands import (
    POINTS,
    Command,
    begun,
    failure,
    same_or_sentence,
    unexpected,
)
from tests.chaos.files import PLAIN_FILES, damage, files_in, names_of
from tests.chaos.outcome import Outcome, Unavailable
from tests.chaos.works import Work
from tests.commands import handles_signals

__all__ = [
    "clock_set_back", "damaged", "full_disk", "kills", "quota", "read_only_disk", "signals",
    "slow_disk",
]  # fmt: skip

KILLED = -signal.SIGKILL
STOPPED = 130
LAST_WORDS = "next: "
"""After them a command has done its work, and a signal may come too late."""
CLOCKS = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


def moment(work: Work, random: Random, times: int) -> float:
    """When to disturb a command that is disturbed so often: each time some of its work is kept."""
    return random.uniform(0, work.seconds * (0.3 + 0.7 / times))


def write_point(random: Random, action: str = "kill") -> str:
    """A fault at some write, mostly at an early one."""
    number = min(int(random.expovariate(0.2)) + 1, 40)
    return f"{random.choice(POINTS)}:{number}:{action}"


def kills(work: Work, random: Random, folder: Path) -> Outcome:
    """``kill -9`` at random moments, or between a write and its renaming, of any process."""
    place, total = folder / "place", Outcome()
    for step in work.steps(place, random):
        times = random.randint(1, 5)
        command: Command | None = None
        for _ in range(times):
            if command is None and random.random() < 0.4:
                command = work.start(step, place, folder, fault=write_point(random))
                command.within(2 * work.seconds)
                total += Outcome(int(command.poll() == KILLED or command.kill_now()))
                total += unexpected(command, (*step.codes, *work.after_loss, KILLED))
                command = None
                continue
            command = command or work.start(step, place, folder)
            if command.within(moment(work, random, times)) is not None:
                total += unexpected(command, (*step.codes, *work.after_loss))
                command = None
                continue
            total += Outcome(int(random.choice(work.victims(command, random))()))
            if work.after_loss != (0,) or command.poll() is not None:
                total += unexpected(command, (*step.codes, *work.after_loss, KILLED))
                command = None
        total += work.finish(step, place, folder, command)
    return total + work.compare(place)


def signals(work: Work, random: Random, folder: Path) -> Outcome:
    """Ctrl-C, SIGTERM or a closed terminal: one sentence, 130, and the same command resumes."""
    place, total = folder / "place", Outcome()
    for step in work.steps(place, random):
        times = random.randint(1, 3)
        for _ in range(times):
            command = work.start(step, place, folder)
            total += stopped(command, random, moment(work, random, times + 1))
        total += work.finish(step, place, folder)
    return total + work.compare(place)


def stopped(command: Command, random: Random, seconds: float) -> Outcome:
    """Send a signal to the command's group, as a terminal does, after so many seconds."""
    with suppress(OSError):  # it has ended
        begun(command, lambda: handles_signals(command.pid))
    command.within(seconds)
    number = random.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    working = command.poll() is None and LAST_WORDS not in command.stderr
    with suppress(ProcessLookupError):
        os.killpg(command.pid, number)
    code = command.end()
    said = [line for line in command.stderr.splitlines() if line.startswith("lookalike: stopped")]
    if working and code == 0:
        return failure(command, f"it went on after signal {number}")
    if command.traceback or code not in (0, STOPPED) or len(said) != int(code == STOPPED):
        return failure(command, f"exit code {code} and {len(said)} sentences after a signal")
    return Outcome(done=int(code == STOPPED))


def full_disk(work: Work, random: Random, folder: Path) -> Outcome:
    """A file system of a random, small size, enlarged afterwards."""
    size = int(max(32_768, random.uniform(0.02, 0.95) * work.space))
    with mounted(folder / "disk", f"size={size}") as disk:
        total = tried(work, disk / "place", random, folder, disk)
        mount("-o", "remount,size=400m", disk)
        return total + completed(work, disk / "place", random, folder)


def read_only_disk(work: Work, random: Random, folder: Path) -> Outcome:
    """A file system that becomes read-only after the work was killed on it."""
    with mounted(folder / "disk", "size=400m") as disk:
        place = disk / "place"
        first = work.start(work.steps(place, random)[0], place, folder, fault=write_point(random))
        killed = unexpected(first, (0, *work.after_loss, KILLED))
        mount("-o", "remount,ro", disk)
        total = killed + tried(work, place, random, folder, disk)
        mount("-o", "remount,rw", disk)
        return total + completed(work, place, random, folder)


def quota(work: Work, random: Random, folder: Path) -> Outcome:
    """No file may be larger than a random number of bytes."""
    place = folder / "place"
    limit = int(10 ** random.uniform(2.5, math.log10(max(work.sizes))))
    total = tried(work, place, random, folder, folder, limits={"RLIMIT_FSIZE": limit})
    return total + completed(work, place, random, folder)


def slow_disk(work: Work, random: Random, folder: Path) -> Outcome:
    """The disk is full between writing and renaming, and then every renaming is slow."""
    place = folder / "place"
    full = f"{random.choice(POINTS[:2])}:{random.randint(1, 20)}:full"
    total = Outcome(1) + tried(work, place, random, folder, folder, fault=full)
    return total + completed(work, place, random, folder, fault="rename:*:sleep=0.05")


def tried(
    work: Work, place: Path, random: Random, folder: Path, named: Path, **how: object
) -> Outcome:
    """The work with a fault: each command ends well, or with a sentence that names the place."""
    total = Outcome()
    for step in work.steps(place, random) if place.parent.exists() else ():
        command = work.start(step, place, folder, **how)
        command.end()
        total += Outcome(int(command.poll() != 0))
        if command.poll() not in step.codes:
            total += same_or_sentence(command, True, str(named))
    return total


def completed(work: Work, place: Path, random: Random, folder: Path, **how: object) -> Outcome:
    """The work without the fault: the undisturbed outcome."""
    total = Outcome()
    for step in work.steps(place, random):
        total += work.finish(step, place, folder, **how)
    return total + work.compare(place)


def clock_set_back(work: Work, random: Random, folder: Path) -> Outcome:
    """The work is killed in the future, and resumes today.

    Raises:
        Unavailable: libfaketime is not installed.
    """
    found = [path for pattern in CLOCKS for path in Path("/").glob(pattern[1:])]
    if not found:
        raise Unavailable("libfaketime is not installed (apt install faketime)")
    place = folder / "place"
    clock = {"LD_PRELOAD": str(found[0]), "FAKETIME": random.choice(("+2h", "+1d", "+40d"))}
    (step,) = work.steps(place, random)
    future = work.start(step, place, folder, clock, fresh=True)
    begun(future, lambda: work.progress(place))
    future.within(random.uniform(0, 0.1) * work.seconds)
    total = Outcome(int(future.kill_now())) + unexpected(future, (0, KILLED))
    return total + work.finish(step, place, folder) + work.compare(place)


def damaged(work: Work, random: Random, folder: Path) -> Outcome:
    """A file of killed work is removed, cut or has a bit flipped: the same, or a sentence."""
    place = folder / "place"
    (step,) = work.steps(place, random)
    fault = f"renamed:{random.randint(4, 30)}:kill"
    total = unexpected(work.start(step, place, folder, fault=fault), (0, KILLED))
    files = files_in(
        place, "tensorboard", ".draft", "small.yaml", "digests-", "study.db", *PLAIN_FILES
    )
    if not files:
        return total
    path = random.choice(files)
    done = damage(random, path)
    command = work.start(step, place, folder)
    same = command.end() == 0 and not work.compare(place).failed
    found = same_or_sentence(command, same, *names_of(path))
    problems = tuple(f"{done}: {problem}" for problem in found.problems)
    return total + Outcome(1, found.wrong, found.lost, found.tracebacks, problems)


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
