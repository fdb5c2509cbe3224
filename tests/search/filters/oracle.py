"""Filters evaluated row by row in plain Python, with None for unknown."""

import re

from lookalike.search.filters import conditions as c

IS_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?", re.A)


def as_number(text):
    is_one = len(text) <= 100 and IS_NUMBER.fullmatch(text.strip(" "))
    return float(text) if is_one else None


def lower(text):
    """Character by character, as Unicode's simple mapping."""
    return "".join(
        one.lower() if len(one.lower()) == 1 else {"İ": "i"}.get(one, one) for one in text
    )


def compare(left, operator, right):
    return {
        "=": left == right, "<>": left != right, "<": left < right,
        "<=": left <= right, ">": left > right, ">=": left >= right,
    }[operator]  # fmt: skip


def like(text, pattern):
    """Whether a text matches, sign by sign."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    if pattern[0] == "\\":
        pattern = pattern[1:]
    elif pattern[0] == "_":
        return bool(text) and like(text[1:], pattern[1:])
    return bool(text) and text[0] == pattern[0] and like(text[1:], pattern[1:])


def truth(condition, row):
    """True, False or None."""
    match condition:
        case c.And(parts):
            known = [truth(part, row) for part in parts]
            return False if False in known else None if None in known else True
        case c.Or(parts):
            known = [truth(part, row) for part in parts]
            return True if True in known else None if None in known else False
        case c.Not(part):
            known = truth(part, row)
            return None if known is None else not known
        case c.IsNull(column):
            return row.get(column) is None
        case c.OneOf(column, values):
            same = [truth(c.Comparison(column, "=", value), row) for value in values]
            return None if None in same else True in same
        case c.Like(column, pattern, any_case):
            text = row.get(column)
            fold = lower if any_case else str
            return None if text is None else like(fold(text), fold(pattern))
        case c.Comparison(column, operator, value):
            text = row.get(column)
            if text is not None and not isinstance(value, str):
                text = as_number(text)
            return None if text is None else compare(text, operator, value)
