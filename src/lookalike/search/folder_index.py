"""An index in a folder: states written beside each other, and one file that names the valid one."""

import shutil
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch

from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.neighbours import exact_search
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.progress import Watcher
from lookalike.search import approximate, storage
from lookalike.search.index import Found, Index
from lookalike.search.items import Record
from lookalike.search.storage import Manifest, State, damaged, locked

LEAST_RECALL = 0.95


class FolderIndex(Index):
    """See :class:`~lookalike.search.index.Index`."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.place = str(folder)
        self.folder = folder
        self.manifest = manifest
        self.fingerprint, self.dim = manifest.model, manifest.dim
        self.roots = tuple(map(Path, manifest.roots))
        self._open()

    @classmethod
    def create_empty(cls, place: str, embedder: Embedder) -> Self:
        """A new index without pictures."""
        folder = Path(place)
        if (folder / "index.json").exists():
            raise BadInput(
                f"there is an index in '{folder}' already; 'lookalike index add' adds to "
                "it, and another model needs another place"
            )
        if folder.exists() and not (folder.is_dir() and only_leftovers(folder)):
            raise BadInput(f"'{folder}' exists already and is not an index")
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            embedder.save(folder / "model")
            manifest = Manifest(model=embedder.fingerprint, dim=embedder.dim)
            none = State.empty(embedder.dim)
            shutil.rmtree(folder / manifest.folder, ignore_errors=True)
            target = folder / manifest.folder
            sizes = storage.write_state(target, none, none.ids, [], none.vectors, 0)
            manifest.model_copy(update={"sizes": sizes}).write(folder)
        return cls.open_at(place)

    @classmethod
    def open_at(cls, place: str) -> Self:
        """An existing index."""
        folder = Path(place)
        manifest = Manifest.read(folder)
        for _ in range(10):
            try:
                return cls(folder, manifest)
            except FileNotFoundError as error:  # a writer may have removed the state meanwhile
                newer = Manifest.read(folder)
                if newer == manifest:
                    raise damaged(folder, f"'{error.filename}' is missing") from error
                manifest = newer
        raise LookalikeError(f"the index '{folder}' changes faster than it can be opened")

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        """The model, loaded when it is needed."""
        found = Embedder.load(self.folder / "model")
        if (found.fingerprint, found.dim) != (self.fingerprint, self.dim):
            raise BadInput(
                f"the index '{self.folder}' is damaged: its model is not the one it names"
            )
        return found

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
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
        """Ids and similarities of the nearest pictures; within a label always exact."""
        k = min(k, len(self))
        if label is None and not exact and self.fast is not None:
            rows, similarities = self.fast.nearest(queries, k, self.ids, self.vectors)
        else:
            all_rows, vectors = np.arange(len(self)), self.vectors
            if label is not None:
                all_rows = np.flatnonzero(self.label_codes == self.label_names.index(label))
                vectors = vectors[all_rows]
            best, places = exact_search(
                torch.from_numpy(queries), torch.from_numpy(vectors), min(k, len(vectors))
            )
            rows, similarities = all_rows[places.numpy()], best.numpy()
        return [
            list(zip(ids, values, strict=True))
            for ids, values in zip(self.ids[rows].tolist(), similarities.tolist(), strict=True)
        ]

    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Write the next state, then switch to it."""
        with locked(self.folder):
            self._refuse_changed()
            self.manifest.remove_unused(self.folder)
            kept = np.flatnonzero(~np.isin(self.ids, np.fromiter(dropped, np.int64)))
            first = self.manifest.next_id
            following = self.manifest.model_copy(
                update={
                    "state": self.manifest.state + 1,
                    "count": len(kept) + len(records),
                    "next_id": first + len(records),
                    "roots": tuple(map(str, self.roots)),
                }
            )
            target = self.folder / following.folder
            sizes = storage.write_state(target, self.state, kept, records, vectors, first)
            self._switch(following.model_copy(update={"sizes": sizes}))

    def optimize(self, watcher: Watcher) -> None:
        """Build the fast search where there are many pictures and it is missing or out of date."""
        kind, former = approximate.kind_for(len(self)), self.manifest.fast
        missing = (kind is None) != (former is None)
        if not missing and (former is None or not approximate.out_of_date(former, self.ids)):
            return
        with locked(self.folder):
            self._refuse_changed()
            built = None if kind is None else self._build_fast(kind, watcher)
            self._switch(self.manifest.model_copy(update={"fast": built}))

    def _build_fast(
        self, kind: approximate.Kind, watcher: Watcher
    ) -> approximate.Approximation | None:
        path = self.folder / f"{storage.FAST}{self.manifest.state:06d}.faiss"
        path.unlink(missing_ok=True)
        watcher.note(f"building the fast search of {len(self):,} pictures ({kind})")
        built = approximate.build(
            path, kind, self.vectors, self.ids, self.manifest.next_id, watcher
        )
        storage.fsync(path)
        if built.recall < LEAST_RECALL:
            path.unlink()
            watcher.note(f"search stays exact; the recall of the fast search is too low: {built}")
            return None
        watcher.note(f"search: {built}")
        return built

    def _refuse_changed(self) -> None:
        if Manifest.read(self.folder) != self.manifest:
            raise LookalikeError(f"another process has changed the index '{self.folder}'")

    def _switch(self, manifest: Manifest) -> None:
        manifest.write(self.folder)
        self.manifest = manifest
        self._open()

    def _open(self) -> None:
        self.state = state = State.open(self.folder, self.manifest)
        self.ids, self.vectors, self.records = state.ids, state.vectors, state.records
        self.label_names, self.label_codes = state.label_names, state.codes
        self.fast = self.approximation = None
        noted = self.manifest.fast
        if noted is not None:
            path = self.folder / noted.file
            storage.check_size(self.folder, path, noted.size)
            try:
                self.fast = approximate.FastSearch(path, noted)
            except ValueError as error:
                raise damaged(self.folder, str(error)) from error
            self.approximation = str(noted)


def only_leftovers(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create_empty`` left."""
    left = (storage.STATE, storage.FAST, ".")
    return all(path.name == "model" or path.name.startswith(left) for path in folder.iterdir())
