"""Shards of vectors: Parquet files, each whole or not there, that know what they belong to."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from lookalike.data.image_set import digest
from lookalike.errors import BadInput
from lookalike.files import atomically, file_checksum, parse_json
from lookalike.inference.bulk.columns import FIXED, VECTOR
from lookalike.inference.bulk.listing import Skipped
from lookalike.inference.bulk.manifest import Dtype, Manifest, ShardFile
from lookalike.inference.encoder import Vectors

__all__ = [
    "finished",
    "is_shard",
    "read_shard",
    "skipped_of",
    "vector_column",
    "vectors_in",
    "write_shard",
]

_KEY = b"lookalike"


def write_shard(
    path: Path,
    manifest: Manifest,
    number: int,
    table: pyarrow.Table,
    vectors: Vectors,
    skipped: Sequence[Skipped],
) -> None:
    """Write a shard, with its checksum.

    Args:
        path: The file.
        manifest: What it belongs to.
        number: Its number.
        table: What is known of its pictures.
        vectors: Their vectors.
        skipped: The pictures of the shard that could not be read.
    """
    column = vector_column(vectors, manifest.dtype)
    kept = pyarrow.table(
        {
            name: table[name].cast(pyarrow.string())
            if pyarrow.types.is_large_string(table.schema.field(name).type)
            else table[name]
            for name in table.column_names
        }
        | {VECTOR: column}
    )
    description = {
        "id": manifest.id,
        "number": number,
        "checksum": checksum(column),
        "skipped": [vars(one) for one in skipped],
    }
    marked = kept.replace_schema_metadata({_KEY: json.dumps(description).encode()})
    with atomically(path) as draft:
        pyarrow.parquet.write_table(
            marked, draft, write_page_checksum=True, use_dictionary=["label"]
        )


def vector_column(vectors: Vectors, dtype: Dtype) -> pyarrow.FixedSizeListArray:
    """Vectors [n, dim] as a column."""
    flat = pyarrow.array(np.ascontiguousarray(vectors, np.dtype(dtype)).reshape(-1))
    return pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def vectors_in(column: Any) -> NDArray[Any]:
    """A column of vectors as an array [n, dim], of the type that it has."""
    whole = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if isinstance(whole, pyarrow.ChunkedArray):  # of an empty one there is no chunk
        whole = pyarrow.concat_arrays(whole.chunks)
    dim = whole.type.list_size
    found: NDArray[Any] = whole.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    return found


def checksum(column: Any) -> str:
    """The checksum of a column of vectors."""
    return digest(vectors_in(column))


def read_description(path: Path) -> dict[str, Any]:
    """What a shard says of itself; empty where it is no shard."""
    try:
        file = pyarrow.parquet.ParquetFile(path)
        description = dict(parse_json((file.schema_arrow.metadata or {})[_KEY]))
        return description | {"rows": file.metadata.num_rows}
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        return {}


def is_shard(schema: pyarrow.Schema) -> bool:
    """Whether a Parquet file is a shard, by its schema."""
    return _KEY in (schema.metadata or {})


def finished(
    folder: Path, manifest: Manifest, number: int, *, thorough: bool = True
) -> ShardFile | None:
    """A shard, if it is there and whole.

    Args:
        folder: Where it is.
        manifest: What it belongs to.
        number: Its number.
        thorough: Whether all of it is read and compared with its checksum.

    Returns:
        None where the shard must be made.
    """
    path = manifest.path_of(folder, number)
    description = read_description(path)
    row_count = len(manifest.rows_of(number))
    if (description.get("id"), description.get("number")) != (manifest.id, number):
        return None
    if description["rows"] + len(description["skipped"]) != row_count:
        return None
    if thorough and not _as_written(path, manifest, description["checksum"]):
        return None
    return ShardFile(
        name=path.name,
        rows=description["rows"],
        skipped=len(description["skipped"]),
        size=path.stat().st_size,
        checksum=file_checksum(path),
    )


def _as_written(path: Path, manifest: Manifest, vectors: str) -> bool:
    """Whether a shard has its checksum: of the file, or of its vectors before all are finished."""
    for file in manifest.files:
        if file.name == path.name:
            return file_checksum(path) == file.checksum
    try:
        table = pyarrow.parquet.read_table(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError, UnicodeError):
        return False
    return checksum(table[VECTOR]) == vectors


def skipped_of(path: Path) -> list[Skipped]:
    """The pictures of a shard that could not be read."""
    return [Skipped(**one) for one in read_description(path).get("skipped", [])]


def read_shard(folder: Path, file: ShardFile, dim: int | None = None) -> Any:
    """The table of a finished shard, whose file must have the checksum.

    Args:
        folder: Where it is.
        file: The shard.
        dim: The size of its vectors; None: any.

    Raises:
        BadInput: The shard is missing or damaged.
    """
    path = folder / file.name
    again = "the command that made it makes it again"
    try:
        if file_checksum(path) != file.checksum:
            raise BadInput(f"the shard '{path}' is damaged; {again}")
        table = pyarrow.parquet.read_table(path, partitioning=None)
        table.validate(full=True)  # texts that are no UTF-8
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise BadInput(f"cannot read the shard '{path}': {reason}; {again}") from error
    if table.num_rows != file.rows or not _fits(table, dim):
        raise BadInput(f"the shard '{path}' has other rows or columns than it should; {again}")
    return table


def _fits(table: pyarrow.Table, dim: int | None) -> bool:
    """Whether a table has the columns of a shard, each once and of its type."""
    kinds = pyarrow.types
    names = table.column_names
    if len({*names}) < len(names) or not {*FIXED, VECTOR} <= {*names}:
        return False
    fields = {field.name: field.type for field in table.schema}
    vector = fields.pop(VECTOR)
    if not kinds.is_fixed_size_list(vector) or dim not in (None, vector.list_size):
        return False
    texts = [kind for name, kind in fields.items() if name not in ("size", "modified")]
    return (
        kinds.is_floating(vector.value_type)
        and table[VECTOR].null_count + table["path"].null_count == 0
        and all(kinds.is_string(kind) or kinds.is_large_string(kind) for kind in texts)
        and all(kinds.is_integer(fields[name]) for name in ("size", "modified"))
    )
