"""What can go wrong, said in one sentence.

The command line turns these into one line on standard error and an exit code; a program that
uses the library can catch them.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BadInput",
    "LookalikeError",
    "LookalikeWarning",
    "Unsupported",
    "WriteFailed",
    "did_you_mean",
    "escaped",
    "masked",
]

LONGEST = 2_000
"""Characters of a message; of a longer one the middle is left out."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal may obey: all control characters but line ends and tabs, marks of direction; and
what no encoding can express."""
_SECRETS = (
    # one slash is left where an address was taken for a path
    (re.compile(r"(\b(?!https?:)[A-Za-z][\w+.-]*:/{1,2}[^\s:/?#@]*):\S*@"), r"\1@"),
    (re.compile(r"(\bhttps?://[^\s:/?#@]*):[^\s/?#@]*@"), r"\1@"),
    (re.compile(r"(?i)(password=)[^&\s#]+"), r"\1***"),
)


class LookalikeError(Exception):
    """The work failed (exit code 1); its text is one line, whatever names and values it repeats."""

    exit_code = 1

    def __str__(self) -> str:
        text = escaped(" ".join(masked(super().__str__()).split()))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 400]} ... {text[-300:]}"


class WriteFailed(LookalikeError):
    """A disk is full, read-only or broken: the same work succeeds when it is not."""


class BadInput(LookalikeError, ValueError):
    """What the user gave cannot be used (exit code 2); nothing has been written."""

    exit_code = 2


class Unsupported(BadInput, NotImplementedError):
    """Two things that do not go together."""


class LookalikeWarning(UserWarning):
    """Something is not as it should be, and the work continues."""


def masked(text: str) -> str:
    """``text`` with the passwords of the addresses in it left out, to be shown.

    Whatever stands before the last ``@`` of a word is taken for the password, as one that was not
    escaped may have any character.

    >>> masked("no postgresql://me:secret@host/db?password=secret&sslmode=off")
    'no postgresql://me@host/db?password=***&sslmode=off'
    """
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def escaped(text: str) -> str:
    r"""A text whose control characters are shown and not obeyed.

    >>> print(escaped("cat\x1b[2J\r"))
    cat\x1b[2J\r
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def did_you_mean(name: object, valid: Iterable[str]) -> str:
    """The end of a sentence that refuses ``name``: the nearest valid names, or all of a few.

    >>> did_you_mean("tripplet", ["triplet", "contrastive"])
    "did you mean 'triplet'?"
    """
    names = sorted(set(valid))
    close = get_close_matches(str(name)[:100], names, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return "there are none to choose from"
    return "choose one of: " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
