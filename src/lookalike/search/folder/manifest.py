"""``index.json``: which files are valid.

It is replaced in one step: whatever kills a writer, a reader finds the state before or the state
after. It names every file with its size and checksum, and has a checksum of itself.
"""

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lookalike.errors import BadInput
from lookalike.files import file_checksum, parse_json, read_text, unseal, write_json
from lookalike.search.contents import State
from lookalike.search.items import Precision
from lookalike.search.vectors import NEIGHBOURS

FORMAT = "lookalike-index"
VERSION = 3
NAME = "index.json"
SEGMENTS = "segments"
LEAST_RECALL = 0.95

PlainName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""The name of a file or folder that leads nowhere else."""
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**48)]


class Damaged(BadInput):
    """The files of an index are not as they were written."""


def damaged(folder: Path, reason: str) -> Damaged:
    """The error for an index that cannot be trusted."""
    return Damaged(f"the index '{folder}' is damaged: {reason}; make it again")


class _Note(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileNote(_Note):
    """The size of a file, and the checksum of its content."""

    size: Annotated[int, Field(ge=0)]
    crc: str

    @classmethod
    def of(cls, path: Path) -> "FileNote":
        """The note of a file as it is."""
        return cls(size=path.stat().st_size, crc=file_checksum(path))


class CellsNote(_Note):
    """The fast search of a segment, written by commit number ``commit``.

    ``nprobe`` is the number of cells that a query visits; ``recall`` the share of the true ten
    nearest that it then finds, on ``sample`` pictures of the segment. Where that is too little, the
    segment has no files of it, and is searched exactly. The centroids were trained when the segment
    had ``trained_on`` pictures.
    """

    commit: Count
    cells: Annotated[Count, Field(ge=1)]
    trained_on: Count
    nprobe: Annotated[Count, Field(ge=1)]
    recall: float
    sample: Count

    @property
    def usable(self) -> bool:
        """Whether it finds enough."""
        return self.recall >= LEAST_RECALL


class SegmentNote(_Note):
    """A segment: ``count`` pictures, of which ``removed`` are gone by its tombstones.

    ``tombstones`` is the commit that wrote these; 0: there are none.
    """

    name: PlainName
    count: Count
    removed: Count = 0
    tombstones: Count = 0
    cells: CellsNote | None = None
    files: dict[PlainName, FileNote]


class Manifest(_Note):
    """The content of ``index.json``."""

    format: str = FORMAT
    version: int = VERSION
    model: str
    dim: Annotated[Count, Field(ge=1)]
    vectors: Precision = "float32"
    generation: Count = 0
    updated: float = 0.0
    next_id: Count = 0
    roots: tuple[str, ...] = ()
    segments: tuple[SegmentNote, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read ``index.json``; refuse what is not an index, damaged, or of another version."""
        try:
            values = parse_json(read_text(folder / NAME))
        except OSError as error:
            reason = f"there is no index '{folder}'"
            if folder.exists():
                reason = f"'{folder}' is not an index: it has no index.json"
            hint = "'lookalike index RUN photos/ -o shop.index' makes one"
            raise BadInput(f"{reason}; {hint}") from error
        except ValueError as error:
            raise damaged(folder, "index.json is not JSON") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise BadInput(f"'{folder}' is not an index of lookalike: index.json says so")
        if values.get("version") != VERSION:
            raise BadInput(
                f"the index '{folder}' has version {values.get('version')} by its index.json, and "
                f"this lookalike reads version {VERSION}; make it again"
            )
        try:
            return cls.model_validate(unseal(values))
        except ValidationError as error:
            raise damaged(folder, "index.json") from error
        except ValueError as error:
            raise damaged(folder, "the content of index.json has changed") from error

    def write(self, folder: Path) -> None:
        """Put this manifest in the place of the former one."""
        write_json(folder / NAME, self.model_dump(mode="json"), sealed=True)
        fsync(folder)

    @property
    def state(self) -> State:
        """The facts of this state."""
        fast = [one for one in self.segments if one.cells is not None and one.cells.usable]
        note = max(fast, key=lambda one: one.count).cells if fast else None
        approximation = None
        if note is not None:
            how = "IVF" if self.vectors == "float32" else "IVF with float16 vectors"
            found = f"recall@{NEIGHBOURS} {note.recall:.3f} against exact search"
            approximation = f"{how}, nprobe {note.nprobe}; {found}, on {note.sample} pictures"
        return State(
            fingerprint=self.model,
            dim=self.dim,
            dtype=self.vectors,
            generation=self.generation,
            updated=self.updated,
            count=sum(one.count - one.removed for one in self.segments),
            roots=tuple(map(Path, self.roots)),
            approximation=approximation,
        )

    @property
    def files(self) -> dict[str, FileNote]:
        """Every file that is named, relative to the folder."""
        return {
            f"{SEGMENTS}/{segment.name}/{name}": note
            for segment in self.segments
            for name, note in segment.files.items()
        }


def changed_files(
    folder: Path, manifest: Manifest, known: Collection[str] = (), budget: float = float("inf")
) -> Iterator[str]:
    """A sentence for each file, but the known ones, with another size or content than was noted.

    Contents are compared as far as ``budget`` bytes go, the smallest files first.

    Raises:
        FileNotFoundError: One is missing.
    """
    fresh = [(note.size, name, note) for name, note in manifest.files.items() if name not in known]
    for size, name, note in sorted(fresh, key=lambda one: one[:2]):
        status = (folder / name).stat()
        budget -= size
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            yield f"{name} does not have {size} bytes"
        elif budget >= 0 and FileNote.of(folder / name) != note:
            yield f"the content of {name} has changed"


def mark_of(folder: Path) -> tuple[int, int, int]:
    """What changes whenever ``index.json`` is replaced."""
    try:
        status = os.stat(folder / NAME)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_mtime_ns, status.st_size


def fsync(path: Path) -> None:
    """Wait until a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def noted(home: Path, *names: str) -> dict[str, FileNote]:
    """Wait until files of a segment have reached the disk; return their notes."""
    for path in (*(home / name for name in names), home, home.parent):
        fsync(path)
    return {name: FileNote.of(home / name) for name in names}
