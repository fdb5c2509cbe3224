"""An index in a folder: segments that are only added to, and one file that names the valid ones."""

import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.filters import Filter
from lookalike.search.folder import compaction, manifest, nearest, writer
from lookalike.search.folder.disk import Damaged, compacting, fsync, writing
from lookalike.search.folder.manifest import SEGMENTS, Manifest
from lookalike.search.folder.snapshot import Records, Snapshot
from lookalike.search.index import Address, Found, Index, vector_size
from lookalike.search.items import Hit, Precision, Record

CACHED = ("ids", "vectors", "label_names", "label_codes", "columns")


class FolderIndex(Index):
    """See :class:`~lookalike.search.index.Index`."""

    def __init__(self, snapshot: Snapshot, mark: tuple[int, int, int]) -> None:
        self.folder = snapshot.folder
        self.place = self.address = str(self.folder)
        self._show(snapshot, mark)

    def _show(self, snapshot: Snapshot, mark: tuple[int, int, int]) -> None:
        """Let this object show another state."""
        for name in CACHED:
            self.__dict__.pop(name, None)
        self.snapshot, self._mark = snapshot, mark
        self.manifest = found = snapshot.manifest
        self.fingerprint, self.dim, self.dtype = found.model, found.dim, found.vectors
        self.roots = tuple(map(Path, found.roots))
        self.generation, self.updated = found.generation, found.updated
        self.approximation = found.approximation
        self.records = Records(snapshot)
        # The common case needs no look at removed rows and other segments.
        segments = snapshot.segments
        plain = len(segments) == 1 and snapshot.selections()[0].bits is None
        self._only = segments[0] if plain and segments[0].cells is not None else None

    @classmethod
    def create_empty(
        cls,
        place: Address,
        embedder: Embedder | None,
        dim: int | None = None,
        vectors: Precision = "float32",
    ) -> Self:
        """A new index without pictures."""
        folder = Path(str(place))
        refuse_existing(folder)
        if folder.exists() and not (folder.is_dir() and only_leftovers(folder)):
            raise BadInput(f"'{folder}' exists already and is not an index")
        size = vector_size(embedder, dim)
        folder.mkdir(parents=True, exist_ok=True)
        with writing(folder):
            refuse_existing(folder)  # another process was faster
            if embedder is not None:
                embedder.save(folder / "model")
            (folder / SEGMENTS).mkdir(exist_ok=True)
            fsync(folder)
            mark = embedder.fingerprint if embedder is not None else ""
            new = Manifest(model=mark, dim=size, vectors=vectors, updated=time.time())
            new.write(folder)
        return cls.open_at(place)

    @classmethod
    def open_at(cls, place: Address) -> Self:
        """An existing index."""
        folder = Path(str(place))
        mark = manifest.mark(folder)
        return cls(Snapshot.open(folder), mark)

    def latest(self) -> "FolderIndex":
        """This index as it is in its folder now; itself where nothing changed."""
        mark = manifest.mark(self.folder)
        if mark == self._mark:
            return self
        try:
            found = FolderIndex(Snapshot.open(self.folder, self.snapshot), mark)
        except Damaged:  # or another index that was put in its place
            found = FolderIndex(Snapshot.open(self.folder), mark)
        if "embedder" in self.__dict__ and found.fingerprint == self.fingerprint:
            found.__dict__["embedder"] = self.embedder
        return found

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        """The model, loaded when it is needed."""
        self.refuse_without_model()
        found = Embedder.load(self.folder / "model")
        if (found.fingerprint, found.dim) != (self.fingerprint, self.dim):
            raise BadInput(
                f"the index '{self.folder}' is damaged: its model is not the one it names"
            )
        return found

    def __len__(self) -> int:
        return len(self.snapshot)

    @cached_property
    def ids(self) -> NDArray[np.int64]:  # type: ignore[override]
        """The id of each picture."""
        return self.snapshot.layout[0]

    @cached_property
    def vectors(self) -> Vectors:  # type: ignore[override]
        """All vectors; mapped where one segment holds them as float32, else copied."""
        chosen = self.snapshot.selections()
        if len(chosen) == 1 and chosen[0].bits is None and self.dtype == "float32":
            return chosen[0].segment.vectors
        return self.snapshot.decoded(*self.snapshot.layout[1:])

    @cached_property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """Every label, sorted."""
        return list(self.snapshot.label_counts)

    @cached_property
    def label_codes(self) -> NDArray[np.int32]:  # type: ignore[override]
        """The position of each picture's label in ``label_names``."""
        number = {name: code for code, name in enumerate(self.label_names)}
        _, numbers, rows = self.snapshot.layout
        codes = np.full(len(rows), -1, np.int32)
        for at, segment in enumerate(self.snapshot.segments):
            inside, parts = numbers == at, []
            for column in segment.table.column("label"):
                coded = pc.dictionary_encode(column)
                names = [number.get(name, -1) for name in coded.dictionary.to_pylist()]
                places = pc.fill_null(coded.indices, len(names)).to_numpy(zero_copy_only=False)
                parts.append(np.array([*names, -1], np.int32)[places])
            codes[inside] = np.concatenate(parts)[rows[inside]]
        return codes

    @cached_property
    def columns(self) -> list[str]:  # type: ignore[override]
        """The names of the metadata columns, sorted."""
        return sorted({name for note in self.manifest.segments for name in note.columns})

    def count(self, where: Filter | None = None) -> int:
        """How many pictures there are, or match a filter."""
        if where is None:
            return len(self)
        self.check_filter(where)
        return sum(one.count for one in self.snapshot.selections(where))

    def ids_where(self, where: Filter | None) -> NDArray[np.int64]:
        """The ids of the pictures that match a filter, ascending."""
        if where is None:
            return self.ids
        self.check_filter(where)
        parts = [np.empty(0, np.int64)]
        for one in self.snapshot.selections(where):
            parts.append(one.segment.ids_at(np.arange(one.count) if one.rows is None else one.rows))
        return np.sort(np.concatenate(parts))

    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label, by name."""
        return dict(self.snapshot.label_counts)

    def ids_of(self, records: Sequence[Record]) -> NDArray[np.int64]:
        """The id of the picture with the same folder and path; -1: there is none."""
        found = np.full(len(records), -1)
        for place, id, _, _ in self.snapshot.lookup([record.key for record in records]):
            found[place] = id
        return found

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return self.snapshot.records_at(*self.snapshot.where_is(ids))

    def check_ids(self, ids: Sequence[int]) -> None:
        """Refuse an id that no picture has."""
        self.snapshot.where_is(ids)

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures."""
        return self.snapshot.decoded(*self.snapshot.where_is(ids))

    def find(self, queries: Vectors, k: int, where: Filter | None, exact: bool) -> Found:
        """Ids and similarities of the nearest pictures."""
        similar, ids = self._nearest(queries, k, where, exact)
        pairs = zip(ids.tolist(), similar.tolist(), strict=True)
        return [list(zip(*pair, strict=True)) for pair in pairs]

    def _nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> tuple[Vectors, NDArray[np.int64]]:
        only = self._only
        if only is not None and where is None and not exact:
            assert only.cells is not None
            similar, rows = only.cells.search(queries, min(k, len(only)))
            if (rows[0, -1] if len(rows) == 1 else rows[:, -1:].min(initial=0)) >= 0:
                return similar, only.ids_at(rows)
        return nearest.nearest(self.snapshot, queries, k, where, exact)

    def nearest(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """As :meth:`find`, with what is known about the pictures."""
        similar, ids = self._nearest(queries, k, where, exact)
        only, flat = self._only, ids.ravel()
        if only is not None and only.gapless and len(only.table.batches) == 1:
            items = only.table.batches[0].items(flat - only.note.first)
        else:
            known = self.snapshot.records_at(*self.snapshot.locate(flat))
            items = (
                [record.path for record in known],
                [record.label for record in known],
                [record.metadata for record in known],
            )
        hits = list(map(Hit, flat.tolist(), *items, np.minimum(similar, 1).ravel().tolist()))
        k = ids.shape[1]
        return [hits[at * k : (at + 1) * k] for at in range(len(ids))]

    def root_number(self, root: Path) -> int:
        """The number of a folder among ``roots``, which is stored at once and never changes."""
        if root not in self.roots:
            with writing(self.folder):
                newest = Manifest.read(self.folder)
                if str(root) not in newest.roots:
                    roots = (*newest.roots, str(root))
                    following = newest.model_copy(
                        update={"roots": roots, "generation": newest.generation + 1}
                    )
                    following.write(self.folder)
                self._refresh()
        return self.roots.index(root)

    def _commit(self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int]) -> None:
        """Write a segment of the new pictures, then make it valid; other writers may do so too."""
        with writing(self.folder):
            newest = Snapshot.open(self.folder, self.snapshot)
            following = writer.append(newest, records, vectors, dropped)
            following.write(self.folder)
            writer.remove_unused(self.folder, following)
            self._show(Snapshot(self.folder, following, newest), manifest.mark(self.folder))

    def optimize(self, watcher: Watcher) -> None:
        """Merge segments by rule, unless another process does."""
        if not compaction.plan(self.snapshot):
            return
        with compacting(self.folder) as mine:
            if mine:
                compaction.compact(self.snapshot, watcher)
        self._refresh()

    def compact(self, watcher: Watcher) -> None:
        """Merge all segments into one, without removed pictures."""
        with compacting(self.folder) as mine:
            if not mine:
                raise LookalikeError(f"another process is compacting '{self.folder}'")
            compaction.compact(self.snapshot, watcher, everything=True)
        self._refresh()

    def _refresh(self) -> None:
        mark = manifest.mark(self.folder)
        self._show(Snapshot.open(self.folder, self.snapshot), mark)


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that has an index."""
    if (folder / manifest.NAME).exists():
        raise BadInput(
            f"there is an index in '{folder}' already; 'lookalike index add' adds to it, and "
            "another model needs another place"
        )


def only_leftovers(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create_empty`` left."""
    return all(
        path.name in ("model", SEGMENTS) or path.name.startswith(".") for path in folder.iterdir()
    )
