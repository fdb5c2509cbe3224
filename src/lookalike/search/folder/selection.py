"""Some rows of a segment."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lookalike.inference.encoder import Vectors
from lookalike.search.folder.segment import Bits, Ints, Segment, unpack


@dataclass(frozen=True)
class Selection:
    """Rows of a segment: those that were not removed and to which a filter applies.

    ``bits`` is None where those are all.
    """

    segment: Segment
    bits: Bits | None
    count: int
    filtered: bool = False

    @property
    def narrow(self) -> bool:
        """Whether a filter leaves out rows; removed ones are few."""
        return self.filtered and self.bits is not None

    @cached_property
    def rows(self) -> Ints | None:
        """The rows, ascending; None: all."""
        if self.bits is None:
            return None
        return np.flatnonzero(unpack(self.bits, len(self.segment)))

    @cached_property
    def in_cells(self) -> Ints:
        """How many of the rows each cell of the fast search has."""
        assert self.segment.cells is not None
        held, size = self.segment.cells.cells, self.segment.cells.quantiser.note.cells
        chosen = held if self.bits is None else held[unpack(self.bits, len(self.segment))]
        return np.bincount(chosen, minlength=size)

    @cached_property
    def open_cells(self) -> tuple[Ints, Ints, Vectors]:
        """The cells that have any of the rows, how many, and their centroids."""
        assert self.segment.cells is not None
        numbers = np.flatnonzero(self.in_cells)
        centroids = self.segment.cells.quantiser.centroids
        every = len(numbers) == len(centroids)
        return numbers, self.in_cells[numbers], centroids if every else centroids[numbers]
