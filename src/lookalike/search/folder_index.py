"""An index in a folder: states written beside each other, and one file that names the last.

``index.json`` says which state counts and is replaced in one step, so whatever kills a writer, a
reader finds the state before or the state after.
"""

import fcntl
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import write_json
from lookalike.search.embedder import Embedder
from lookalike.search.encoder import Vectors
from lookalike.search.exact import exact_search
from lookalike.search.generation import Generation, flush, write_generation
from lookalike.search.index import Index
from lookalike.search.items import Column, Record
from lookalike.training.watcher import Watcher

__all__ = ["FolderIndex"]

FORMAT = "lookalike-index"
VERSION = 1
PREFIX = "state-"


class Manifest(BaseModel):
    """What ``index.json`` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str
    version: int
    model: str
    dim: int
    state: int = 0
    count: int = 0
    next_id: int = 0
    roots: tuple[str, ...] = ()
    sizes: dict[str, int] = {}

    @property
    def folder(self) -> str:
        """The folder of the state."""
        return f"{PREFIX}{self.state:06d}"


class FolderIndex(Index):
    """See :class:`~lookalike.search.index.Index`."""

    def __init__(self, folder: Path, embedder: Embedder, manifest: Manifest) -> None:
        self.place = str(folder)
        self.folder = folder
        self.embedder = embedder
        self.manifest = manifest
        self.roots = tuple(map(Path, manifest.roots))
        self.approximation = None
        self.generation = opened_state(folder, manifest)

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
            manifest = Manifest(
                format=FORMAT, version=VERSION, model=embedder.fingerprint, dim=embedder.dim
            )
            write_first(folder, manifest)
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

    def row_of(self, id: int) -> int:
        """The row of a picture, by bisection."""
        row = int(np.searchsorted(self.ids, id))
        if row == len(self.ids) or self.ids[row] != id:
            raise BadInput(f"there is no picture {id} in the index '{self.place}'")
        return row

    def find(
        self,
        queries: Vectors,
        k: int,
        label: str | None,
        exact: bool,  # noqa: ARG002
    ) -> list[list[tuple[int, float]]]:
        """Rows and similarities of the nearest pictures."""
        rows = None
        vectors = self.vectors
        if label is not None:
            rows = np.flatnonzero(self.generation.codes == self.label_names.index(label))
            vectors = vectors[rows]
        similarities, places = exact_search(queries, vectors, min(k, len(vectors)))
        places = places if rows is None else rows[places]
        return [
            list(zip(one.tolist(), similar.tolist(), strict=True))
            for one, similar in zip(places, similarities, strict=True)
        ]

    def root_number(self, root: Path) -> int:
        """The number of a folder, new or known."""
        if root not in self.roots:
            self.roots = (*self.roots, root)
        return self.roots.index(root)

    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Write the following state, then switch to it."""
        with locked(self.folder):
            if read_manifest(self.folder) != self.manifest:
                raise LookalikeError(f"another process has changed the index '{self.folder}'")
            remove_states(self.folder, self.manifest.folder)
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
        """Nothing to do: search is exact."""

    def _switch(self, manifest: Manifest) -> None:
        write_json(self.folder / "index.json", manifest.model_dump(mode="json"))
        flush(self.folder)
        self.manifest = manifest
        self.generation = opened_state(self.folder, manifest)
        remove_states(self.folder, manifest.folder)


def read_manifest(folder: Path) -> Manifest:
    """What ``index.json`` says; what is not an index, or of another version, is refused."""
    try:
        values = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"'{folder}' is not an index: it has no index.json") from error
    except ValueError as error:
        raise damaged(folder, "index.json is not JSON") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise BadInput(f"'{folder}' is not an index of lookalike")
    if values.get("version") != VERSION:
        raise BadInput(
            f"the index '{folder}' has version {values.get('version')}, and this lookalike reads "
            f"version {VERSION}; make it again"
        )
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        raise damaged(folder, "index.json") from error


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


def damaged(folder: Path, what: str) -> BadInput:
    """The sentence for an index that cannot be trusted."""
    return BadInput(f"the index '{folder}' is damaged: {what}; make it again")


def write_first(folder: Path, manifest: Manifest) -> None:
    """The state without pictures."""
    remove_states(folder, "")
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
    whole = manifest.model_copy(update={"sizes": sizes_of(target)})
    write_json(folder / "index.json", whole.model_dump(mode="json"))
    flush(folder)


def sizes_of(state: Path) -> dict[str, int]:
    """Every file of a state with its length."""
    return {path.name: path.stat().st_size for path in sorted(state.iterdir())}


def remove_states(folder: Path, keep: str) -> None:
    """Remove states that do not count: former ones, and those of killed writers."""
    for path in folder.glob(f"{PREFIX}*"):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)
    for draft in folder.glob(".index.json.*"):
        draft.unlink(missing_ok=True)


def only_remains(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create_empty`` left."""
    return all(
        path.name == "model" or path.name.startswith((PREFIX, ".")) for path in folder.iterdir()
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process write; a second one is told so."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LookalikeError(f"another process is writing to '{folder}'") from None
        yield
