"""``embedding.json``: what the vectors of a folder are, and which rows are in which shard."""

import json
import math
from pathlib import Path
from typing import Literal, Self

import pyarrow
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lookalike.data.image_set import digest
from lookalike.errors import BadInput
from lookalike.files import parse_json, read_text, refuse_links, seal, unseal, write_json, write_new
from lookalike.inference.bulk.columns import metadata_name
from lookalike.inference.bulk.device import Precision
from lookalike.inference.bulk.source import Source

__all__ = ["MANIFEST", "Dtype", "Manifest", "ShardFile", "stamp_of"]

Dtype = Literal["float32", "float16"]

MANIFEST = "embedding.json"
FORMAT = "lookalike-vectors"
VERSION = 2
_BLOCK = 65_536


class ShardFile(BaseModel):
    """A finished shard.

    Attributes:
        name: Its file.
        rows: How many vectors it has.
        skipped: How many pictures could not be read.
        size: Its bytes.
        checksum: Of the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^shard-\d+\.parquet$")  # and no path to another folder
    rows: int
    skipped: int
    size: int
    checksum: str


class Manifest(BaseModel):
    """The content of ``embedding.json``.

    Attributes:
        model: The fingerprint of the network, its weights and its transform.
        network: Its name.
        dim: The size of a vector.
        dtype: The type of its numbers.
        precision: In which it was computed, as ``train.precision``.
        batch: How many pictures the network saw at a time.
        source: Where the pictures are.
        kind: What the source is.
        root: What paths are relative to.
        pictures: How many the source has.
        stamp: A hash of their names, labels, metadata, sizes and times.
        columns: The names of the metadata.
        per_shard: How many rows of the source are in each shard but the last.
        complete: Whether all shards are there; the following is known then.
        rows: How many vectors there are.
        files: The shards.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    model: str
    network: str
    dim: int
    dtype: Dtype
    precision: Precision
    batch: int
    source: str
    kind: str
    root: str
    pictures: int
    stamp: str
    columns: tuple[str, ...]
    per_shard: int
    complete: bool = False
    rows: int | None = None
    files: tuple[ShardFile, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder.

        Raises:
            BadInput: There is none, or it is damaged or of another version.
        """
        path = folder / MANIFEST
        try:
            values = unseal(parse_json(read_text(path)))
        except OSError as error:
            raise BadInput(f"'{folder}' has no vectors: cannot read {MANIFEST}") from error
        except ValueError as error:
            raise BadInput(f"'{path}' is damaged: it is not what was written") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise BadInput(f"'{path}' is not of 'lookalike embed'")
        if values.get("version") != VERSION:
            raise BadInput(
                f"the vectors in '{folder}' have version {values.get('version')}, and this "
                f"lookalike reads version {VERSION}"
            )
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise BadInput(f"'{path}' is damaged") from error

    def agree(self, folder: Path) -> "Manifest":
        """Begin a folder, or find it begun by the same work; what other work began is refused."""
        path = folder / MANIFEST
        refuse_links(folder)
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            foreign = any(not entry.name.startswith(".") for entry in folder.iterdir())
            if foreign and not path.exists():  # another machine may have begun it meanwhile
                raise BadInput(f"'{folder}' exists already and has no {MANIFEST}; give another -o")
            write_new(path, json.dumps(seal(self.model_dump(mode="json")), indent=2) + "\n")
        there = Manifest.read(folder)
        for name, what in _IDENTITY.items():
            before, now = getattr(there, name), getattr(self, name)
            if before != now:
                shown = f" ({before}, not {now})" if name in _SHOWN else ""
                raise BadInput(
                    f"the vectors in '{folder}' were begun with {what}{shown}; give another -o"
                )
        return there

    @property
    def id(self) -> str:
        """What is equal for all shards that belong together."""
        return digest(*(f"{name} {getattr(self, name)}" for name in _IDENTITY))

    @property
    def shards(self) -> int:
        """The number of shards."""
        return math.ceil(self.pictures / self.per_shard)

    def rows_of(self, number: int) -> range:
        """The rows of the source that belong to a shard."""
        start = number * self.per_shard
        return range(start, min(start + self.per_shard, self.pictures))

    def path_of(self, folder: Path, number: int) -> Path:
        """The file of a shard."""
        return folder / f"shard-{number:05d}.parquet"

    def completed(self, folder: Path, files: list[ShardFile]) -> "Manifest":
        """Write that all shards are there."""
        rows = sum(file.rows for file in files)
        changes = {"complete": True, "rows": rows, "files": tuple(files)}
        done = self.model_copy(update=changes)
        if done != self:
            write_json(folder / MANIFEST, done.model_dump(mode="json"), sealed=True)
        return done


_IDENTITY = {
    "model": "another model",
    "dim": "another model",
    "dtype": "another --dtype",
    "precision": "another --precision",
    "batch": "another --batch",
    "kind": "another kind of source",
    "pictures": "another number of pictures",
    "stamp": "other pictures: names, labels, sizes or times have changed",
    "per_shard": "another --per-shard",
}
"""What may not change while shards are made, and how a refusal calls it."""
_SHOWN = ("dtype", "precision", "batch", "kind", "pictures", "per_shard")


def stamp_of(source: Source) -> str:
    """A hash of what is known of the pictures of a source."""
    table: pyarrow.Table = source.table
    parts = (batch.serialize() for batch in table.to_batches(_BLOCK))
    return digest(" ".join(table.column_names), *(part.to_pybytes() for part in parts))


def columns_of(source: Source) -> tuple[str, ...]:
    """The names of the metadata of a source."""
    return tuple(metadata_name(column) for column in source.columns)
