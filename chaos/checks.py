"""What a command that ended means for an attempt."""

import signal
from random import Random

from chaos.commands import Command
from chaos.scenario import Outcome

__all__ = ["after_fault", "failure", "moment", "refused", "same_or_sentence", "unexpected"]


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


def after_fault(command: Command, codes: tuple[int, ...] = (0,)) -> Outcome:
    """What came of a command with a fault point that kills; ``codes``: unless it was killed."""
    killed = command.wait() == -signal.SIGKILL
    return Outcome(done=int(killed)) + unexpected(command, (*codes, -signal.SIGKILL))


def unexpected(command: Command, codes: tuple[int, ...]) -> Outcome:
    """A problem if the command ended otherwise, or did not end."""
    code = command.poll()
    if code in codes and not command.traceback:
        return Outcome()
    if code is None:
        command.kill()
    return failure(command, f"exit code {code}")


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
