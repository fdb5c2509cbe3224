"""Filters evaluated row by row in plain Python, with None for unknown."""

import re

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


class RowTruth:
    """What conditions mean for one picture: True, False or None."""

    def __init__(self, row):
        self.row = row

    def compare(self, column, operator, value):
        text = self.row.get(column)
        if text is not None and not isinstance(value, str):
            text = as_number(text)
        return None if text is None else compare(text, operator, value)

    def one_of(self, column, values):
        same = [self.compare(column, "=", value) for value in values]
        return None if None in same else True in same

    def like(self, column, pattern, any_case):
        text = self.row.get(column)
        fold = lower if any_case else str
        return None if text is None else like(fold(text), fold(pattern))

    def is_null(self, column):
        return self.row.get(column) is None

    def negate(self, part):
        return None if part is None else not part

    def combine(self, word, parts):
        settles = word == "or"
        return settles if settles in parts else None if None in parts else not settles
