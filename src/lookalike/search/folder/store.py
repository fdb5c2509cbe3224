"""The folder of an index: one process writes at a time, others read what is valid."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.contents import Address, Store
from lookalike.search.folder import compaction, manifest, writer
from lookalike.search.folder.disk import Damaged, compacting, fsync, writing
from lookalike.search.folder.manifest import SEGMENTS, Manifest, mark_of
from lookalike.search.folder.snapshot import Snapshot
from lookalike.search.items import Precision, Record


class FolderStore(Store[Snapshot]):
    """An index in a folder: segments that are only added to, and a file that names the valid ones.

    Args:
        place: The folder.
    """

    def __init__(self, place: Address) -> None:
        self.folder = Path(str(place))
        self.place = self.address = str(self.folder)

    @classmethod
    def create(
        cls, place: Address, embedder: Embedder | None, dim: int, vectors: Precision
    ) -> "FolderStore":
        """A new index without pictures."""
        folder = Path(str(place))
        refuse_existing(folder)
        if folder.exists() and not (folder.is_dir() and only_leftovers(folder)):
            raise BadInput(f"'{folder}' exists already and is not an index")
        folder.mkdir(parents=True, exist_ok=True)
        with writing(folder):
            refuse_existing(folder)  # another process was faster
            if embedder is not None:
                embedder.save(folder / "model")
            (folder / SEGMENTS).mkdir(exist_ok=True)
            fsync(folder)
            mark = embedder.fingerprint if embedder is not None else ""
            new = Manifest(model=mark, dim=dim, vectors=vectors, updated=time.time())
            new.write(folder)
        return cls(place)

    def load_model(self) -> Embedder:
        """The model of the index."""
        return Embedder.load(self.folder / "model")

    def newest(self, former: Snapshot | None = None) -> Snapshot:
        """The newest state; ``former`` itself where nothing has changed."""
        if former is None:
            return Snapshot.open(self.folder)
        if mark_of(self.folder) == former.mark:
            return former
        try:
            return Snapshot.open(self.folder, former)
        except Damaged:  # or another index that was put in its place
            return Snapshot.open(self.folder)

    def commit(
        self, former: Snapshot, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int]
    ) -> Snapshot:
        """Write a segment of the new pictures, then make it valid; other writers may do so too."""
        with writing(self.folder):
            newest = Snapshot.open(self.folder, former)
            following = writer.append(newest, records, vectors, dropped)
            following.write(self.folder)
            writer.remove_unused(self.folder, following)
            found = Snapshot(self.folder, following, newest)
            found.mark = mark_of(self.folder)
        if len(found.segments) > compaction.CROWDED:
            return self.optimize(found, Watcher())
        return found

    def add_root(self, root: Path) -> None:
        """Give a folder the next number, unless it has one."""
        with writing(self.folder):
            newest = Manifest.read(self.folder)
            if str(root) not in newest.roots:
                roots = (*newest.roots, str(root))
                changes = {"roots": roots, "generation": newest.generation + 1}
                newest.model_copy(update=changes).write(self.folder)

    def optimize(self, contents: Snapshot, watcher: Watcher) -> Snapshot:
        """Merge segments by rule, unless another process does."""
        if not compaction.plan(contents):
            return contents
        with compacting(self.folder) as mine:
            if mine:
                compaction.compact(contents, watcher)
        return self.newest(contents)

    def compact(self, contents: Snapshot, watcher: Watcher) -> Snapshot:
        """Merge all segments into one, without removed pictures."""
        with compacting(self.folder) as mine:
            if not mine:
                raise LookalikeError(f"another process is compacting '{self.folder}'")
            compaction.compact(contents, watcher, everything=True)
        return self.newest(contents)


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that has an index."""
    if (folder / manifest.NAME).exists():
        raise BadInput(
            f"there is an index in '{folder}' already; 'lookalike index add' adds to it, and "
            "another model needs another place"
        )


def only_leftovers(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create`` left."""
    return all(
        path.name in ("model", SEGMENTS) or path.name.startswith(".") for path in folder.iterdir()
    )
