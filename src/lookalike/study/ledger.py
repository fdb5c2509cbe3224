"""Claims and records of tasks: one table in a database that all drivers share.

A task has a key. A driver claims it with a lease, renews the lease while it works (a heartbeat),
and writes the record when the task is finished. An expired lease may be claimed by another driver,
and the record of a driver that has lost its claim is rejected. So nothing is lost when a driver is
killed, and nothing is written twice.

A database that restarts or does not answer is tried again for minutes. A lease has ended when the
clock says so (the database's, where several machines share it), and also when it was not renewed
for its duration by this process's own monotonic clock: so a clock that was set back delays nothing.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import sqlalchemy as sql
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)

from lookalike.addresses import is_postgres, parse_address
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import CHECKSUM, checksum, locked, parse_json, refuse_journal
from lookalike.progress import Watcher, duration

Made = TypeVar("Made")

LEASE_SECONDS = 30.0
RETRY_SECONDS = 600.0
"""How long a database that does not answer is tried again."""
LONGEST_PAUSE = 5.0
READ_ONLY = "25006"
"""PostgreSQL's code of a server that has not taken over yet."""
EXCLUSIVE = "SELECT pg_advisory_xact_lock(hashtext('lookalike study'))"
NETWORK = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""So that the loss of PostgreSQL's machine is noticed, whose connections just fall silent."""
TABLE = sql.Table(
    "lookalike_work",
    sql.MetaData(),
    sql.Column("key", sql.String(200), primary_key=True),
    sql.Column("owner", sql.String(200)),
    sql.Column("until", sql.Float(53), nullable=False),
    sql.Column("record", sql.Text),
    sql.Column("written", sql.Float(53)),
)


class Ledger:
    """The claims of one driver, and the records of all drivers, in one database.

    Args:
        url: Its address.
        lease: The seconds after which the claims of a dead driver are void.
        patience: For how many seconds a database that does not answer is tried again.
        watcher: Is told when that happens.
    """

    def __init__(
        self,
        url: str,
        lease: float = LEASE_SECONDS,
        patience: float = RETRY_SECONDS,
        watcher: Watcher | None = None,
    ) -> None:
        self.url = url
        self.lease = lease
        self.patience = patience
        self.watcher = watcher or Watcher()
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.owner = f"{name}:{lease:g}"
        self.mine: set[str] = set()
        self.seen: dict[str, tuple[str, float, float]] = {}
        """The claims of others: owner, end of the lease, and since when both are the same."""
        self.guard = threading.Lock()
        self.closing = threading.Event()
        self.engine = engine_of(url)
        self.heartbeat = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._check_file()
            TABLE.metadata.create_all(self.engine)
        except (IntegrityError, ProgrammingError):  # another driver created it at the same moment
            TABLE.metadata.create_all(self.engine)
        except OperationalError as error:
            if "already exists" not in str(error):  # as SQLite says that another driver created it
                reason = reason_of(error)
                raise BadInput(f"cannot open the storage '{self.url}': {reason}") from None
        except DatabaseError as error:
            raise self._damaged(reason_of(error)) from error
        except UnicodeDecodeError as error:  # SQLite's message has damaged text in it
            raise self._damaged("it is malformed") from error
        self.heartbeat.start()
        return self

    def _check_file(self) -> None:
        """Refuse a file whose pages or indexes are damaged; its records have checksums."""
        if self.engine.dialect.name == "sqlite":
            refuse_journal(Path(f"{self.engine.url.database}-journal"))
            with self.engine.connect() as connection:
                found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
            if found != "ok":
                raise self._damaged(str(found).strip().partition("\n")[0])

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.heartbeat.join(LONGEST_PAUSE)
        with suppress(DBAPIError):  # the leases end by themselves
            self._release(set(self.mine))
        self.engine.dispose()

    def patiently(self, work: Callable[[], Made]) -> Made:
        """The result of ``work``, tried again with growing pauses while the database is away.

        Raises:
            LookalikeError: It was away for too long, or it is damaged or full.
        """
        until = time.monotonic() + self.patience
        pause = 0.1
        while True:
            try:
                return work()
            except IntegrityError:
                raise
            except DBAPIError as error:
                if not self._may_pass(error):
                    raise self._damaged(reason_of(error)) from error
                if time.monotonic() > until:
                    raise LookalikeError(
                        f"the storage '{self.url}' has not answered for "
                        f"{duration(self.patience)}: {reason_of(error)}; the same command goes on"
                    ) from error
                if pause > 1:
                    self.watcher.note(f"the storage does not answer ({reason_of(error)}): trying")
            except UnicodeDecodeError as error:
                raise self._damaged("it is malformed") from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def claim(self, key: str) -> bool:
        """Claim a task that is not finished and that no other driver has claimed."""
        return self.patiently(lambda: self._claim(key))

    def _claim(self, key: str) -> bool:
        now = self._now()
        ours = {"owner": self.owner, "until": now + self.lease}
        free = sql.or_(TABLE.c.until < now, TABLE.c.owner == self.owner)
        with self.engine.begin() as connection:
            taken = connection.execute(
                sql.update(TABLE)
                .where(TABLE.c.key == key, TABLE.c.record.is_(None), free)
                .values(**ours)
            )
        if taken.rowcount:
            return self._have(key)
        try:
            with self.engine.begin() as connection:
                connection.execute(sql.insert(TABLE).values(key=key, **ours))
        except IntegrityError:  # another driver has it, or it is done
            return self._take_over(key, ours)
        return self._have(key)

    def _take_over(self, key: str, ours: Mapping[str, Any]) -> bool:
        """Take a claim that was not renewed for its duration, whatever the clocks say."""
        found = sql.select(TABLE.c.owner, TABLE.c.until).where(
            TABLE.c.key == key, TABLE.c.record.is_(None)
        )
        with self.engine.begin() as connection:
            row = connection.execute(found).first()
            if row is None:
                return False
            owner, until, since = self.seen.get(key, ("", 0.0, 0.0))
            if (owner, until) != (row.owner, row.until):
                self.seen[key] = (row.owner, row.until, time.monotonic())
                return False
            if time.monotonic() - since <= self._lease_of(owner):
                return False
            taken = connection.execute(
                sql.update(TABLE)
                .where(
                    TABLE.c.key == key,
                    TABLE.c.record.is_(None),
                    TABLE.c.owner == owner,
                    TABLE.c.until == until,
                )
                .values(**ours)
            )
        return bool(taken.rowcount) and self._have(key)

    def _lease_of(self, owner: str) -> float:
        """The duration of another driver's leases, which is the end of its name."""
        try:
            return float(owner.split(":")[3])
        except (IndexError, ValueError):  # of an older version
            return max(self.lease, LEASE_SECONDS)

    def finish(self, key: str, record: Mapping[str, Any]) -> bool:
        """Write the record of a claimed task; False if the claim was lost."""
        with self.guard:
            self.mine.discard(key)
        text = sealed(record)

        same = (TABLE.c.key == key, TABLE.c.owner == self.owner)
        change = (
            sql.update(TABLE)
            .where(*same, TABLE.c.record.is_(None))
            .values(record=text, written=self._now())
        )

        def write() -> bool:
            with self.engine.begin() as connection:
                if connection.execute(change).rowcount:
                    return True
                # it may have been written before a connection was lost
                found = sql.select(TABLE.c.record).where(*same)
                return bool(connection.execute(found).scalar() == text)

        return self.patiently(write)

    def done(self, key: str) -> bool:
        """Whether a task has a record."""
        found = sql.select(TABLE.c.key).where(TABLE.c.key == key, TABLE.c.record.is_not(None))

        def read() -> bool:
            with self.engine.connect() as connection:
                return connection.execute(found).first() is not None

        return self.patiently(read)

    def release(self, keys: Iterable[str]) -> None:
        """Release claimed tasks that were not finished."""
        given = set(keys)
        self.patiently(lambda: self._release(given))

    def _release(self, keys: set[str]) -> None:
        with self.guard:
            self.mine -= keys
        if keys:
            with self.engine.begin() as connection:
                connection.execute(self._ours(keys).values(until=0.0))

    def forget(self, prefix: str) -> None:
        """Remove all claims and records whose key begins with ``prefix``."""

        def remove() -> None:
            with self.engine.begin() as connection:
                connection.execute(
                    sql.delete(TABLE).where(TABLE.c.key.startswith(prefix, autoescape=True))
                )

        self.patiently(remove)

    def add(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Insert records that were read from files; existing rows are kept."""

        def insert(key: str, record: Mapping[str, Any]) -> None:
            row = {"key": key, "record": sealed(record), "until": 0.0, "owner": self.owner}
            known = sql.select(TABLE.c.key).where(TABLE.c.key == key)
            with self.engine.begin() as connection:
                if connection.execute(known).first() is None:
                    connection.execute(sql.insert(TABLE).values(written=self._now(), **row))

        for key, record in records.items():
            with suppress(IntegrityError):  # another driver added it at the same moment
                self.patiently(lambda key=key, record=record: insert(key, record))  # type: ignore[misc]

    def records(
        self, prefixes: Collection[str], since: float | None = None
    ) -> tuple[dict[str, dict[str, Any]], float]:
        """Records whose key begins with one of ``prefixes``, and the value of the next ``since``.

        Args:
            prefixes: The beginnings of keys.
            since: Only those written after it, or up to one lease before it; None: all.

        Raises:
            LookalikeError: A record is not as it was written.
        """
        beginnings = [TABLE.c.key.startswith(prefix, autoescape=True) for prefix in prefixes]
        wanted = [sql.or_(*beginnings), TABLE.c.record.is_not(None)]
        if since is not None:
            wanted.append(TABLE.c.written > since - self.lease)

        def read() -> Any:
            with self.engine.connect() as connection:
                return connection.execute(
                    sql.select(TABLE.c.key, TABLE.c.record, TABLE.c.written).where(*wanted)
                ).all()

        rows = self.patiently(read)
        newest = max((row.written or 0.0 for row in rows), default=since or 0.0)
        return {row.key: self._opened(row.key, row.record) for row in rows}, newest

    def _opened(self, key: str, text: str) -> dict[str, Any]:
        """A record, compared with its checksum."""
        try:
            record = parse_json(text)
            named = record.pop(CHECKSUM, None)
        except (ValueError, AttributeError, TypeError) as error:
            raise self._damaged(f"the record of {key}") from error
        if named != checksum(json.dumps(record)):
            raise self._damaged(f"the record of {key}")
        return dict(record)

    def _damaged(self, what: str) -> LookalikeError:
        remedy = "restore it from a backup"
        if self.engine.dialect.name == "sqlite":
            remedy = (
                "free space on its disk if that is full; if not, remove the file and run the same "
                "command, which keeps the rows that are stored beside it"
            )
        return LookalikeError(f"the storage '{self.url}' cannot be used: {what}; {remedy}")

    def _may_pass(self, error: DBAPIError) -> bool:
        """Whether the same may work later: the server restarts, or another one takes over."""
        if self.engine.dialect.name == "sqlite":
            return "locked" in str(error.orig)
        gone = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return gone or getattr(error.orig, "sqlstate", None) == READ_ONLY

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one driver of the study work at a time."""
        if self.engine.dialect.name == "sqlite":
            with locked(Path(f"{self.engine.url.database}.lock")):
                yield
        else:
            with self.engine.begin() as connection:
                connection.execute(sql.text(EXCLUSIVE))
                yield

    def _have(self, key: str) -> bool:
        with self.guard:
            self.mine.add(key)
        self.seen.pop(key, None)
        return True

    def _ours(self, keys: Collection[str]) -> sql.Update:
        return sql.update(TABLE).where(
            TABLE.c.key.in_(keys), TABLE.c.owner == self.owner, TABLE.c.record.is_(None)
        )

    def _renew(self) -> None:
        while not self.closing.wait(self.lease / 4):
            with self.guard:
                held = set(self.mine)
            if held:
                with suppress(DBAPIError), self.engine.begin() as connection:  # or at the next beat
                    connection.execute(self._ours(held).values(until=self._now() + self.lease))

    def _now(self) -> sql.ColumnElement[float]:
        """The time; the database's clock where drivers may run on several machines."""
        if self.engine.dialect.name == "sqlite":
            return sql.literal(time.time())
        return sql.cast(sql.extract("epoch", sql.func.clock_timestamp()), sql.Float(53))


def sealed(record: Mapping[str, Any]) -> str:
    """A record as text, with its checksum."""
    plain = json.loads(json.dumps(record))
    return json.dumps(plain | {CHECKSUM: checksum(json.dumps(plain))})


def reason_of(error: DBAPIError) -> str:
    """What the database said, in one line."""
    return str(error.orig).strip().partition("\n")[0]


def engine_of(url: str) -> sql.Engine:
    """The database at an address."""
    try:
        address = sql.make_url(parse_address(url).url if is_postgres(url) else url)
        if address.drivername == "postgresql":
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() == "sqlite":
            return sql.create_engine(address, connect_args={"timeout": 60})
        network = NETWORK if address.get_backend_name() == "postgresql" else {}
        return sql.create_engine(address, pool_pre_ping=True, connect_args=network)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"the storage '{url}' is invalid: {error}; give sqlite:///FILE or postgresql://..."
        ) from None
