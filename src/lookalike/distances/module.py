"""What losses and miners share: they compare embeddings by a distance."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, ClassVar

from torch import nn

from lookalike.distances.base import Distance
from lookalike.distances.naming import DistanceLike, create
from lookalike.distances.products import CosineSimilarity
from lookalike.distances.statistics import Statistics
from lookalike.errors import BadInput
from lookalike.registry import Configurable

__all__ = ["DistanceModule"]

if TYPE_CHECKING:

    class _DistanceArgument:
        """An argument that takes a name or a distance, and an attribute that is a distance."""

        def __get__(self, module: object, kind: type | None = None) -> Distance: ...

        def __set__(self, module: object, given: DistanceLike | None) -> None: ...


NEEDS: dict[str, Callable[[Distance], bool]] = {
    "a distance (l2)": lambda distance: not distance.is_inverted,
    "a similarity (cosine)": lambda distance: distance.is_inverted,
    "distances of unit vectors (l2 or l2-squared)": (
        lambda distance: distance.ordered_by_cosine and not distance.is_inverted
    ),
    "the cosine": lambda distance: distance.is_inverted and distance.ordered_by_cosine,
    "unit vectors (cosine or l2)": lambda distance: distance.ordered_by_cosine,
}
"""What losses and miners may ask of a distance."""


class DistanceModule(Configurable, nn.Module):
    """What losses and miners share: they compare embeddings by a distance.

    Args:
        distance: How embeddings are compared; None: the default of the loss or miner.
        collect_stats: Accepted as PML's, and without effect: no statistics are kept. None: as the
            global ``COLLECT_STATS`` says.
    """

    default_distance: ClassVar[Callable[[], Distance]] = CosineSimilarity
    """What ``distance=None`` means."""
    needs: ClassVar[str] = ""
    """What the distance must be, one of the keys of ``NEEDS``; empty: anything."""

    _: KW_ONLY
    if TYPE_CHECKING:
        distance: _DistanceArgument = _DistanceArgument()
    else:
        distance: DistanceLike | None = None
    collect_stats: bool | None = None

    def __post_init__(self) -> None:
        """Build the distance, and check the settings."""
        super().__post_init__()
        if self.collect_stats is None:
            self.collect_stats = Statistics.wanted
        given = self.distance
        del self.distance  # one of PML's is a torch module, which only a module may replace
        self.distance = type(self).default_distance() if given is None else create(given)
        if self.needs and not NEEDS[self.needs](self.distance):
            raise BadInput(f"{type(self).__name__} needs {self.needs}, not {self.distance}")

    def extra_repr(self) -> str:
        """The settings, and the distance where it is not the default."""
        shown = [text] if (text := super().extra_repr()) else []
        if self.distance != type(self).default_distance():
            shown.append(f"distance={self.distance}")
        return ", ".join(shown)
