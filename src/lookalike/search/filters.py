"""Which pictures of an index are searched: ``price < 50 and brand = 'x'``.

The text is read by sqlglot, whose tree is the filter. One walk over it (:class:`Walk`) refuses
everything but plain conditions on columns, and says what they mean to a :class:`Meaning`: a mask
over columns of Arrow here, a condition of SQL in PostgreSQL. Truth is SQL's, of three values: true,
false and unknown (null), by the rules of Kleene.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Literal, NoReturn, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from lookalike.errors import BadInput, did_you_mean
from lookalike.inference.pictures import is_text

__all__ = ["LONGEST", "LONGEST_NUMBER", "NUMBER", "Columns", "Filter", "Meaning", "numbers"]

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Value: TypeAlias = str | float
Values: TypeAlias = Sequence[str] | Sequence[float]
T = TypeVar("T")

OWN_COLUMNS = ("label", "path")
"""What every index has besides metadata."""
LONGEST = 10_000
"""Characters of a filter."""
DEEPEST = 20
"""Parentheses and NOTs within each other."""
SHOWN = 60
"""Characters of a filter that a message repeats."""
NUMBER = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9][0-9]?)? *$"
"""Texts that are numbers, for RE2 and PostgreSQL alike (which is slow at ``{1,100}``)."""
LONGEST_NUMBER = 100
"""Characters of such a text: no number leaves float64."""
FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPERATORS: dict[type, Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
ALLOWED = (
    "a filter compares columns with texts in single quotes or numbers by =, <>, <, <=, >, >=, "
    "BETWEEN, IN, LIKE, ILIKE and IS NULL, combined by AND, OR, NOT and parentheses"
)


class Meaning(Protocol[T]):
    """What conditions mean, and what combining them means."""

    def compare(self, column: str, operator: Operator, value: Value) -> T:
        """A column against a text or a number."""
        ...

    def one_of(self, column: str, values: Values) -> T:
        """A column against a list of texts, or of numbers."""
        ...

    def like(self, column: str, pattern: str, any_case: bool) -> T:
        """A text against a pattern with ``%`` and ``_``; a backslash takes the next sign as it is.

        Of ``any_case`` the pattern is in lower case already (see :func:`folded`).
        """
        ...

    def is_null(self, column: str) -> T:
        """A picture has no value."""
        ...

    def negate(self, part: T) -> T:
        """The opposite; the opposite of unknown is unknown."""
        ...

    def combine(self, word: Literal["and", "or"], parts: list[T]) -> T:
        """All parts, or any of them."""
        ...


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
        tree: The same as sqlglot reads it.

    Example:
        >>> chosen = Filter.parse("price < 50 and brand = 'x'")
        >>> sorted(chosen.columns)
        ['brand', 'price']
    """

    text: str
    tree: Any = field(repr=False, compare=False)

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
        found = cls(text, parsed(text))
        try:
            found.columns  # noqa: B018 - the walk refuses what is no plain condition
        except RecursionError:
            refuse(text, "it is nested too deeply")
        return found

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
            where = cls.parse(where) if where.strip() else None
        if label is None:
            return where
        only = exp.EQ(this=exp.column("label"), expression=exp.Literal.string(label))
        quoted = label.replace("'", "''")
        if where is None:
            return cls(f"label = '{quoted}'", only)
        both = exp.And(this=exp.Paren(this=where.tree), expression=only)
        return cls(f"({where.text}) and label = '{quoted}'", both)

    @classmethod
    def below(cls, folder: str) -> Self:
        """The pictures whose paths begin with a folder."""
        # In the order of code points '0' follows '/'.
        first, after = exp.Literal.string(f"{folder}/"), exp.Literal.string(f"{folder}0")
        path = exp.column("path")
        inside = exp.And(
            this=exp.GTE(this=path, expression=first),
            expression=exp.LT(this=path.copy(), expression=after),
        )
        return cls(f"below {folder}", inside)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names that it reads: label, path, or columns of the metadata."""
        asked = Asked()
        self.interpret(Truth(asked))
        return frozenset(asked.names)

    def interpret(self, meaning: Meaning[T]) -> T:
        """What it means to a :class:`Meaning`."""
        found: T = Walk(self.text, meaning).condition(self.tree)
        return found

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

    def mask(self, columns: "Columns") -> NDArray[np.bool_]:
        """Which rows it is true for; unknown is not true.

        Args:
            columns: The values of some pictures.

        Returns:
            A boolean for each of them.
        """
        truth = pc.fill_null(self.interpret(Truth(columns)), False)
        mask: NDArray[np.bool_] = truth.to_numpy(zero_copy_only=False)
        return mask

    def __str__(self) -> str:
        return self.text


class Columns(Protocol):
    """Values of pictures by column."""

    def __len__(self) -> int:
        """The number of pictures."""
        ...

    def text(self, name: str) -> pa.Array | None:
        """A column of strings, null where a picture has no value; None: no picture has one."""
        ...

    def number(self, name: str) -> pa.Array | None:
        """The same column as :func:`numbers`."""
        ...


class Asked:
    """Columns of no pictures, which remember what was read of them."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __len__(self) -> int:
        return 0

    def text(self, name: str) -> None:
        """There is none."""
        self.names.add(name)

    number = text


@dataclass(frozen=True)
class Truth:
    """True, false or null for each row of some columns."""

    columns: Columns

    def compare(self, column: str, operator: Operator, value: Value) -> pa.BooleanArray:
        """Texts in the order of code points, or numbers."""
        held = self._held(column, value)
        if held is None:
            return self._unknown()
        return COMPARE[operator](held, pa.scalar(value, held.type))

    def one_of(self, column: str, values: Values) -> pa.BooleanArray:
        """Whether a value is in the list."""
        held = self._held(column, values[0])
        if held is None:
            return self._unknown()
        return pc.if_else(pc.is_null(held), None, pc.is_in(held, pa.array(values, held.type)))

    def _held(self, column: str, value: Value) -> pa.Array | None:
        """A column as what it is compared with."""
        columns = self.columns
        return columns.text(column) if isinstance(value, str) else columns.number(column)

    def like(self, column: str, pattern: str, any_case: bool) -> pa.BooleanArray:
        """Whether a text matches."""
        text = self.columns.text(column)
        if text is None:
            return self._unknown()
        text = pc.utf8_lower(text) if any_case else text
        if "\\" in pattern:  # after "%" Arrow does not see that it escapes
            return pc.match_substring_regex(text, as_expression(pattern))
        return pc.match_like(text, pattern)

    def is_null(self, column: str) -> pa.BooleanArray:
        """Whether there is no value."""
        text = self.columns.text(column)
        return pa.array(np.ones(len(self.columns), bool)) if text is None else pc.is_null(text)

    def negate(self, part: pa.BooleanArray) -> pa.BooleanArray:
        """Null stays null."""
        return pc.invert(part)

    def combine(self, word: Literal["and", "or"], parts: list[pa.BooleanArray]) -> pa.BooleanArray:
        """By Kleene's rules."""
        return reduce(pc.and_kleene if word == "and" else pc.or_kleene, parts)

    def _unknown(self) -> pa.BooleanArray:
        """Nothing is known about a column that no picture has."""
        return pa.nulls(len(self.columns), pa.bool_())


def numbers(text: pa.Array) -> pa.Array:
    """A column of strings as numbers, null where it is null or not a number.

    >>> numbers(pa.array(["5", " -1.5e3 ", "five", "nan", None])).to_pylist()
    [5.0, -1500.0, None, None, None]
    """
    short = pc.less_equal(pc.utf8_length(text), LONGEST_NUMBER)
    is_one = pc.and_(short, pc.match_substring_regex(text, NUMBER))
    digits = pc.utf8_ltrim(pc.utf8_trim(pc.if_else(is_one, text, None), " "), "+")
    return pc.add(digits.cast(pa.float64()), 0.0)  # which makes 0 of -0


def as_expression(pattern: str) -> str:
    """A pattern of LIKE as a regular expression for RE2.

    >>> as_expression("50\\\\%_%")
    '(?s)^50%..*$'
    """
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"(?s)\\.|.", pattern)
    return "(?s)^" + "".join(signs.get(part) or re.escape(part[-1]) for part in parts) + "$"


def folded(pattern: str) -> str:
    """A pattern in lower case, character by character, as Arrow folds the texts of a column."""
    return str(pc.utf8_lower(pattern).as_py())


def refuse(text: str, why: str) -> NoReturn:
    """Say why a filter cannot be used."""
    whole = " ".join(text.split())
    shown = whole if len(whole) <= SHOWN else whole[: SHOWN - 3] + "..."
    raise BadInput(f"the filter [{shown}] is invalid: {why}")


def parsed(text: str) -> Any:
    """The tree of a text, whatever it says; ``BadInput`` in one sentence where it is no SQL."""
    if len(text) > LONGEST:
        raise BadInput(f"a filter has at most {LONGEST:,} characters, not {len(text):,}")
    if not is_text(text):
        raise BadInput("a filter has a character that is not text")
    dialect = Dialect.get_or_raise("postgres")
    try:
        check_tokens(text, dialect.tokenize(text))
        (tree,) = dialect.parse_into(exp.Condition, text)
    except ParseError as error:
        near = str(error.errors[0].get("highlight") or "") if error.errors else ""
        hint = "; a column of that name stands in double quotes" if near.isidentifier() else ""
        refuse(text, f"it cannot be read near '{near}'{hint}" if near else "it cannot be read")
    except SqlglotError:
        refuse(text, "a quotation mark is not closed, or a sign is unknown")
    except RecursionError:
        refuse(text, "it is nested too deeply")
    return tree


def check_tokens(text: str, tokens: Sequence[Any]) -> None:
    """Refuse nesting, comments and several statements before anything is parsed."""
    if not tokens:
        refuse(text, "it is empty")
    opened: list[int] = []
    run = 0
    for token in tokens:
        if token.comments:
            refuse(text, "a comment has no place in it")
        if token.token_type is TokenType.SEMICOLON:
            refuse(text, "it is one condition, without a semicolon")
        if token.token_type in OPENING:
            opened.append(run + 1)
        elif token.token_type in CLOSING and opened:
            opened.pop()
        run = run + 1 if token.token_type in PREFIXES else 0
        if sum(opened) + run > DEEPEST:
            refuse(text, f"it is nested more than {DEEPEST} deep")


class Walk:
    """Reads a tree to a :class:`Meaning`, and refuses what is no plain condition on columns."""

    def __init__(self, text: str, meaning: Meaning[Any]) -> None:
        self.text, self.meaning = text, meaning

    def condition(self, node: Any) -> Any:
        """What a condition means."""
        node, meaning = self.bare(node), self.meaning
        kind = type(node)
        if kind in (exp.And, exp.Or):
            parts = [self.condition(part) for part in self.operands(node, kind)]
            return meaning.combine("and" if kind is exp.And else "or", parts)
        if kind is exp.Not:
            self.only(node, "this")
            return meaning.negate(self.condition(node.this))
        if kind in OPERATORS:
            return self.comparison(node, OPERATORS[kind])
        if kind is exp.In:
            return self.one_of(node)
        if kind is exp.Between:
            self.only(node, "this", "low", "high")
            column = self.column(node.this)
            low, high = (self.value(node.args.get(end)) for end in ("low", "high"))
            inside = [meaning.compare(column, ">=", low), meaning.compare(column, "<=", high)]
            return meaning.combine("and", inside)
        if kind in (exp.Like, exp.ILike):
            found = self.like(node, kind is exp.ILike)
        elif kind is exp.Is and isinstance(node.args.get("expression"), exp.Null):
            found = meaning.is_null(self.column(node.this))
        else:
            self.refuse()
        self.only(node, "this", "expression", "negate")
        return meaning.negate(found) if node.args.get("negate") else found

    def operands(self, node: Any, kind: type) -> Iterator[Any]:
        """What a chain of ANDs, or of ORs, combines, from left to right and without recursion."""
        waiting: list[Any] = [node]
        while waiting:
            part = waiting.pop()
            if isinstance(part, exp.Expression) and type(part) is kind:
                self.only(part, "this", "expression")
                waiting += [part.args.get("expression"), part.args.get("this")]
            else:
                yield part

    def comparison(self, node: Any, operator: Operator) -> Any:
        """``column < value`` or ``value < column``."""
        self.only(node, "this", "expression")
        left, right = (self.bare(node.args.get(side)) for side in ("this", "expression"))
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, operator = right, left, FLIPPED.get(operator, operator)
        if isinstance(right, exp.Column):
            self.refuse("a column is compared with a number or a text in single quotes")
        return self.meaning.compare(self.column(left), operator, self.value(right))

    def one_of(self, node: Any) -> Any:
        """``column IN (1, 'x')``; texts are compared as texts and numbers as numbers."""
        self.only(node, "this", "expressions")
        column = self.column(node.this)
        values = [self.value(one) for one in node.args.get("expressions") or ()]
        texts = [value for value in values if isinstance(value, str)]
        others = [value for value in values if not isinstance(value, str)]
        lists: list[Values] = [one for one in (texts, others) if one]
        if not lists:
            self.refuse("IN needs values")
        found = [self.meaning.one_of(column, one) for one in lists]
        return found[0] if len(found) == 1 else self.meaning.combine("or", found)

    def like(self, node: Any, any_case: bool) -> Any:
        """``column LIKE 'pattern'``."""
        pattern = self.value(node.args.get("expression"))
        if not isinstance(pattern, str):
            self.refuse("LIKE needs a text in single quotes")
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            self.refuse("a pattern must not end with a single backslash")
        pattern = folded(pattern) if any_case else pattern
        return self.meaning.like(self.column(node.this), pattern, any_case)

    def column(self, node: Any) -> str:
        """The name of a column."""
        node = self.bare(node)
        if not isinstance(node, exp.Column):
            self.refuse()
        self.only(node, "this")
        if not isinstance(node.this, exp.Identifier):
            self.refuse()
        self.only(node.this, "this", "quoted")
        return str(node.this.this)

    def value(self, node: Any) -> Value:
        """A text or a number."""
        node = self.bare(node)
        negative = type(node) is exp.Neg
        if negative:
            self.only(node, "this")
            node = self.bare(node.this)
        if type(node) is exp.Null:
            self.refuse("nothing equals NULL; write 'column IS NULL'")
        if type(node) is not exp.Literal or (negative and node.is_string):
            self.refuse()
        self.only(node, "this", "is_string")
        if node.is_string:
            return str(node.this)
        try:
            number = float(node.this)
        except ValueError:
            self.refuse(f"'{node.this[:SHOWN]}' is not a number")
        if not math.isfinite(number):
            self.refuse("a number is too large")
        return 0 - number if negative else number

    def bare(self, node: Any) -> Any:
        """What stands in parentheses."""
        while type(node) is exp.Paren:
            node = node.this
        return node

    def only(self, node: Any, *names: str) -> None:
        """Refuse a node that says more than is read from it."""
        if any(value for name, value in node.args.items() if name not in names):
            self.refuse()

    def refuse(self, why: str = ALLOWED) -> NoReturn:
        """Say why the filter cannot be used."""
        refuse(self.text, why)
