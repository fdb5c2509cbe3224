"""A collection of pictures that can be searched by what they look like."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from os import cpu_count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import Tensor

from lookalike.errors import BadInput, LookalikeError, did_you_mean
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.progress import Watcher
from lookalike.search.items import Hit, Item, Record
from lookalike.search.reading import Unreadable, read_picture
from lookalike.search.sources import Skipped, inside, list_pictures

__all__ = ["Added", "Found", "Index", "is_postgres"]

Found: TypeAlias = list[list[tuple[int, float]]]

SECONDS_BETWEEN_COMMITS = 60.0
BATCH = 64


@dataclass
class Added:
    """What became of the pictures that were given to an index."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.new:,} new"]
        parts += [f"{self.changed:,} changed"] if self.changed else []
        parts += [f"{self.unchanged:,} unchanged"] if self.unchanged else []
        parts += [f"{len(self.skipped):,} skipped"] if self.skipped else []
        return ", ".join(parts)


class Index(ABC):
    """Pictures with their vectors, and the model that made them.

    ``Index.create`` and ``Index.open`` take a folder, or ``postgresql://...#name``. Row ``i`` of
    ``ids``, ``paths``, ``labels``, ``metadata`` and ``vectors`` is one picture; ids stay the same
    as long as the picture does, rows do not.
    """

    place: str
    embedder: Embedder
    roots: tuple[Path, ...]
    approximation: str | None
    """What searches fast and how well that agrees with exact search; None: always exact."""

    @staticmethod
    def create(
        place: Path | str,
        embedder: Embedder,
        source: Path | None = None,
        watcher: Watcher | None = None,
    ) -> "Index":
        """A new index at ``place``; with ``source`` its pictures are added at once."""
        index = opener(place).create_empty(str(place), embedder)
        if source is not None:
            index.add(source, watcher)
        return index

    @staticmethod
    def open(place: Path | str) -> "Index":
        """The index at ``place``; what is not one, or of another version, is refused."""
        return opener(place).open_at(str(place))

    @classmethod
    @abstractmethod
    def create_empty(cls, place: str, embedder: Embedder) -> "Index":
        """A new index without pictures."""

    @classmethod
    @abstractmethod
    def open_at(cls, place: str) -> "Index":
        """An index that is there."""

    @property
    def root(self) -> Path:
        """The folder that was indexed first; paths are relative to it."""
        return self.roots[0] if self.roots else Path()

    @property
    @abstractmethod
    def ids(self) -> NDArray[np.int64]:
        """A number for each picture, ascending, never used again."""

    @property
    @abstractmethod
    def vectors(self) -> Vectors:
        """A unit vector for each picture, float32 [n, dim]."""

    @property
    @abstractmethod
    def records(self) -> Sequence[Record]:
        """What is known of each picture."""

    @property
    @abstractmethod
    def label_names(self) -> list[str]:
        """Every label, sorted."""

    @property
    @abstractmethod
    def paths(self) -> Sequence[str]:
        """Where each picture lies."""

    @property
    @abstractmethod
    def labels(self) -> Sequence[str | None]:
        """The label of each picture, where it has one."""

    @property
    @abstractmethod
    def metadata(self) -> Sequence[dict[str, str]]:
        """The other columns of each picture's row in a CSV."""

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is known of some pictures; an id that is not there is refused."""

    @abstractmethod
    def vector_of(self, id: int) -> Vectors:
        """The unit vector of a picture."""

    @abstractmethod
    def find(self, queries: Vectors, k: int, label: str | None, exact: bool) -> Found:
        """Ids and similarities of the ``k`` nearest pictures of each query, or of all there are."""

    @abstractmethod
    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Take in new pictures and drop others by id, all or nothing."""

    @abstractmethod
    def settle(self, watcher: Watcher) -> None:
        """After pictures came or went: see to it that search is fast."""

    def root_number(self, root: Path) -> int:
        """The number of a folder among ``roots``; a new one is remembered with the next commit."""
        if root not in self.roots:
            self.roots = (*self.roots, root)
        return self.roots.index(root)

    def search(
        self, vectors: ArrayLike, k: int = 10, *, label: str | None = None, exact: bool = False
    ) -> list[list[Hit]]:
        """The ``k`` most similar pictures of each vector, the most similar first.

        ``label`` looks at pictures of that label only. ``exact`` compares with every picture even
        where a faster way is there.
        """
        queries = np.atleast_2d(np.asarray(vectors, np.float32))
        if k < 1:
            raise BadInput(f"k must be at least 1, not {k}")
        if queries.ndim != 2 or queries.shape[1] != self.embedder.dim:
            raise BadInput(
                f"the index holds vectors of {self.embedder.dim} numbers, not {queries.shape[-1]}"
            )
        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or (lengths == 0).any():
            raise BadInput("a query must be a vector of numbers that is not zero")
        if label is not None and label not in self.label_names:
            raise BadInput(
                f"no picture has the label '{label}'; {did_you_mean(label, self.label_names)}"
            )
        found = self.find(queries / lengths, k, label, exact)
        known = iter(self.records_of([id for one in found for id, _ in one]))
        return [
            [
                Hit(id, record.path, record.label, record.metadata, min(1.0, similarity))
                for (id, similarity), record in zip(one, islice(known, len(one)), strict=True)
            ]
            for one in found
        ]

    def query(self, images: Sequence[Image.Image], k: int = 10, **options: Any) -> list[list[Hit]]:
        """The ``k`` most similar pictures of each image."""
        return self.search(self.embedder.embed(images), k, **options)

    def accept(self, encoder: Encoder) -> None:
        """Refuse an encoder whose vectors cannot be compared with those of the index."""
        if encoder.fingerprint != self.embedder.fingerprint:
            raise BadInput(
                f"the index '{self.place}' was made by another model "
                f"({self.embedder.fingerprint[:12]}, not {encoder.fingerprint[:12]}); "
                "its vectors cannot be compared"
            )

    def item(self, id: int) -> Item:
        """What is known of a picture."""
        record = self.records_of([id])[0]
        return Item(id, record.path, record.label, record.metadata)

    def file_of(self, id: int) -> Path:
        """The file of a picture, which must still lie in the folder that was indexed."""
        record = self.records_of([id])[0]
        found = inside(self.roots[record.root], record.path)
        if found is None:
            raise LookalikeError(f"the picture '{record.path}' is no longer in its folder")
        return found

    def add(self, source: Path, watcher: Watcher | None = None) -> Added:
        """Take in the pictures of a folder or CSV; those that are there unchanged are left.

        What has been embedded is kept every minute, so that a killed process loses little.
        """
        watcher = watcher or Watcher()
        above = [root for root in self.roots if source.expanduser().resolve().is_relative_to(root)]
        listing = list_pictures(source, above[0] if above else None)
        number = self.root_number(listing.root)
        known = {
            record.key: (int(id), record) for id, record in zip(self.ids, self.records, strict=True)
        }
        done = Added(skipped=list(listing.skipped))
        waiting: list[Record] = []
        replaced: dict[tuple[int, str], int] = {}
        for record in listing.records:
            record = replace(record, root=number)
            former = known.get(record.key)
            if former is not None and former[1] == record:
                done.unchanged += 1
                continue
            if former is not None:
                replaced[record.key] = former[0]
            waiting.append(record)
        for records, vectors in self._embedded(listing.root, waiting, done, watcher):
            dropped = [replaced[record.key] for record in records if record.key in replaced]
            self.commit(records, vectors, dropped)
            done.changed += len(dropped)
            done.new += len(records) - len(dropped)
        self.settle(watcher)
        return done

    def remove(self, ids: Iterable[int], watcher: Watcher | None = None) -> int:
        """Drop pictures; an id that is not there is refused and nothing is dropped."""
        gone = sorted(set(ids))
        self.records_of(gone)
        if gone:
            self.commit([], np.empty((0, self.embedder.dim), np.float32), gone)
            self.settle(watcher or Watcher())
        return len(gone)

    def _embedded(
        self, root: Path, records: Sequence[Record], done: Added, watcher: Watcher
    ) -> Iterator[tuple[list[Record], Vectors]]:
        """Records with their vectors, about a minute's work at a time."""
        kept: list[Record] = []
        parts: list[Vectors] = []
        last = time.monotonic()
        with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
            for start in range(0, len(records), BATCH):
                some = records[start : start + BATCH]
                pixels: list[Tensor] = []
                for record, read in zip(
                    some, pool.map(lambda r: self._read(root, r), some), strict=True
                ):
                    if isinstance(read, Skipped):
                        done.skipped.append(read)
                    else:
                        pixels.append(read)
                        kept.append(record)
                parts.append(self.embedder.embed_prepared(pixels, BATCH))
                watcher.stage("embedding", start + len(some), len(records))
                if kept and time.monotonic() - last > SECONDS_BETWEEN_COMMITS:
                    yield kept, np.concatenate(parts)
                    kept, parts, last = [], [], time.monotonic()
        if kept:
            yield kept, np.concatenate(parts)

    def _read(self, root: Path, record: Record) -> Tensor | Skipped:
        try:
            return self.embedder.prepare(read_picture(root / record.path))
        except Unreadable as error:
            return Skipped(record.path, error.reason)


def is_postgres(place: Path | str) -> bool:
    """Whether a place is the address of a PostgreSQL server."""
    return str(place).startswith(("postgresql://", "postgres://"))


def opener(place: Path | str) -> type[Index]:
    """The kind of index that a place can hold."""
    if is_postgres(place):
        try:
            from lookalike.search.postgres import PostgresIndex
        except ImportError as error:
            raise BadInput(
                f"an index in PostgreSQL needs the package '{error.name}': "
                "pip install 'lookalike[postgres]'"
            ) from error
        return PostgresIndex
    from lookalike.search.folder_index import FolderIndex

    return FolderIndex
