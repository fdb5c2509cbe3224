"""The connections of this process to one database: a pool that its threads share.

A connection that breaks is replaced. Work whose connection broke is done once more, so that a
server that restarts costs a request a moment and not an answer.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, LiteralString, TypeVar

import psycopg
from pgvector.psycopg import register_vector
from psycopg.errors import AdminShutdown, CrashShutdown
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composable, Composed, Identifier
from psycopg_pool import ConnectionPool

from lookalike.errors import BadInput, LookalikeError, masked

T = TypeVar("T")

CONNECTIONS = 8
"""At most, for each process and database."""
PATIENCE = 10.0
"""Seconds to wait for a connection."""
SETTINGS: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    # a statement is planned under the settings of its own search, and servers such as pgbouncer
    # know no prepared statements
    "prepare_threshold": None,
}

# what goes wrong is said in an exception
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class ConnectionLostError(Exception):
    """The connection broke while it was used."""


@dataclass(frozen=True)
class Statements:
    """Runs SQL statements in which ``{schema}`` is the schema of one index."""

    cursor: psycopg.Cursor[Any]
    schema: str

    def __call__(
        self, text: LiteralString, values: Any = None, **parts: Composable
    ) -> psycopg.Cursor[Any]:
        """One statement with its values, and with other parts in braces."""
        return self.cursor.execute(self.compose(text, **parts), values)

    def compose(self, text: LiteralString, **parts: Composable) -> Composed:
        """A statement with its parts; no text of a user is among them."""
        return SQL(text).format(schema=Identifier(self.schema), **parts)

    @contextmanager
    def stream(
        self, text: LiteralString, values: Any = None, **parts: Composable
    ) -> Iterator[psycopg.ServerCursor[Any]]:
        """The rows of a statement, fetched as they are read."""
        with self.cursor.connection.cursor("stream", binary=True) as cursor:
            cursor.itersize = 5_000
            cursor.execute(self.compose(text, **parts), values)
            yield cursor


class Database:
    """A database, open in this process."""

    _open: ClassVar["weakref.WeakValueDictionary[tuple[int, str], Database]"] = (
        weakref.WeakValueDictionary()
    )
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, url: str) -> None:
        self.url = url
        self.pool = ConnectionPool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=PATIENCE,
            configure=know_vectors,
            kwargs=SETTINGS,
            open=False,
        )
        self.pool.open()
        weakref.finalize(self, self.pool.close)

    @classmethod
    def at(cls, url: str) -> "Database":
        """The database at an address; all indexes of a process share its connections."""
        with cls._guard:
            found = cls._open.get((os.getpid(), url))
            if found is None:
                found = cls._open[os.getpid(), url] = cls(url)
            return found

    def run(self, schema: str, work: Callable[[Statements], T]) -> T:
        """Do work in one transaction: all of it or nothing.

        Args:
            schema: The schema of an index.
            work: What to do; where the connection breaks, it is done again on another one.

        Raises:
            LookalikeError: The server does not answer, or refuses a statement.
        """
        try:
            for _ in range(CONNECTIONS):  # as long as the pool may hand out broken ones
                with suppress(ConnectionLostError), self.pool.connection() as connection:
                    return once(connection, schema, work)
            with self.pool.connection() as connection:
                return once(connection, schema, work)
        except ConnectionLostError as error:
            raise self._silent(first_line(error)) from error
        except psycopg.OperationalError as error:
            raise self._silent(self._reason(error)) from error
        except psycopg.Error as error:
            raise LookalikeError(f"PostgreSQL reports an error: {first_line(error)}") from error

    def _silent(self, why: str) -> LookalikeError:
        return LookalikeError(f"PostgreSQL at '{self.url}' does not answer: {why}")

    def _reason(self, error: psycopg.OperationalError) -> str:
        """Why there is no connection; a pool only says that it has waited."""
        try:
            psycopg.connect(self.url, **SETTINGS).close()
        except psycopg.Error as cause:
            return first_line(cause)
        return first_line(error)


def once(connection: psycopg.Connection[Any], schema: str, work: Callable[[Statements], T]) -> T:
    """Do work in one transaction of a connection."""
    try:
        with connection.transaction(), connection.cursor() as cursor:
            return work(Statements(cursor, schema))
    except psycopg.Error as error:
        if is_lost(connection, error):
            raise ConnectionLostError(first_line(error)) from error
        raise


def is_lost(connection: psycopg.Connection[Any], error: psycopg.Error) -> bool:
    """Whether the connection broke; its socket may still look open for a moment."""
    reported = isinstance(error, (AdminShutdown, CrashShutdown))
    lost = (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)
    return reported or connection.closed or connection.info.transaction_status in lost


@contextmanager
def connected(url: str, schema: str) -> Iterator[Statements]:
    """A connection of its own, whose statements are not in a transaction unless they begin one."""
    try:
        connection = psycopg.connect(url, **SETTINGS)
    except psycopg.Error as error:
        raise BadInput(f"cannot open '{url}': {first_line(error)}") from error
    try:
        with connection:
            know_vectors(connection)
            with connection.cursor() as cursor:
                yield Statements(cursor, schema)
    except psycopg.OperationalError as error:
        raise LookalikeError(
            f"PostgreSQL at '{url}' does not answer: {first_line(error)}"
        ) from error
    except psycopg.Error as error:
        raise LookalikeError(f"PostgreSQL reports an error: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error message."""
    return masked(str(error)).partition("\n")[0].strip()


def know_vectors(connection: psycopg.Connection[Any]) -> None:
    """Register pgvector's types where the server has them."""
    if connection.execute("SELECT to_regtype('vector')").fetchone() != (None,):
        register_vector(connection)
