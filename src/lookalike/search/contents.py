"""What an index is made of: a store that is written to, and the contents of one of its states."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar, overload

import numpy as np

from lookalike.addresses import DatabaseAddress
from lookalike.errors import BadInput
from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.filters import Filter
from lookalike.search.items import Hit, Precision, Record
from lookalike.search.vectors import Ints

Address: TypeAlias = str | DatabaseAddress
BLOCK = 10_000


@dataclass(frozen=True)
class State:
    """The facts of one state of an index.

    Attributes:
        fingerprint: Of the model; empty where the index has none.
        dim: The size of its vectors.
        dtype: How exactly they are stored.
        generation: Grows with every commit.
        updated: When the last commit was, in seconds since 1970.
        count: How many pictures there are.
        roots: The folders that were indexed.
        approximation: How search is made fast, and its recall against exact search; None: exact.
    """

    fingerprint: str
    dim: int
    dtype: Precision
    generation: int
    updated: float
    count: int
    roots: tuple[Path, ...]
    approximation: str | None


class Contents(ABC):
    """The pictures of one state of an index: read and searched, never changed.

    What belongs to every picture (``ids``, ``vectors``, ``records``) is ordered by id.
    """

    state: State

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""

    @property
    @abstractmethod
    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label, by name."""

    @property
    @abstractmethod
    def ids(self) -> Ints:
        """The id of each picture, ascending."""

    @abstractmethod
    def count(self, where: Filter) -> int:
        """How many pictures match a filter."""

    @abstractmethod
    def ids_where(self, where: Filter) -> Ints:
        """The ids of the pictures that match a filter, ascending."""

    @abstractmethod
    def ids_of(self, records: Sequence[Record]) -> Ints:
        """The id of the picture with the same folder and path; -1: there is none."""

    @abstractmethod
    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures; an unknown id is refused."""

    @abstractmethod
    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures, float32 [n, dim]; an unknown id is refused."""

    @abstractmethod
    def search(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The ``k`` nearest pictures of each query among those that match, or all there are."""

    @cached_property
    def vectors(self) -> Vectors:
        """The unit vector of each picture, float32 [n, dim]."""
        found = np.empty((len(self.ids), self.state.dim), np.float32)
        for start in range(0, len(found), BLOCK):
            some = self.ids[start : start + BLOCK].tolist()
            found[start : start + len(some)] = self.vectors_of(some)
        return found

    @property
    def records(self) -> Sequence[Record]:
        """What is stored about each picture."""
        return Records(self)

    def has_label(self, label: str) -> bool:
        """Whether a picture has a label."""
        return label in self.label_counts

    def root_at(self, number: int) -> Path | None:
        """The folder of a number; None: the index names no such folder."""
        return self.state.roots[number] if 0 <= number < len(self.state.roots) else None


class Records(Sequence[Record]):
    """What is stored about each picture, read when it is needed."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def __len__(self) -> int:
        return self._contents.state.count

    @overload
    def __getitem__(self, row: int) -> Record: ...
    @overload
    def __getitem__(self, row: slice) -> list[Record]: ...
    def __getitem__(self, row: int | slice) -> Record | list[Record]:
        ids = self._contents.ids[row]
        if isinstance(row, slice):
            return self._contents.records_of(ids.tolist())
        return self._contents.records_of([int(ids)])[0]

    def __iter__(self) -> Iterator[Record]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]


C = TypeVar("C", bound=Contents)


class Store(ABC, Generic[C]):
    """Where an index is: it gives the newest contents, and changes them."""

    place: str
    address: Address
    """What opens it in another process; it may have a password, which ``str`` leaves out."""
    _model: Embedder | None = None

    @abstractmethod
    def newest(self, former: C | None = None) -> C:
        """The newest state; ``former`` itself where nothing has changed."""

    @abstractmethod
    def commit(
        self, former: C, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int]
    ) -> C:
        """Add new pictures and drop others, all or nothing; return the new state.

        A picture whose folder and path are in the index replaces that one; of several new ones
        with one folder and path the last one stays.
        """

    @abstractmethod
    def add_root(self, root: Path) -> None:
        """Give a folder the next number, unless it has one; numbers never change."""

    @abstractmethod
    def optimize(self, contents: C, watcher: Watcher) -> C:
        """Make search fast again where that is needed; return the new state."""

    @abstractmethod
    def compact(self, contents: C, watcher: Watcher) -> C:
        """Give back the space of removed pictures, and make search as fast as it can be."""

    @abstractmethod
    def load_model(self) -> Embedder:
        """The model of the index."""

    @abstractmethod
    def blueprint(self) -> Blueprint:
        """How its network is built, without its weights."""

    def model(self, state: State) -> Embedder:
        """The model of a state, loaded once."""
        if self._model is None or self._model.fingerprint != state.fingerprint:
            self._model = self.load_model()
        if (self._model.fingerprint, self._model.dim) != (state.fingerprint, state.dim):
            raise BadInput(
                f"the index '{self.place}' is damaged: its model is not the one it names"
            )
        return self._model
