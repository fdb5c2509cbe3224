"""Pictures in a folder or a CSV, listed without being read."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lookalike.data.csv_table import read_table
from lookalike.data.image_files import OTHER_FORMATS, picture_files, reason_of_format
from lookalike.errors import BadInput

__all__ = [
    "Listed",
    "Skipped",
    "file_inside",
    "home_of",
    "is_text",
    "list_files",
    "refusal_of_text",
]


@dataclass(frozen=True)
class Skipped:
    """A picture that was left out.

    Args:
        path: Its name in the source.
        reason: Why, in a few words.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class Listed:
    """A picture of a source.

    Attributes:
        path: Relative to the root of the source.
        label: Its label, where it has one.
        metadata: The other columns of its row.
        size: The bytes of its file.
        modified: When its file was changed, in nanoseconds.
    """

    path: str
    label: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    size: int = -1
    modified: int = 0


def home_of(source: Path) -> Path:
    """The folder that the paths of a folder or CSV are relative to."""
    source = source.expanduser()
    return (source if source.is_dir() else source.parent).resolve()


def list_files(source: Path, root: Path | None = None) -> Iterator[Listed | Skipped]:
    """Every picture of ``source``, a folder or a CSV, named relative to ``root``.

    In a folder the first sub-folder of a picture is its label; a CSV has a column ``path``, perhaps
    ``label``, and all other columns are metadata. Links that lead out of ``root`` are skipped.

    Args:
        source: A folder, or a CSV file.
        root: What paths are relative to; None: the folder, or the folder that the CSV lies in.

    Yields:
        The pictures in order, and what cannot be used.

    Raises:
        BadInput: There is no such source, or it is not in ``root``.
    """
    source = source.expanduser()
    if not source.exists():
        raise BadInput(f"there is no folder or CSV '{source}'")
    table, home = not source.is_dir(), home_of(source)
    root = home if root is None else root.resolve()
    if not home.is_relative_to(root):
        raise BadInput(f"'{source}' is not in '{root}'")
    seen: set[str] = set()
    for one in _rows_of(source, home) if table else _files_of(home):
        path = (home / one.path).relative_to(root).as_posix() if home != root else one.path
        label = one.label if table else path.rpartition("/")[0].partition("/")[0] or None
        reason = "it is listed twice" if path in seen else ""
        reason = reason or refusal_of_text(path, label, one.metadata) or _refusal(root, path)
        if table:  # a folder names no file twice
            seen.add(path)
        if reason:
            yield Skipped(shown(path), reason)
            continue
        status = (root / path).stat()
        size, modified = status.st_size, status.st_mtime_ns
        yield replace(one, path=path, label=label, size=size, modified=modified)


def file_inside(root: Path, path: str) -> Path | None:
    """The real file behind ``path``; None where that is not a file under ``root``."""
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if real.is_relative_to(root) and real.is_file() else None


def is_text(value: str) -> bool:
    r"""Whether every index can store a string: no NUL, and nothing that UTF-8 cannot encode.

    >>> is_text("caf\u00e9"), is_text("caf\udce9"), is_text("a\0b")
    (True, False, False)
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def refusal_of_text(path: str, label: str | None, metadata: Mapping[str, str]) -> str:
    """Why an index could not store what is known of a picture; empty where it could.

    Args:
        path: Its path.
        label: Its label.
        metadata: Its metadata.

    Returns:
        The reason, in a few words.
    """
    if not is_text(path):
        return "its name is not UTF-8"
    others = (label or "", *metadata, *metadata.values())
    return "" if all(map(is_text, others)) else "its label or metadata is not text"


def shown(path: str) -> str:
    """A path that can be printed."""
    return path.encode(errors="replace").decode()


def _refusal(root: Path, path: str) -> str:
    """Why a file cannot be used; empty where it can."""
    if Path(path).suffix.lower() in OTHER_FORMATS:
        return reason_of_format(Path(path).suffix)
    if file_inside(root, path) is not None:
        return ""
    there = (root / path).exists()
    return f"it is not a file under '{root}'" if there else "there is no such file"


def _files_of(folder: Path) -> Iterator[Listed]:
    """Every picture below a folder."""
    return map(Listed, picture_files(folder))


def _rows_of(table: Path, home: Path) -> Iterator[Listed]:
    """Every row of a CSV, with a normalized path."""
    _, rows = read_table(table)
    for line, row in enumerate(rows, 2):
        path = row.pop("path")
        if not path or "\0" in path:
            raise BadInput(f"{table}, row {line}: path must not be empty")
        label = row.pop("label", None) or None
        yield Listed(os.path.relpath(home / path, home), label, row)
