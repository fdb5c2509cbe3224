"""A budget of time: what is left of it, and which rows of a study no longer fit in."""

import time
from collections.abc import Sequence

from lookalike.study.progress import MethodProgress


class Clock:
    """The time that is left.

    Args:
        seconds: The whole budget.
        begun: When it began, by ``time.monotonic``; now if not given.
        reserve: Seconds at its end that are kept for other work.
    """

    def __init__(self, seconds: float, begun: float | None = None, reserve: float = 0.0) -> None:
        self.seconds = seconds
        self.begun = time.monotonic() if begun is None else begun
        self.reserve = reserve

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds that work may still take."""
        return self.seconds - self.reserve - self.used


def rows_without_time(
    rows: Sequence[MethodProgress], seconds: float, each: float
) -> list[MethodProgress]:
    """The rows that are not tuned and no longer fit in, with the tests of those that do.

    A row is begun only if its trials and tests fit in; one that is begun goes on while there is
    time for the tests of the tuned ones.

    Args:
        rows: All rows, in the order in which they are tuned.
        seconds: What is left.
        each: Seconds of one training, divided by the number of workers.

    Returns:
        Those that are left out; none while no row is tuned and there is time.
    """
    left = seconds - each * sum(row.runs_left for row in rows if row.tuned)
    found = []
    for row in rows:
        if not row.tuned:
            needed = each * row.runs_left
            if left < (0 if row.begun else needed):
                found.append(row)
            else:
                left -= needed
    return found
