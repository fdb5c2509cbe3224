"""A filter as a condition of SQL: every text and number of the user is a parameter."""

from typing import Any

from psycopg.sql import SQL, Composable, Placeholder

from lookalike.search.filters import Filter
from lookalike.search.filters.conditions import (
    LONGEST_NUMBER,
    NUMBER,
    And,
    Comparison,
    Condition,
    IsNull,
    Like,
    Not,
    OneOf,
    Or,
)

OPERATORS = {
    "=": SQL("="),
    "<>": SQL("<>"),
    "<": SQL("<"),
    "<=": SQL("<="),
    ">": SQL(">"),
    ">=": SQL(">="),
}
AS_NUMBER = SQL(
    "(CASE WHEN length({text}) <= {longest} AND {text} ~ {number} THEN {text}::float8 END)"
)


class Where:
    """What stands after ``WHERE``: ``condition``, and the ``values`` of its parameters.

    Args:
        chosen: A filter; None: every picture.
        simple_case: The server has the collation ``pg_c_utf8`` (PostgreSQL 17), whose lower case
            is that of a folder index; another server folds case by the rules of its database.
    """

    def __init__(self, chosen: Filter | None, simple_case: bool = True) -> None:
        self.simple_case = simple_case
        self.values: dict[str, Any] = {}
        self.condition: Composable = SQL("true")
        if chosen is not None:
            self.condition = self.write(chosen.condition)

    def write(self, condition: Condition) -> Composable:
        """One condition, in parentheses."""
        match condition:
            case And(parts):
                return SQL("({})").format(SQL(" AND ").join(map(self.write, parts)))
            case Or(parts):
                return SQL("({})").format(SQL(" OR ").join(map(self.write, parts)))
            case Not(part):
                return SQL("(NOT {})").format(self.write(part))
            case IsNull(column):
                return SQL("({} IS NULL)").format(self.text(column))
            case OneOf(column, values):
                return self.one_of(column, values)
            case Like(column, _, any_case):
                text = self.lower(column) if any_case else self.text(column)
                pattern = self.parameter(condition.folded)
                return SQL("({} LIKE {}::text)").format(text, pattern)
            case Comparison(column, operator, str(value)):
                # equality is the same in every order, and an index on the label answers it
                order = SQL("") if operator in ("=", "<>") else SQL(' COLLATE "C"')
                written = SQL("({} {} {}::text{})")
                parameter = self.parameter(value)
                return written.format(self.text(column), OPERATORS[operator], parameter, order)
            case Comparison(column, operator, value):
                parameter = self.parameter(value)
                written = SQL("({} {} {}::float8)")
                return written.format(self.number(column), OPERATORS[operator], parameter)

    def one_of(self, column: str, values: tuple[Any, ...]) -> Composable:
        """Membership in a list."""
        parameter = self.parameter(list(values))
        if isinstance(values[0], str):
            return SQL("({} = ANY({}::text[]))").format(self.text(column), parameter)
        return SQL("({} = ANY({}::float8[]))").format(self.number(column), parameter)

    def text(self, column: str) -> Composable:
        """A column as it is stored."""
        if column in ("label", "path"):
            return SQL("label" if column == "label" else "path")
        return SQL("(metadata ->> {}::text)").format(self.parameter(column))

    def number(self, column: str) -> Composable:
        """A column as numbers, NULL where it is none."""
        number, longest = self.parameter(NUMBER), SQL(f"{LONGEST_NUMBER}")
        return AS_NUMBER.format(text=self.text(column), number=number, longest=longest)

    def lower(self, column: str) -> Composable:
        """A column in lower case."""
        folded = SQL('lower({} COLLATE "pg_c_utf8")') if self.simple_case else SQL("lower({})")
        return folded.format(self.text(column))

    def parameter(self, value: Any) -> Composable:
        """A place for a value."""
        name = f"where{len(self.values)}"
        self.values[name] = value
        return Placeholder(name)
