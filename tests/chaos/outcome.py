"""What a scenario of the campaign is, and what an attempt of it finds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

__all__ = ["Outcome", "Scenario", "Unavailable", "Unit"]

Unit: TypeAlias = Literal["kills", "faults", "inputs", "requests"]


class Unavailable(Exception):
    """A scenario cannot run on this machine; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one attempt did, and what went wrong in it.

    Attributes:
        done: Kills, faults, inputs or requests that took effect.
        wrong: Results that differ from the undisturbed ones, inputs accepted that should not be,
            and work that did not end.
        lost: Records or pictures that are missing or there twice.
        tracebacks: Programs that ended with a traceback instead of a sentence.
        problems: A sentence for each thing that went wrong.
    """

    done: int = 0
    wrong: int = 0
    lost: int = 0
    tracebacks: int = 0
    problems: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything went wrong."""
        return bool(self.wrong or self.lost or self.tracebacks)

    def __add__(self, other: "Outcome") -> "Outcome":
        """The sums, and the problems of both."""
        return Outcome(
            self.done + other.done,
            self.wrong + other.wrong,
            self.lost + other.lost,
            self.tracebacks + other.tracebacks,
            self.problems + other.problems,
        )


class Scenario(ABC):
    """One kind of work that is disturbed at random.

    Attributes:
        name: ``disturbance.work``; ``--only`` takes a beginning of it.
        unit: What an attempt does to the work.
        weight: Its share of the time, compared with the others.
        quick: Whether ``make test`` makes an attempt.
        share: Part of the whole time for its one attempt, which is made alone, after all others;
            0: it makes attempts beside others.
        seconds: The time of that attempt, set by the campaign.
    """

    name: str
    unit: Unit = "faults"
    weight: float = 1.0
    quick: bool = False
    share: float = 0.0
    seconds: float = 0.0

    def prepare(self, folder: Path) -> None:  # noqa: B027 - not every scenario needs one
        """Make what attempts are compared with; called once, before the first attempt.

        Raises:
            Unavailable: The scenario cannot run on this machine.
        """

    @abstractmethod
    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Disturb the work once; everything that is random comes from ``random``.

        Args:
            random: Seeded for this attempt.
            folder: A new folder, removed afterwards.
        """

    def close(self) -> None:  # noqa: B027 - not every scenario needs one
        """End what ``prepare`` has started."""

    def remark(self) -> str:
        """What the report says beside the counts, such as a measured time."""
        return ""
