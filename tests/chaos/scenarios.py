"""The table of the campaign: which disturbance meets which work, and the scenarios beside it."""

from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import TypeAlias

from tests.chaos import disturbances
from tests.chaos.doors import doors
from tests.chaos.outcome import Outcome, Scenario, Unit
from tests.chaos.readers import readers
from tests.chaos.server import ServerKills, ServerLoad
from tests.chaos.works import VARIANTS, Work, works

__all__ = ["scenarios"]

Disturbance: TypeAlias = Callable[[Work, Random, Path], Outcome]

TABLE: tuple[tuple[str, Disturbance, Unit, tuple[str, ...]], ...] = (
    (
        "kills",
        disturbances.kills,
        "kills",
        (
            *(f"training.{variant}" for variant in VARIANTS),
            *("study", "ray-study", "embed", "import", "index"),
        ),
    ),
    ("signals", disturbances.signals, "faults", ("training.plain", "study", "embed")),
    (
        "disks.full",
        disturbances.full_disk,
        "faults",
        (
            *("training.plain", "training.frozen", "training.large-jpeg-store"),
            *("study", "embed", "index"),
        ),
    ),
    (
        "disks.read-only",
        disturbances.read_only_disk,
        "faults",
        ("training.plain", "study", "embed", "index"),
    ),
    ("disks.quota", disturbances.quota, "faults", ("training.ema",)),
    ("disks.slow", disturbances.slow_disk, "faults", ("training.plain", "embed")),
    (
        "disks.damage",
        disturbances.damaged,
        "faults",
        (
            *("training.ema", "training.frozen", "training.large-raw-store"),
            *("training.large-jpeg-store", "study"),
        ),
    ),
    ("clocks", disturbances.clock_set_back, "faults", ("training.plain", "study")),
)
QUICK = ("kills.training.plain", "kills.index", "signals.training.plain", "disks.slow.embed")
"""What ``make test`` makes an attempt of."""


class Disturbed(Scenario):
    """A work under a disturbance."""

    def __init__(self, kind: str, disturb: Disturbance, unit: Unit, work: Work) -> None:
        self.name, self.unit = f"{kind}.{work.name}", unit
        self.disturb, self.work = disturb, work
        self.quick = self.name in QUICK
        self.weight = 2.0 if work.name in ("study", "ray-study", "training.two-processes") else 1.0

    def prepare(self, folder: Path) -> None:
        """Do the work undisturbed."""
        self.work.prepare(folder)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Disturb it once."""
        return self.disturb(self.work, random, folder)

    def close(self) -> None:
        """End what the work has started."""
        self.work.close()


def scenarios(only: Collection[str] = ()) -> list[Scenario]:
    """All scenarios, or those whose name is or begins with one of ``only``.

    Raises:
        ValueError: A name of ``only`` is of no scenario.
    """
    makers = works()
    found: list[Scenario] = [
        Disturbed(kind, disturb, unit, makers[name]())
        for kind, disturb, unit, names in TABLE
        for name in names
    ]
    found += [*readers(), *doors(), ServerKills(), ServerLoad()]
    for wanted in only:
        if not any(chosen(one, wanted) for one in found):
            names = ", ".join(one.name for one in found)
            raise ValueError(f"no scenario '{wanted}'; choose one of: {names}")
    return [one for one in found if not only or any(chosen(one, wanted) for wanted in only)]


def chosen(scenario: Scenario, wanted: str) -> bool:
    """Whether a name is that of the scenario, or of a group that it is in."""
    return f"{scenario.name}.".startswith(f"{wanted}.")
