"""A condition on the label, the path and the metadata of pictures."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, did_you_mean
from lookalike.search.filters.conditions import And, Columns, Comparison, Condition

if TYPE_CHECKING:
    import pyarrow as pa

OWN_COLUMNS = ("label", "path")
"""What every index has besides metadata."""


@dataclass(frozen=True)
class Filter:
    """Which pictures to search, in the words of SQL's ``WHERE``.

    Columns are ``label``, ``path`` and those of the metadata, as they are written; a name that is
    not a plain word stands in double quotes. They are compared with texts in single quotes (in
    the order of code points) or with numbers (then a value that is no number is unknown) by
    ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``BETWEEN``, ``IN``, ``LIKE``, ``ILIKE`` and
    ``IS NULL``, which ``AND``, ``OR``, ``NOT`` and parentheses combine. As in SQL, a comparison
    with a value that a picture does not have is unknown, and so is its opposite.

    Args:
        text: What the user wrote.
        condition: What it means.

    Example:
        >>> chosen = Filter.parse("price < 50 and brand = 'x'")
        >>> sorted(chosen.columns)
        ['brand', 'price']
    """

    text: str
    condition: Condition = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a filter.

        Args:
            text: For example ``price < 50 and brand = 'x'``.

        Returns:
            The filter.

        Raises:
            BadInput: It cannot be read, or is not a plain condition on columns.
        """
        from lookalike.search.filters.syntax import read

        return cls(text, read(text))

    @classmethod
    def of(cls, where: "str | Filter | None" = None, label: str | None = None) -> "Filter | None":
        """A filter and a label as one filter.

        Args:
            where: A filter, or its text; an empty text is none.
            label: The label that pictures must have, too.

        Returns:
            Both, combined with AND; None: neither is given.
        """
        if isinstance(where, str):
            where = Filter.parse(where) if where.strip() else None
        if label is None:
            return where
        quoted = label.replace("'", "''")
        only = Filter(f"label = '{quoted}'", Comparison("label", "=", label))
        if where is None:
            return only
        both = And((where.condition, only.condition))
        return Filter(f"({where.text}) and {only.text}", both)

    @property
    def columns(self) -> frozenset[str]:
        """The names that it reads: label, path, or columns of the metadata."""
        return frozenset(self.condition.columns())

    def check_columns(self, metadata: Collection[str]) -> None:
        """Refuse a column that no picture has.

        Args:
            metadata: The names of the index's metadata columns.

        Raises:
            BadInput: The filter reads another column; names the nearest.
        """
        known = {*OWN_COLUMNS, *metadata}
        for name in sorted(self.columns - known):
            raise BadInput(f"no picture has the column '{name}'; {did_you_mean(name, known)}")

    def mask(self, columns: Columns) -> NDArray[np.bool_]:
        """Which rows it is true for; unknown is not true.

        Args:
            columns: The values of some pictures.

        Returns:
            A boolean for each of them.
        """
        import pyarrow.compute as pc

        known: pa.BooleanArray = self.condition.truth(columns)
        mask: NDArray[np.bool_] = pc.fill_null(known, False).to_numpy(zero_copy_only=False)
        return mask

    def __str__(self) -> str:
        return self.text
