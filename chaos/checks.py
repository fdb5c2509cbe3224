"""What a command that ended means for an attempt."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from chaos.commands import PATIENCE, Command, fork
from chaos.faults import FAULT, POINTS
from chaos.scenario import Outcome

__all__ = [
    "begun",
    "failure",
    "killed_at_write",
    "killed_once",
    "moment",
    "refused",
    "same_or_sentence",
    "unexpected",
]


def moment(random: Random, seconds: float, kills: int) -> float:
    """When to kill work that takes so many seconds and is killed so often: each time some is kept.

    Args:
        random: Of the attempt.
        seconds: The duration of the undisturbed work.
        kills: How often it is killed.

    Returns:
        Seconds from the start of the process.
    """
    return random.uniform(0, seconds * (0.3 + 0.7 / kills))


def killed_once(
    arguments: Sequence[str],
    folder: Path,
    random: Random,
    delay: float,
    number: int,
    variables: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> Outcome:
    """Start a command that is killed, in half of the cases between a write and its renaming.

    Args:
        arguments: Of ``lookalike``.
        folder: For what the command says.
        random: Of the attempt.
        delay: Kill it after so many seconds, in the other half.
        number: At this write, in that half.
        variables: Of the command.
        codes: Right for a command that ended before.
    """
    if random.random() < 0.5:
        return killed_at_write(arguments, folder, random, number, variables, codes)
    command = fork(arguments, folder, variables)
    killed = command.kill_after(delay)
    return Outcome(int(killed)) + unexpected(command, (*codes, -signal.SIGKILL))


def killed_at_write(
    arguments: Sequence[str],
    folder: Path,
    random: Random,
    number: int,
    variables: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> Outcome:
    """Start a command that is killed at its ``number``-th write, before or after the renaming."""
    fault = {FAULT: f"{random.choice(POINTS)}:{number}:kill"}
    command = fork(arguments, folder, {**(variables or {}), **fault})
    killed = command.wait() == -signal.SIGKILL
    return Outcome(int(killed)) + unexpected(command, (*codes, -signal.SIGKILL))


def begun(command: Command, done: Callable[[], bool]) -> bool:
    """Wait until a command has done something or ended; whether it is still running."""
    until = time.monotonic() + PATIENCE
    while command.poll() is None and not done() and time.monotonic() < until:
        time.sleep(0.02)
    return command.poll() is None


def unexpected(command: Command, codes: tuple[int, ...]) -> Outcome:
    """A problem if the command ended otherwise, or did not end."""
    code = command.wait()
    if code in codes and not command.traceback:
        return Outcome()
    return failure(command, "it did not end" if code is None else f"exit code {code}")


def failure(command: Command, what: str) -> Outcome:
    """A command that should not have ended like this."""
    problem = f"{what}: {command.errors[-3000:]}"
    return Outcome(wrong=1, tracebacks=int(command.traceback), problems=(problem,))


def refused(command: Command, *names: str) -> bool:
    """Whether it ended with one sentence that has one of ``names``, and exit code 1 or 2."""
    said = [line for line in command.errors.splitlines() if line.startswith("lookalike: ")]
    named = not names or any(name in said[-1] for name in names) if said else False
    return command.poll() in (1, 2) and named and not command.traceback


def same_or_sentence(command: Command, same: bool, *names: str) -> Outcome:
    """After a fault a command gives the same result, or says in a sentence why not."""
    if (command.poll() == 0 and same and not command.traceback) or refused(command, *names):
        return Outcome()
    what = "a wrong result" if command.poll() == 0 else f"exit code {command.poll()}"
    return failure(command, f"{what}, no sentence with one of {names}")
