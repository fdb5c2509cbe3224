"""What a filter means, and its truth for every row of some columns.

Truth is SQL's, of three values: true, false and unknown (null), by the rules of Kleene.
"""

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Value: TypeAlias = str | float

NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9][0-9]?)? *$"
"""Texts that are numbers, for RE2 and PostgreSQL alike (which is slow at ``{1,100}``)."""
LONGEST_NUMBER = 100
"""Characters of such a text: no number leaves float64."""

ARROW = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
NUMPY = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Columns(Protocol):
    """Values of pictures by column."""

    def __len__(self) -> int:
        """The number of pictures."""
        ...

    def text(self, name: str) -> "pa.Array | None":
        """A column of strings, null where a picture has no value; None: no picture has one."""
        ...

    def number(self, name: str) -> NDArray[np.float64]:
        """The same column as :func:`numbers`."""
        ...


def numbers(text: "pa.Array") -> NDArray[np.float64]:
    """A column of strings as numbers, NaN where it is null or not a number.

    >>> import pyarrow as pa
    >>> numbers(pa.array(["5", " -1.5e3 ", "five", "nan", None])).tolist()
    [5.0, -1500.0, nan, nan, nan]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    short = pc.less_equal(pc.utf8_length(text), LONGEST_NUMBER)
    is_one = pc.and_(short, pc.match_substring_regex(text, NUMBER))
    digits = pc.utf8_ltrim(pc.utf8_trim(pc.if_else(is_one, text, None), " "), "+")
    found: NDArray[np.float64] = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True)
class Comparison:
    """A column against a text or a number."""

    column: str
    operator: Operator
    value: Value

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        yield self.column

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow.compute as pc

        text = columns.text(self.column)
        if text is None:
            return unknown(len(columns))
        if isinstance(self.value, str):
            return pc.call_function(ARROW[self.operator], [text, scalar(text, self.value)])
        values = columns.number(self.column)
        return unless_nan(NUMPY[self.operator](values, self.value), values)


@dataclass(frozen=True)
class OneOf:
    """A column against a list of texts, or of numbers."""

    column: str
    values: tuple[str, ...] | tuple[float, ...]

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        yield self.column

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = columns.text(self.column)
        if text is None:
            return unknown(len(columns))
        if isinstance(self.values[0], str):
            found = pc.is_in(text, pa.array(self.values, text.type))
            return pc.if_else(pc.is_null(text), None, found)
        values = columns.number(self.column)
        return unless_nan(np.isin(values, self.values), values)


@dataclass(frozen=True)
class Like:
    """A text against a pattern with ``%`` and ``_``; a backslash takes the next sign literally."""

    column: str
    pattern: str
    any_case: bool

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        yield self.column

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow.compute as pc

        text = columns.text(self.column)
        if text is None:
            return unknown(len(columns))
        if self.any_case:
            text = pc.utf8_lower(text)
        if "\\" in self.pattern:  # after "%" Arrow does not see that it escapes
            return pc.match_substring_regex(text, as_expression(self.folded))
        return pc.match_like(text, self.folded)

    @property
    def folded(self) -> str:
        """The pattern in lower case, character by character, where the case does not matter."""
        import pyarrow.compute as pc

        return str(pc.utf8_lower(self.pattern).as_py()) if self.any_case else self.pattern


@dataclass(frozen=True)
class IsNull:
    """A picture has no value."""

    column: str

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        yield self.column

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True or false for each row."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text = columns.text(self.column)
        return pa.array(np.ones(len(columns), bool)) if text is None else pc.is_null(text)


@dataclass(frozen=True)
class Not:
    """The opposite; the opposite of unknown is unknown."""

    part: "Condition"

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        yield from self.part.columns()

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow.compute as pc

        return pc.invert(self.part.truth(columns))


@dataclass(frozen=True)
class And:
    """False where any part is, else unknown where any is, else true."""

    parts: "tuple[Condition, ...]"

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        for part in self.parts:
            yield from part.columns()

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow.compute as pc

        known = self.parts[0].truth(columns)
        for part in self.parts[1:]:
            known = pc.and_kleene(known, part.truth(columns))
        return known


@dataclass(frozen=True)
class Or:
    """True where any part is, else unknown where any is, else false."""

    parts: "tuple[Condition, ...]"

    def columns(self) -> Iterator[str]:
        """The columns that are read."""
        for part in self.parts:
            yield from part.columns()

    def truth(self, columns: Columns) -> "pa.BooleanArray":
        """True, false or null for each row."""
        import pyarrow.compute as pc

        known = self.parts[0].truth(columns)
        for part in self.parts[1:]:
            known = pc.or_kleene(known, part.truth(columns))
        return known


Condition: TypeAlias = Comparison | OneOf | Like | IsNull | Not | And | Or


def as_expression(pattern: str) -> str:
    """A pattern of LIKE as a regular expression for RE2.

    >>> as_expression("50\\\\%_%")
    '(?s)^50%..*$'
    """
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"(?s)\\.|.", pattern)
    return "(?s)^" + "".join(signs.get(part) or re.escape(part[-1]) for part in parts) + "$"


def scalar(text: "pa.Array", value: str) -> "pa.Scalar":
    """A text of the type of a column."""
    import pyarrow as pa

    return pa.scalar(value, text.type)


def unless_nan(truth: NDArray[np.bool_], values: NDArray[np.float64]) -> "pa.BooleanArray":
    """Truth that is unknown where there is no number."""
    import pyarrow as pa

    return pa.array(truth, mask=np.isnan(values))


def unknown(count: int) -> "pa.BooleanArray":
    """Nothing is known about a column that no picture has."""
    import pyarrow as pa

    return pa.nulls(count, pa.bool_())
