"""A user's table of images: a CSV file with a header, separated by commas, semicolons or tabs."""

import csv
import io
from pathlib import Path

from lookalike.errors import BadInput
from lookalike.files import open_regular

__all__ = ["TableRow", "read_table"]

TableRow = dict[str, str]

SEPARATORS = ",;\t"


def read_table(path: Path, needed: str | None = "path") -> tuple[list[str], list[TableRow]]:
    """The columns and rows of a table; the first line names the columns.

    Args:
        path: The file, in UTF-8.
        needed: A column that must be there.

    Returns:
        The names of the columns, and for each row its values by name.

    Raises:
        BadInput: The file cannot be read, ``needed`` is missing, or a row has too few or many
            values.
    """
    try:
        raw = io.BufferedReader(open_regular(path))
        with io.TextIOWrapper(raw, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            separator = max(SEPARATORS, key=header.count)  # a comma where there is one column
            reader = csv.DictReader(file, strict=True, delimiter=separator)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    if len(set(columns)) < len(columns):
        raise BadInput(f"{path}: a column occurs twice")
    if needed is not None and needed not in columns:
        raise BadInput(
            f"{path}: the column '{needed}' is missing; the first line names the columns"
        )
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise BadInput(f"{path}, row {line}: {len(columns)} values expected")
    return columns, rows
