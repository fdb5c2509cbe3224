"""A filter as a condition of SQL: every text and number of the user is a parameter."""

from typing import Any, Literal

from psycopg.sql import SQL, Composable, Placeholder

from lookalike.search.filters import LONGEST_NUMBER, NUMBER, Filter, Operator, Value, Values

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
            self.condition = chosen.interpret(self)

    def compare(self, column: str, operator: Operator, value: Value) -> Composable:
        """Texts in the order of code points, or numbers."""
        sign, parameter = OPERATORS[operator], self._parameter(value)
        if not isinstance(value, str):
            return SQL("({} {} {}::float8)").format(self._number(column), sign, parameter)
        # equality is the same in every order, and an index on the label answers it
        order = SQL("") if operator in ("=", "<>") else SQL(' COLLATE "C"')
        return SQL("({} {} {}::text{})").format(self._text(column), sign, parameter, order)

    def one_of(self, column: str, values: Values) -> Composable:
        """Whether a value is in the list."""
        parameter = self._parameter(list(values))
        if isinstance(values[0], str):
            return SQL("({} = ANY({}::text[]))").format(self._text(column), parameter)
        return SQL("({} = ANY({}::float8[]))").format(self._number(column), parameter)

    def like(self, column: str, pattern: str, any_case: bool) -> Composable:
        """Whether a text matches."""
        text = self._text(column)
        if any_case:
            folded = 'lower({} COLLATE "pg_c_utf8")' if self.simple_case else "lower({})"
            text = SQL(folded).format(text)
        return SQL("({} LIKE {}::text)").format(text, self._parameter(pattern))

    def is_null(self, column: str) -> Composable:
        """Whether there is no value."""
        return SQL("({} IS NULL)").format(self._text(column))

    def negate(self, part: Composable) -> Composable:
        """The opposite."""
        return SQL("(NOT {})").format(part)

    def combine(self, word: Literal["and", "or"], parts: list[Composable]) -> Composable:
        """All parts, or any of them."""
        return SQL("({})").format(SQL(" AND " if word == "and" else " OR ").join(parts))

    def _text(self, column: str) -> Composable:
        """A column as it is stored."""
        if column in ("label", "path"):
            return SQL("label" if column == "label" else "path")
        return SQL("(metadata ->> {}::text)").format(self._parameter(column))

    def _number(self, column: str) -> Composable:
        """A column as numbers, NULL where it is none."""
        number, longest = self._parameter(NUMBER), SQL(f"{LONGEST_NUMBER}")
        return AS_NUMBER.format(text=self._text(column), number=number, longest=longest)

    def _parameter(self, value: Any) -> Composable:
        """A place for a value."""
        name = f"where{len(self.values)}"
        self.values[name] = value
        return Placeholder(name)
