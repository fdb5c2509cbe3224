"""How many images fit in a budget of time, and stages that stop at its end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.study.driver import Clock

RESERVE_SECONDS = 30.0
"""Kept for statistics and the page; a fifth of a budget that is short."""
EXTRACTION_SHARE = 0.4
"""Of the budget, at most, for looking at the images and computing features."""
FEWEST_IMAGES = 4
"""Of a class, where not all of its images fit in."""
MARGIN = 1.25
"""How much slower than measured the work may be, since other work runs beside it."""


class TimeIsUp(LookalikeError):
    """The budget is used up; what is finished is kept."""


def clock_of(minutes: float, begun: float | None = None) -> Clock:
    """The clock of a choice: a few seconds at its end are for statistics and the page.

    Args:
        minutes: The whole budget.
        begun: When it began, by ``time.monotonic``; now if not given.

    Raises:
        BadInput: It is no budget.
    """
    if not minutes > 0:
        raise BadInput(f"--minutes {minutes:g} is invalid: it must be above 0")
    return Clock(60 * minutes, begun, reserve=min(RESERVE_SECONDS, 12 * minutes))


class TimedWatcher(Watcher):
    """Another watcher until the time is up; then the next stage ends the work.

    Args:
        inner: Who is told.
        clock: The time that is left.
    """

    def __init__(self, inner: Watcher, clock: Clock) -> None:
        self.inner = inner
        self.clock = clock

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Pass it on, if there is time for the rest."""
        if self.clock.left < 0 and done < total:
            raise TimeIsUp(
                f"the time was up after {done:,} of {total:,} steps of '{name}', which were slower "
                "than measured at the start; give more --minutes"
            )
        self.inner.stage(name, done, total, detail)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.inner.note(text)


@dataclass(frozen=True)
class Pace:
    """Seconds that one image takes on this machine.

    Attributes:
        decode: To read and decode it.
        forward: To pass one view of it through the network.
    """

    decode: float
    forward: float

    def seconds(self, images: int, views: int) -> float:
        """The time for features.

        Args:
            images: How many; each is decoded twice, to be looked at and to be stored.
            views: Augmented views of each, besides the one of the test transform.

        Returns:
            Seconds, with a margin.
        """
        return MARGIN * images * (2 * self.decode + (1 + views) * self.forward)


@dataclass(frozen=True)
class Extraction:
    """The features that fit in the budget.

    Attributes:
        views: Augmented views of each image.
        per_class: Images of a class at most; None: all.
    """

    views: int
    per_class: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a file."""
        return vars(self) | {}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Extraction":
        """What :meth:`as_dict` returned."""
        return Extraction(int(values["views"]), values["per_class"])


def plan_extraction(
    pace: Pace, labels: NDArray[np.int64], seconds: float, views: int, *, whole: bool = False
) -> Extraction:
    """The most views, then the most images of each class, whose features fit in.

    Args:
        pace: Seconds for one image.
        labels: The class of each image.
        seconds: The whole budget.
        views: The augmented views that are wanted.
        whole: Whether all images must be used.

    Returns:
        What fits into the budget's share for features.

    Raises:
        BadInput: All images, or a few of each class, would take too long already.
    """
    allowed = EXTRACTION_SHARE * seconds
    for fewer in range(views, -1, -1):
        if pace.seconds(len(labels), fewer) <= allowed:
            return Extraction(fewer)
    sizes = np.bincount(labels)
    if not whole:
        for most in range(int(sizes.max()) - 1, FEWEST_IMAGES - 1, -1):
            if pace.seconds(int(np.minimum(sizes, most).sum()), 0) <= allowed:
                return Extraction(0, most)
    least = len(labels) if whole else int(np.minimum(sizes, FEWEST_IMAGES).sum())
    needed = pace.seconds(least, 0) / EXTRACTION_SHARE
    which = f"all {least:,} images" if whole else f"{FEWEST_IMAGES} images of each class"
    raise BadInput(
        f"--minutes {seconds / 60:g} is too little: the features of {which} need a budget of about "
        f"{-(-needed // 60):.0f} minutes on this machine"
    )
