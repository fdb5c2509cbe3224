"""Addresses of databases: the one parser, and the one mask for all that is shown."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from lookalike.errors import BadInput, masked

__all__ = ["DEFAULT_SCHEMA", "DatabaseAddress", "is_postgres", "parse_address"]

DEFAULT_SCHEMA = "lookalike"
LONGEST = 63
HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s\[\]:,/?#@'\"]*)(?::\d{0,5})?"
ADDRESS = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://"
    r"(?:[^\s:/?#@'\"]*(?::[^\s/?#@'\"]*)?@)?"
    rf"{HOST}(?:,{HOST})*(?:/[^\s?#@'\"]*)?(?:\?[^\s#@'\"]*)?"
)
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class DatabaseAddress:
    """Where a database is, and the schema in it.

    As text it has no password, so that no sentence, page or log has one.

    Args:
        url: The whole address, for the driver only.
        schema: The name after ``#``.

    >>> str(parse_address("postgresql://me:secret@host/shop#my%20photos"))
    'postgresql://me@host/shop#my%20photos'
    """

    url: str = field(repr=False)
    schema: str
    shown: str

    def __str__(self) -> str:
        return self.shown


def is_postgres(place: object) -> bool:
    """Whether a place is the address of a PostgreSQL server.

    >>> is_postgres("postgresql://host/shop"), is_postgres("shop.index")
    (True, False)
    """
    return isinstance(place, DatabaseAddress) or (
        re.match(r"postgres(ql)?(\+\w+)?://", str(place)) is not None
    )


def parse_address(text: str) -> DatabaseAddress:
    """Read ``postgresql://user:password@host/database?options#schema``.

    Args:
        text: The address. What has a meaning in it is written as %XX in names and passwords:
            otherwise parts of a password would be taken for a host, and shown.

    Returns:
        The address.

    Raises:
        BadInput: It cannot be read; the sentence does not repeat it.
    """
    url, _, name = text.partition("#")
    words = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    if not ADDRESS.fullmatch(url) or BAD_ESCAPE.search(url) or not all(map(str.islower, words)):
        raise BadInput(
            "the address of the database cannot be read (it is not repeated here, as it may have a "
            "password): postgresql://USER:PASSWORD@HOST:PORT/DATABASE#NAME, with / ? # @ % and "
            "spaces in a name or password written as %2F %3F %23 %40 %25 %20"
        )
    schema = unquote(name) or DEFAULT_SCHEMA
    if len(schema.encode(errors="replace")) > LONGEST:
        raise BadInput(f"the name '{schema}' has more than the {LONGEST} bytes of PostgreSQL")
    return DatabaseAddress(url, schema, masked(text))
