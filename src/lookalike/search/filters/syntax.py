"""The text of a filter, read by sqlglot; everything but plain conditions on columns is refused."""

import math
from collections.abc import Iterator
from typing import Any, NoReturn

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from lookalike.errors import BadInput
from lookalike.inference.bulk.listing import is_text
from lookalike.search.filters.conditions import (
    And,
    Comparison,
    Condition,
    IsNull,
    Like,
    Not,
    OneOf,
    Operator,
    Or,
    Value,
)

LONGEST = 10_000
"""Characters of a filter."""
DEEPEST = 20
"""Parentheses and NOTs within each other."""
SHOWN = 60
"""Characters of a filter that a message repeats."""

OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
PREFIXES = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
ALLOWED = (
    "a filter compares columns with texts in single quotes or numbers by =, <>, <, <=, >, >=, "
    "BETWEEN, IN, LIKE, ILIKE and IS NULL, combined by AND, OR, NOT and parentheses"
)


def read(text: str) -> Condition:
    """The condition that a text means; ``BadInput`` in one sentence where it means none."""
    if len(text) > LONGEST:
        raise BadInput(f"a filter has at most {LONGEST:,} characters, not {len(text):,}")
    if not is_text(text):
        raise BadInput("a filter has a character that is not text")
    return Reader(text).condition()


class Reader:
    """Reads one filter; the methods refuse what they do not know."""

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, why: str) -> NoReturn:
        """Say why the filter cannot be used."""
        whole = " ".join(self.text.split())
        shown = whole if len(whole) <= SHOWN else whole[: SHOWN - 3] + "..."
        raise BadInput(f"the filter [{shown}] is invalid: {why}")

    def condition(self) -> Condition:
        """The whole filter."""
        dialect = Dialect.get_or_raise("postgres")
        try:
            self.check_tokens(dialect.tokenize(self.text))
            (tree,) = dialect.parse_into(exp.Condition, self.text)
            if tree is None:
                self.refuse(ALLOWED)
            return self.convert(tree)
        except ParseError as error:
            near = str(error.errors[0].get("highlight") or "") if error.errors else ""
            hint = "; a column of that name stands in double quotes" if near.isidentifier() else ""
            self.refuse(f"it cannot be read near '{near}'{hint}" if near else "it cannot be read")
        except SqlglotError:
            self.refuse("a quotation mark is not closed, or a sign is unknown")
        except RecursionError:
            self.refuse("it is nested too deeply")

    def check_tokens(self, tokens: list[Token]) -> None:
        """Refuse nesting, comments and several statements before anything is parsed."""
        if not tokens:
            self.refuse("it is empty")
        opened: list[int] = []
        run = 0
        for token in tokens:
            if token.comments:
                self.refuse("a comment has no place in it")
            if token.token_type is TokenType.SEMICOLON:
                self.refuse("it is one condition, without a semicolon")
            if token.token_type in OPENING:
                opened.append(run + 1)
            elif token.token_type in CLOSING and opened:
                opened.pop()
            run = run + 1 if token.token_type in PREFIXES else 0
            if sum(opened) + run > DEEPEST:
                self.refuse(f"it is nested more than {DEEPEST} deep")

    def convert(self, node: Any) -> Condition:
        """A condition."""
        node = bare(node)
        kind = type(node)
        if kind in (exp.And, exp.Or):
            parts = tuple(self.convert(part) for part in self.operands(node, kind))
            return And(parts) if kind is exp.And else Or(parts)
        if kind is exp.Not:
            return Not(self.convert(self.argument(node, "this")))
        if kind in OPERATORS:
            return self.comparison(node, OPERATORS[kind])
        if kind is exp.In:
            return self.one_of(node)
        if kind is exp.Between:
            return self.between(node)
        if kind in (exp.Like, exp.ILike):
            self.only(node, "this", "expression", "negate")
            like = self.like(node, kind is exp.ILike)
            return Not(like) if node.args.get("negate") else like
        if kind is exp.Is and isinstance(node.args.get("expression"), exp.Null):
            self.only(node, "this", "expression", "negate")
            null = IsNull(self.column(node.this))
            return Not(null) if node.args.get("negate") else null
        return self.refuse(ALLOWED)

    def operands(self, node: Any, kind: type[exp.Expression]) -> Iterator[Any]:
        """What a chain of ANDs, or of ORs, combines, from left to right and without recursion."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if type(part) is kind:
                self.only(part, "this", "expression")
                waiting += [part.args.get("expression"), part.args.get("this")]
            else:
                yield part

    def comparison(self, node: Any, operator: Operator) -> Condition:
        """``column < value`` or ``value < column``."""
        self.only(node, "this", "expression")
        left, right = bare(node.args.get("this")), bare(node.args.get("expression"))
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, operator = right, left, FLIPPED.get(operator, operator)
        if isinstance(right, exp.Column):
            self.refuse("a column is compared with a number or a text in single quotes")
        return Comparison(self.column(left), operator, self.value(right))

    def one_of(self, node: Any) -> Condition:
        """``column IN (1, 'x')``; texts are compared as texts and numbers as numbers."""
        self.only(node, "this", "expressions")
        column = self.column(node.this)
        values = [self.value(bare(one)) for one in node.args.get("expressions") or ()]
        texts = tuple(value for value in values if isinstance(value, str))
        others = tuple(value for value in values if not isinstance(value, str))
        if texts and others:
            return Or((OneOf(column, texts), OneOf(column, others)))
        return OneOf(column, texts or others) if values else self.refuse("IN needs values")

    def between(self, node: Any) -> Condition:
        """``column BETWEEN low AND high``, both included."""
        self.only(node, "this", "low", "high")
        column = self.column(node.this)
        low, high = (self.value(bare(node.args.get(end))) for end in ("low", "high"))
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))

    def like(self, node: Any, any_case: bool) -> Condition:
        """``column LIKE 'pattern'``."""
        pattern = self.value(bare(node.args.get("expression")))
        if not isinstance(pattern, str):
            self.refuse("LIKE needs a text in single quotes")
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            self.refuse("a pattern must not end with a single backslash")
        return Like(self.column(node.this), pattern, any_case)

    def column(self, node: Any) -> str:
        """The name of a column."""
        node = bare(node)
        if not isinstance(node, exp.Column):
            self.refuse(ALLOWED)
        self.only(node, "this")
        if not isinstance(node.this, exp.Identifier):
            self.refuse(ALLOWED)
        self.only(node.this, "this", "quoted")
        return str(node.this.this)

    def value(self, node: Any) -> Value:
        """A text or a number."""
        negative = type(node) is exp.Neg
        if negative:
            self.only(node, "this")
            node = bare(node.this)
        if type(node) is exp.Null:
            self.refuse("nothing equals NULL; write 'column IS NULL'")
        if type(node) is not exp.Literal or (negative and node.is_string):
            self.refuse(ALLOWED)
        self.only(node, "this", "is_string")
        if node.is_string:
            return str(node.this)
        try:
            number = float(node.this)
        except ValueError:
            self.refuse(f"'{node.this[:SHOWN]}' is not a number")
        if not math.isfinite(number):
            self.refuse("a number is too large")
        return -number if negative else number

    def argument(self, node: Any, name: str) -> Any:
        """The only argument of a node."""
        self.only(node, name)
        return node.args.get(name)

    def only(self, node: Any, *names: str) -> None:
        """Refuse a node that says more than is read from it."""
        if any(value for name, value in node.args.items() if name not in names):
            self.refuse(ALLOWED)


def bare(node: Any) -> Any:
    """What stands in parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node
