"""The names of columns: those that every table has, and metadata beside them."""

from collections.abc import Sequence

__all__ = ["FIXED", "VECTOR", "column_of", "metadata_columns", "metadata_name"]

FIXED = ("path", "label", "size", "modified")
"""The columns that every table of pictures has; the others are metadata."""
VECTOR = "vector"
_PREFIX = "metadata:"


def column_of(name: str) -> str:
    """The column of a metadata name, which may be that of a fixed column, such as a size.

    >>> column_of("price"), column_of("size")
    ('price', 'metadata:size')
    """
    clash = name in (*FIXED, VECTOR) or name.startswith(_PREFIX)
    return f"{_PREFIX}{name}" if clash else name


def metadata_name(column: str) -> str:
    """The metadata name of a column.

    >>> metadata_name("price"), metadata_name("metadata:size")
    ('price', 'size')
    """
    return column.removeprefix(_PREFIX)


def metadata_columns(columns: Sequence[str]) -> list[str]:
    """Which of these columns are metadata."""
    return [name for name in columns if name not in (*FIXED, VECTOR)]
