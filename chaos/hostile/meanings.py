"""Filters with a known meaning: each a text, and what it says of a row, in plain Python."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

__all__ = ["Row", "meant"]


@dataclass(frozen=True)
class Row:
    """What is known of a picture."""

    path: str
    label: str | None
    price: str


Meaning: TypeAlias = Callable[[Row], bool | None]
"""Whether a filter holds for a row; None: unknown, as in SQL."""

SIGNS = {
    "=": operator.eq, "<>": operator.ne, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NUMBERS = ("0", "3", "2.5", "-1.5", "7", "1e1", "-0.0")
TEXTS = ("a_b", "é", "0", "3", "3.png", "", "50%", "\\", "'; drop table items; --", "Z")
PATTERNS = ("%", "_.png", "%a%", "a\\_b", "A\\_b", "50\\%", "É%", "", "%\\\\", "%script%", "_")
COLUMNS = ("path", "label", "price")


def meant(random: Random, depth: int = 3) -> tuple[str, Meaning]:
    """A random filter."""
    draw = random.random()
    if depth == 0 or draw < 0.4:
        return random.choice((compared, one_of, between, like, null))(random)
    text, meaning = meant(random, depth - 1)
    if draw < 0.55:
        return f"not ({text})", lambda row: opposite(meaning(row))
    other, second = meant(random, depth - 1)
    if draw < 0.78:
        return f"({text}) and ({other})", lambda row: both(meaning(row), second(row))
    return f"({text}) OR ({other})", lambda row: either(meaning(row), second(row))


def opposite(one: bool | None) -> bool | None:
    """NOT."""
    return None if one is None else not one


def both(one: bool | None, other: bool | None) -> bool | None:
    """AND."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    """OR."""
    return opposite(both(opposite(one), opposite(other)))


def quoted(text: str) -> str:
    """A text as a filter has it."""
    return "'" + text.replace("'", "''") + "'"


def number_of(text: str | None) -> float | None:
    """The number that a value is, if it is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def value(random: Random) -> tuple[str, str | float]:
    """A number or a text, as a filter has it, and itself."""
    if random.random() < 0.5:
        number = random.choice(NUMBERS)
        return number, float(number)
    text = random.choice(TEXTS)
    return quoted(text), text


def comparison(column: str, sign: str, against: str | float) -> Meaning:
    """A column against a value: as texts, or as numbers."""

    def meaning(row: Row) -> bool | None:
        own = getattr(row, column)
        if not isinstance(against, str):
            own = number_of(own)
        return None if own is None else bool(SIGNS[sign](own, against))

    return meaning


def compared(random: Random) -> tuple[str, Meaning]:
    """``price < 3``."""
    column, sign = random.choice(COLUMNS), random.choice(sorted(SIGNS))
    text, against = value(random)
    return f"{column} {sign} {text}", comparison(column, sign, against)


def one_of(random: Random) -> tuple[str, Meaning]:
    """``label in ('a', 3)``: as a chain of OR."""
    column = random.choice(COLUMNS)
    values = [value(random) for _ in range(random.choice((1, 2, 3)))]

    def meaning(row: Row) -> bool | None:
        found: bool | None = False
        for _, against in values:
            found = either(found, comparison(column, "=", against)(row))
        return found

    return f"{column} in ({', '.join(text for text, _ in values)})", meaning


def between(random: Random) -> tuple[str, Meaning]:
    """``price between 1 and 2``."""
    column = random.choice(COLUMNS)
    (low_text, low), (high_text, high) = value(random), value(random)

    def meaning(row: Row) -> bool | None:
        return both(comparison(column, ">=", low)(row), comparison(column, "<=", high)(row))

    return f"{column} BETWEEN {low_text} AND {high_text}", meaning


def like(random: Random) -> tuple[str, Meaning]:
    """``label like '%a'``."""
    column, pattern = random.choice(COLUMNS), random.choice(PATTERNS)
    any_case = random.random() < 0.5
    signs = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern)
    expression = "".join(signs.get(part) or re.escape(part[-1]) for part in parts)
    rule = re.compile(expression, re.DOTALL | (re.IGNORECASE if any_case else 0))

    def meaning(row: Row) -> bool | None:
        own = getattr(row, column)
        return None if own is None else rule.fullmatch(own) is not None

    return f"{column} {'ilike' if any_case else 'like'} {quoted(pattern)}", meaning


def null(random: Random) -> tuple[str, Meaning]:
    """``price is null``."""
    column, negated = random.choice(COLUMNS), random.random() < 0.5
    text = f"{column} is {'not ' if negated else ''}null"
    return text, lambda row: (getattr(row, column) is None) != negated
