"""``index.json``: which files are valid.

It is replaced in one step: whatever kills a writer, a reader finds the state before or the state
after. It names every file with its size and checksum, and has a checksum of itself.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lookalike.errors import BadInput
from lookalike.files import parse_json, read_text, write_json
from lookalike.search.contents import State
from lookalike.search.folder.disk import FileNote, damaged, fsync
from lookalike.search.items import Precision
from lookalike.search.recall import NEIGHBOURS

FORMAT = "lookalike-index"
VERSION = 3
NAME = "index.json"
SEGMENTS = "segments"

PlainName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""The name of a file or folder that leads nowhere else."""
LogName: TypeAlias = Annotated[str, Field(pattern=r"^removed-[0-9]{6,}\.log$")]
"""The name of a file to which writers append; no other file is written to."""
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**48)]
HOW: dict[Precision, str] = {"float32": "IVF", "float16": "IVF with float16 vectors"}


class _Note(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuantiserNote(_Note):
    """The coarse quantiser: trained once on ``trained_on`` pictures, shared by the segments."""

    file: PlainName
    note: FileNote
    cells: Count
    trained_on: Count


class CellsNote(_Note):
    """The fast search of a segment.

    ``nprobe`` is the number of cells that a query visits; ``recall`` the share of the true ten
    nearest that it then finds, on ``sample`` pictures of the segment.
    """

    quantiser: PlainName
    nprobe: Annotated[Count, Field(ge=1)]
    recall: float
    sample: Count


class SegmentNote(_Note):
    """A segment: a folder of files that never change, with ids from ``first`` to ``last``.

    ``refused`` is the quantiser by which a fast search of it had too little recall.
    """

    name: PlainName
    count: Count
    first: Count
    last: Count
    columns: tuple[str, ...] = ()
    files: dict[PlainName, FileNote]
    fast: CellsNote | None = None
    refused: str | None = None


class LogNote(_Note):
    """The tombstones: the first ``entries`` ids of a file, and their CRC-32."""

    file: LogName
    entries: Count
    crc: int


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
    next_name: Count = 0
    roots: tuple[str, ...] = ()
    segments: tuple[SegmentNote, ...] = ()
    removed: LogNote | None = None
    quantisers: tuple[QuantiserNote, ...] = ()

    @model_validator(mode="after")
    def names_what_it_has(self) -> Self:
        """Fast searches are by quantisers that there are; no more is removed than was added."""
        known = {quantiser.file for quantiser in self.quantisers}
        if any(one.fast and one.fast.quantiser not in known for one in self.segments):
            raise ValueError("a segment names an unknown quantiser")
        if self.count < 0:
            raise ValueError("more pictures are removed than there are")
        return self

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read ``index.json``; refuse what is not an index, damaged, or of another version."""
        values = read_values(folder)
        if values.get("version") != VERSION:
            raise BadInput(
                f"the index '{folder}' has version {values.get('version')} by its index.json, and "
                f"this lookalike reads version {VERSION}; make it again"
            )
        if values.pop("checksum", None) != _checksum(values):
            raise damaged(folder, "the content of index.json has changed")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise damaged(folder, "index.json") from error

    def write(self, folder: Path) -> None:
        """Put this manifest in the place of the former one."""
        values = self.model_dump(mode="json")
        write_json(folder / NAME, {**values, "checksum": _checksum(values)})
        fsync(folder)

    @property
    def count(self) -> int:
        """How many pictures the index has."""
        stored = sum(segment.count for segment in self.segments)
        return stored - (self.removed.entries if self.removed else 0)

    @property
    def approximation(self) -> str | None:
        """How the largest segment with a fast search is searched, in words."""
        fast = [segment for segment in self.segments if segment.fast is not None]
        if not fast:
            return None
        note = max(fast, key=lambda segment: segment.count).fast
        assert note is not None
        found = f"recall@{NEIGHBOURS} {note.recall:.3f} against exact search"
        return f"{HOW[self.vectors]}, nprobe {note.nprobe}; {found}, on {note.sample} pictures"

    @property
    def state(self) -> State:
        """The facts of this state."""
        return State(
            fingerprint=self.model,
            dim=self.dim,
            dtype=self.vectors,
            generation=self.generation,
            updated=self.updated,
            count=self.count,
            roots=tuple(map(Path, self.roots)),
            approximation=self.approximation,
        )

    @property
    def files(self) -> dict[str, FileNote]:
        """Every file that the manifest names, but the tombstones, relative to the folder."""
        found = {quantiser.file: quantiser.note for quantiser in self.quantisers}
        for segment in self.segments:
            for name, note in segment.files.items():
                found[f"{SEGMENTS}/{segment.name}/{name}"] = note
        return found


def read_values(folder: Path) -> dict[str, Any]:
    """The values of ``index.json``, of any version."""
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
    return values


def mark_of(folder: Path) -> tuple[int, int, int]:
    """What changes whenever ``index.json`` is replaced."""
    try:
        status = os.stat(folder / NAME)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_mtime_ns, status.st_size


def _checksum(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
