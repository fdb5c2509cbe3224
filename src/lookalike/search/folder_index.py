"""An index in a folder: states written beside each other, and one file that names the last.

``index.json`` says which state counts and is replaced in one step, so whatever kills a writer, a
reader finds the state before or the state after.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import write_json
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search.approximate import (
    Approximation,
    FastSearch,
    Kind,
    build,
    kind_for,
    out_of_date,
    tuned,
)
from lookalike.search.exact import Rows, exact_search
from lookalike.search.generation import Generation, flush, write_generation
from lookalike.search.index import Found, Index
from lookalike.search.items import Column, Record
from lookalike.search.manifest import (
    FAST,
    Manifest,
    damaged,
    locked,
    only_remains,
    read_manifest,
    remove_unused,
    write_manifest,
)

__all__ = ["FolderIndex"]

LEAST_RECALL = 0.95


class FolderIndex(Index):
    """See :class:`~lookalike.search.index.Index`."""

    def __init__(self, folder: Path, embedder: Embedder, manifest: Manifest) -> None:
        self.place = str(folder)
        self.folder = folder
        self.embedder = embedder
        self.manifest = manifest
        self.roots = tuple(map(Path, manifest.roots))
        self._open()

    @classmethod
    def create_empty(cls, place: str, embedder: Embedder) -> Self:
        """A new index without pictures."""
        folder = Path(place)
        if (folder / "index.json").exists():
            raise BadInput(
                f"there is an index in '{folder}' already; 'lookalike index add' adds to it"
            )
        if folder.exists() and not (folder.is_dir() and only_remains(folder)):
            raise BadInput(f"'{folder}' is there already and is not an index")
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            embedder.save(folder / "model")
            write_first(folder, Manifest(model=embedder.fingerprint, dim=embedder.dim))
        return cls.open_at(place)

    @classmethod
    def open_at(cls, place: str) -> Self:
        """An index that is there."""
        folder = Path(place)
        manifest = read_manifest(folder)
        embedder = Embedder.load(folder / "model")
        if embedder.fingerprint != manifest.model or embedder.dim != manifest.dim:
            raise BadInput(f"the index '{folder}' is damaged: its model is not the one it names")
        for _ in range(10):
            try:
                return cls(folder, embedder, manifest)
            except FileNotFoundError as error:  # a writer may have removed the state meanwhile
                newer = read_manifest(folder)
                if newer == manifest:
                    raise damaged(folder, f"'{error.filename}' is missing") from error
                manifest = newer
        raise LookalikeError(f"the index '{folder}' changes faster than it can be opened")

    @property
    def ids(self) -> NDArray[np.int64]:
        """Numbers that ascend and are never used again."""
        return self.generation.ids

    @property
    def vectors(self) -> Vectors:
        """Unit vectors, mapped into memory."""
        return self.generation.vectors

    @property
    def records(self) -> Sequence[Record]:
        """What is known of each picture, read when asked for."""
        return self.generation.records

    @property
    def label_names(self) -> list[str]:
        """Every label, sorted."""
        return self.generation.label_names

    @property
    def paths(self) -> Sequence[str]:
        """Where each picture lies."""
        return Column(self.records, "path")

    @property
    def labels(self) -> Sequence[str | None]:
        """The label of each picture."""
        return self.generation.labels

    @property
    def metadata(self) -> Sequence[dict[str, str]]:
        """The other columns of each picture."""
        return Column(self.records, "metadata")

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is known of some pictures."""
        return [self.records[self._row_of(id)] for id in ids]

    def vector_of(self, id: int) -> Vectors:
        """The unit vector of a picture."""
        return np.array(self.vectors[self._row_of(id)])

    def _row_of(self, id: int) -> int:
        row = int(np.searchsorted(self.ids, id))
        if row == len(self.ids) or self.ids[row] != id:
            raise BadInput(f"there is no picture {id} in the index '{self.place}'")
        return row

    def find(self, queries: Vectors, k: int, label: str | None, exact: bool) -> Found:
        """Ids and similarities of the nearest pictures."""
        k = min(k, len(self))
        if label is not None:
            rows = np.flatnonzero(self.generation.codes == self.label_names.index(label))
            places, similarities = exact_search(queries, self.vectors[rows], k)
            return self._paired(rows[places], similarities)
        if exact or self.fast is None or self.manifest.fast is None:
            return self._paired(*exact_search(queries, self.vectors, k))
        return self._paired(
            *self.fast.nearest(self.manifest.fast, queries, k, self.ids, self.vectors)
        )

    def _paired(self, rows: Rows, similarities: Vectors) -> Found:
        return [
            list(zip(ids, values, strict=True))
            for ids, values in zip(self.ids[rows].tolist(), similarities.tolist(), strict=True)
        ]

    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Write the following state, then switch to it."""
        with locked(self.folder):
            self._refuse_changed()
            remove_unused(self.folder, self.manifest)
            kept = np.flatnonzero(~np.isin(self.ids, np.fromiter(dropped, np.int64)))
            following = self.manifest.model_copy(update={"state": self.manifest.state + 1})
            target = self.folder / following.folder
            count = write_generation(
                target, self.generation, kept, records, vectors, self.manifest.next_id
            )
            self._switch(
                following.model_copy(
                    update={
                        "count": count,
                        "next_id": self.manifest.next_id + len(records),
                        "roots": tuple(map(str, self.roots)),
                        "sizes": sizes_of(target),
                    }
                )
            )

    def settle(self, watcher: Watcher) -> None:
        """Build the fast search where there are many pictures and it is missing or out of date."""
        kind = kind_for(len(self))
        if kind is None and self.manifest.fast is None:
            return
        noted = self.manifest.fast
        if kind is not None and noted is not None and not out_of_date(noted, self.ids):
            return
        with locked(self.folder):
            self._refuse_changed()
            noted = None if kind is None else self._build_fast(kind, watcher)
            self._switch(self.manifest.model_copy(update={"fast": noted}))

    def _build_fast(self, kind: Kind, watcher: Watcher) -> Approximation | None:
        path = self.folder / f"{FAST}{self.manifest.state:06d}.faiss"
        path.unlink(missing_ok=True)
        watcher.note(f"building the fast search of {len(self):,} pictures ({kind})")
        build(
            path,
            kind,
            self.vectors,
            self.ids,
            lambda done, total: watcher.stage("building", done, total),
        )
        flush(path)
        effort, recall, sample = tuned(FastSearch(path, kind), self.vectors, self.ids)
        noted = Approximation(
            file=path.name,
            size=path.stat().st_size,
            kind=kind,
            effort=effort,
            below=self.manifest.next_id,
            count=len(self),
            recall=recall,
            sample=sample,
        )
        if recall < LEAST_RECALL:
            path.unlink()
            watcher.note(f"search stays exact; the fast way would not do: {noted}")
            return None
        watcher.note(f"search: {noted}")
        return noted

    def _refuse_changed(self) -> None:
        if read_manifest(self.folder) != self.manifest:
            raise LookalikeError(f"another process has changed the index '{self.folder}'")

    def _switch(self, manifest: Manifest) -> None:
        write_manifest(self.folder, manifest)
        self.manifest = manifest
        self._open()
        remove_unused(self.folder, manifest)

    def _open(self) -> None:
        self.generation = opened_state(self.folder, self.manifest)
        noted = self.manifest.fast
        self.fast = None if noted is None else opened_fast(self.folder, noted)
        self.approximation = None if noted is None else str(noted)


def opened_state(folder: Path, manifest: Manifest) -> Generation:
    """The files of the state that counts; they must have the sizes they were written with."""
    state = folder / manifest.folder
    for name, size in manifest.sizes.items():
        if (state / name).stat().st_size != size:
            raise damaged(folder, f"{name} does not have {size} bytes")
    try:
        return Generation(state, manifest.count, manifest.dim)
    except ValueError as error:
        raise damaged(folder, str(error)) from error


def opened_fast(folder: Path, noted: Approximation) -> FastSearch:
    """The fast search that the manifest names."""
    path = folder / noted.file
    if path.stat().st_size != noted.size:
        raise damaged(folder, f"{noted.file} does not have {noted.size} bytes")
    try:
        return FastSearch(path, noted.kind)
    except ValueError as error:
        raise damaged(folder, str(error)) from error


def write_first(folder: Path, manifest: Manifest) -> None:
    """The state without pictures."""
    remove_unused(folder, None)
    target = folder / manifest.folder
    target.mkdir()
    for name, shape, dtype in (
        ("vectors", (0, manifest.dim), np.float32),
        ("ids", (0,), np.int64),
        ("labels", (0,), np.int32),
        ("starts", (1,), np.int64),
    ):
        np.save(target / f"{name}.npy", np.zeros(shape, dtype))
    (target / "items.jsonl").touch()
    write_json(target / "label_names.json", [])
    write_manifest(folder, manifest.model_copy(update={"sizes": sizes_of(target)}))


def sizes_of(state: Path) -> dict[str, int]:
    """Every file of a state with its length."""
    return {path.name: path.stat().st_size for path in sorted(state.iterdir())}
