"""Vectors in files: what ``lookalike embed`` wrote, or one's own as NumPy or Parquet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet
from numpy.typing import NDArray

from lookalike.data.listing import explain_unreadable, read_table
from lookalike.errors import BadInput, did_you_mean
from lookalike.files import refuse_packed
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.inference.source import VECTOR, column_of
from lookalike.progress import Watcher
from lookalike.search.index import Index
from lookalike.search.items import Record, records_of
from lookalike.search.vectors import NoDirectionError, unit_rows

__all__ = ["VectorFile", "open_vectors"]

Parts: TypeAlias = Iterator[tuple[NDArray[Any], list[Record]]]
"""Consecutive rows: their vectors, and what is known of them."""

NAMES = ("vector", "embedding", "vectors", "embeddings")
KEYS = ("path", "id")
BLOCK = 65_536


@dataclass(frozen=True)
class VectorFile:
    """Vectors, and what is known of each.

    Attributes:
        place: Where they are.
        roots: What paths are relative to, by the ``root`` of a record.
        rows: How many there are.
        dim: The size of a vector.
        parts: Reads them.
        embedder: The model that made them, if it is known.
    """

    place: Path
    roots: tuple[Path, ...]
    rows: int
    dim: int
    parts: Callable[[], Parts]
    embedder: Embedder | None = None

    def blocks(self, size: int) -> Iterator[tuple[Vectors, list[Record]]]:
        """About ``size`` rows at a time: unit vectors, and what is known of them.

        Raises:
            BadInput: A vector is not finite or zero, or a file is damaged.
        """
        first = 0
        vectors: list[Vectors] = []
        records: list[Record] = []
        for given, known in self.parts():
            for start in range(0, len(given), size):
                vectors.append(self._unit(given[start : start + size], first + len(records)))
                records += known[start : start + size]
                if len(records) >= size:
                    yield np.concatenate(vectors), records
                    first, vectors, records = first + len(records), [], []
        if records:
            yield np.concatenate(vectors), records

    def check(self, watcher: Watcher) -> None:
        """Read everything once, so that nothing is imported from files that are damaged.

        Raises:
            BadInput: A vector is not finite or zero, or there are more or fewer than there should
                be.
        """
        row = 0
        for given, _ in self.parts():
            self._unit(given, row)
            row += len(given)
            watcher.stage("checking", row, self.rows)
        if row != self.rows:
            raise BadInput(f"'{self.place}' has {row:,} vectors, not {self.rows:,}")

    def _unit(self, given: NDArray[Any], first: int) -> Vectors:
        try:
            return unit_rows(given)
        except NoDirectionError as error:
            raise BadInput(
                f"the vector in row {first + error.row} of '{self.place}', counted from 0, "
                f"{error.reason}"
            ) from error


def open_vectors(place: Path, table: Path | None = None) -> VectorFile:
    """Vectors in a file or folder.

    Args:
        place: The folder of an index, such as ``lookalike embed`` writes; an .npy [n, dim]; an .npz
            with ``vectors`` or ``embeddings`` and perhaps ``ids``, ``paths`` or ``labels``; a
            Parquet file with a column of vectors, or a folder of such files.
        table: A CSV or Parquet file with a row for each vector: ``path`` or ``id``, perhaps
            ``label``, and metadata.

    Returns:
        The vectors.

    Raises:
        BadInput: There is nothing, or it is no such file, or the numbers of rows differ.
    """
    place = place.expanduser()
    if not place.exists():
        raise BadInput(f"there is no file or folder of vectors '{place}'")
    if (place / "index.json").is_file():
        if table is not None:
            raise BadInput(f"'{place}' knows its pictures; leave out --table")
        return _of_index(place)
    if place.suffix in (".npy", ".npz"):
        return _of_numpy(place, table)
    if place.is_dir() or place.suffix == ".parquet":
        return _of_parquet(place, table)
    raise BadInput(
        f"'{place}' holds no vectors: give a folder of 'lookalike embed', .npy, .npz or .parquet"
    )


def _of_index(folder: Path) -> VectorFile:
    index = Index.open(folder)
    ids = index.ids_where(None)

    def parts() -> Parts:
        for start in range(0, len(ids), BLOCK):
            some = ids[start : start + BLOCK].tolist()
            yield index.vectors_of(some), index.records_of(some)

    model = index.embedder if index.fingerprint else None
    return VectorFile(folder, index.roots or (folder,), len(ids), index.dim, parts, model)


def _of_numpy(place: Path, table: Path | None) -> VectorFile:
    columns: dict[str, Any] = {}
    try:
        refuse_packed(place)
        loaded = np.load(place, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            arrays = {name: loaded[name] for name in loaded.files}
            columns, loaded = _of_archive(place, arrays)
    except BadInput:  # which is a ValueError
        raise
    except Exception as error:  # NumPy raises almost any exception for a forged header
        raise BadInput(f"cannot read '{place}': {error or type(error).__name__}") from error
    given: NDArray[Any] = loaded
    if given.ndim != 2 or not np.issubdtype(given.dtype, np.floating) or not given.shape[1]:
        raise BadInput(
            f"'{place}' must be floating-point numbers [n, dim], not {given.dtype} "
            f"{list(given.shape)}"
        )
    pictures = _columns_of(place, len(given), table, pyarrow.table(columns) if columns else None)

    def parts() -> Parts:
        for start in range(0, len(given), BLOCK):
            yield given[start : start + BLOCK], records_of(pictures.slice(start, BLOCK), 0)

    return VectorFile(place, (_root(place, table),), len(given), given.shape[1], parts)


def _of_archive(
    place: Path, arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], NDArray[Any]]:
    """The columns and vectors of an .npz."""
    name = next((name for name in NAMES if name in arrays), None)
    if name is None:
        raise BadInput(f"'{place}' has no 'vectors'; {did_you_mean('vectors', arrays)}")
    columns = {}
    for key, column in (("paths", "path"), ("ids", "id"), ("labels", "label")):
        if key in arrays:
            if arrays[key].shape != arrays[name].shape[:1]:
                raise BadInput(f"'{place}' needs one of '{key}' for each vector")
            columns[column] = pyarrow.array(arrays[key].astype(str).tolist())
    return columns, arrays[name]


def _of_parquet(place: Path, table: Path | None) -> VectorFile:
    paths = [place] if place.is_file() else sorted(filter(Path.is_file, place.rglob("*.parquet")))
    if not paths:
        raise BadInput(f"'{place}' has neither an index.json nor a .parquet file")
    with explain_unreadable(place):
        files = [pyarrow.parquet.ParquetFile(path) for path in paths]
        schemas = [file.schema_arrow for file in files]
        column = _vector_column(place, schemas[0])
        rows = sum(file.metadata.num_rows for file in files)
        if not rows:
            raise BadInput(f"'{place}' has no rows")
        dim = next(
            _array(batch[column], path).shape[1]
            for path, file in zip(paths, files, strict=True)
            for batch in file.iter_batches(1, columns=[column])
        )
        tables = []
        for path, file, schema in zip(paths, files, schemas, strict=True):
            if column not in schema.names:
                raise BadInput(f"{path}: the column '{column}' is missing")
            flat = [field.name for field in schema if not pyarrow.types.is_nested(field.type)]
            tables.append(file.read(columns=flat))
    own = pyarrow.concat_tables(tables, promote_options="permissive")
    pictures = _columns_of(place, rows, table, own)

    def parts() -> Parts:
        start = 0
        for path, file in zip(paths, files, strict=True):
            row = 0
            with explain_unreadable(path):
                for batch in file.iter_batches(BLOCK, columns=[column]):
                    found = _array(batch[column], path, row)
                    if found.shape[1] != dim:
                        raise BadInput(f"{path}: vectors of {found.shape[1]} numbers, not {dim}")
                    yield found, records_of(pictures.slice(start, len(found)), 0)
                    start, row = start + len(found), row + len(found)

    return VectorFile(place, (_root(place, table),), rows, dim, parts)


def _vector_column(place: Path, schema: pyarrow.Schema) -> str:
    kinds = pyarrow.types
    lists = [
        field.name
        for field in schema
        if (kinds.is_list(field.type) or kinds.is_large_list(field.type))
        or kinds.is_fixed_size_list(field.type)
    ]
    named = [name for name in NAMES if name in lists]
    if not named and len(lists) != 1:
        raise BadInput(f"'{place}' has no column '{VECTOR}' of lists of numbers")
    return named[0] if named else lists[0]


def _array(column: Any, path: Path, first: int = 0) -> NDArray[Any]:
    """A column of lists, from the row ``first`` of a file on, as an array [n, dim]."""
    if isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.concat_arrays(column.chunks)
    if column.null_count:
        row = first + column.is_null().index(True).as_py()
        raise BadInput(f"{path}: row {row}, counted from 0, has no vector")
    flat: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().unique().to_pylist()
    if len(lengths) > 1 or 0 in lengths or not np.issubdtype(flat.dtype, np.floating):
        raise BadInput(f"{path}: vectors must be lists of as many numbers each")
    return flat.reshape(-1, lengths[0] if lengths else column.type.list_size)


def _root(place: Path, table: Path | None) -> Path:
    """The folder that paths are relative to."""
    given = table or place
    return (given if given.is_dir() else given.parent).expanduser().resolve()


def _columns_of(
    place: Path, rows: int, table: Path | None, own: pyarrow.Table | None
) -> pyarrow.Table:
    """What is known of each vector: a table of the user's, or columns beside the vectors."""
    found = own
    if table is not None:
        found = _read_columns(table.expanduser())
        if found.num_rows != rows:
            raise BadInput(f"'{table}' has {found.num_rows:,} rows, and '{place}' {rows:,} vectors")
    if found is None:
        found = pyarrow.table({})
    names = {name.lower().removesuffix("s"): name for name in reversed(found.column_names)}
    key = next((names[name] for name in KEYS if name in names), None)
    label = names.get("label")
    text = pyarrow.large_string()
    columns = {
        "path": pyarrow.array([str(row) for row in range(rows)], text)
        if key is None
        else _as_text(found[key], key, place),
        "label": pyarrow.nulls(rows, text) if label is None else _labels(found[label], label),
        "size": pyarrow.nulls(rows, pyarrow.int64()),
        "modified": pyarrow.nulls(rows, pyarrow.int64()),
    }
    _refuse_twice(place, columns["path"])
    for name in found.column_names:
        if name not in (key, label):
            columns[column_of(name)] = _as_text(found[name], name)
    return pyarrow.table(columns)


def _refuse_twice(place: Path, paths: Any) -> None:
    """Refuse a path that is there twice."""
    counts = paths.value_counts()
    repeated = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(repeated):
        path = repeated.field("values")[0]
        rows = np.flatnonzero(compute.equal(paths, path).to_numpy(zero_copy_only=False))
        raise BadInput(
            f"'{path}' is there twice in '{place}': rows {rows[0]} and {rows[1]}, counted from 0"
        )


def _labels(column: Any, name: str) -> Any:
    """Labels as text; an empty one is none, as in a CSV of pictures."""
    text = _as_text(column, name)
    return compute.if_else(compute.equal(text, ""), None, text)


def _read_columns(table: Path) -> pyarrow.Table:
    if table.suffix != ".parquet":
        names, rows = read_table(table, needed=None)
        return pyarrow.table({name: [row[name] for row in rows] for name in names})
    with explain_unreadable(table):
        schema = pyarrow.parquet.read_schema(table)
        flat = [field.name for field in schema if not pyarrow.types.is_nested(field.type)]
        return pyarrow.parquet.read_table(table, columns=flat)


def _as_text(column: Any, name: str, place: Path | None = None) -> Any:
    try:
        found = column.cast(pyarrow.large_string())
        found.validate(full=True)  # a text may be no UTF-8
    except pyarrow.ArrowException as error:
        raise BadInput(f"the column '{name}' cannot be text: {error}") from error
    if place is not None and found.null_count:
        raise BadInput(f"some rows of '{place}' have no '{name}'")
    return found
