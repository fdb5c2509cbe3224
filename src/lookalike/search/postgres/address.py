"""Where an index is: ``postgresql://user:password@host/database#name``."""

from urllib.parse import unquote, urlsplit

from lookalike.errors import BadInput

DEFAULT_NAME = "lookalike"
LONGEST = 63


def split(place: str) -> tuple[str, str]:
    """The address of the database, and the schema of the index.

    >>> split("postgresql://host/shop#my%20photos")
    ('postgresql://host/shop', 'my photos')
    """
    url, _, name = place.partition("#")
    schema = unquote(name) or DEFAULT_NAME
    if len(schema.encode(errors="replace")) > LONGEST:
        raise BadInput(f"the name '{schema}' has more than the {LONGEST} bytes of PostgreSQL")
    return url, schema


def without_password(place: str) -> str:
    """The address without its password, to be shown.

    >>> without_password("postgresql://me:secret@host/shop#photos")
    'postgresql://me@host/shop#photos'
    """
    parts = urlsplit(place)
    if parts.password is None:
        return place
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}@{host}").geturl()


def first_line(error: BaseException) -> str:
    """The first line of an error message."""
    return str(error).partition("\n")[0].strip()
