"""Claims and records of tasks: one table in a database that all drivers share.

A task has a key. A driver claims it with a lease, renews the lease while it works (a heartbeat),
and writes the record when the task is finished. An expired lease may be claimed by another driver,
and the record of a driver that has lost its claim is rejected. So nothing is lost when a driver is
killed, and nothing is written twice.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError

from lookalike.errors import BadInput

LEASE_SECONDS = 30.0
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
    """The claims of one driver, and the records of all drivers, in one database."""

    def __init__(self, url: str, lease: float = LEASE_SECONDS) -> None:
        self.url = url
        self.lease = lease
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.mine: set[str] = set()
        self.guard = threading.Lock()
        self.closing = threading.Event()
        self.engine = engine_of(url)
        self.heartbeat = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        try:
            TABLE.metadata.create_all(self.engine)
        except IntegrityError:  # another driver created it at the same moment
            TABLE.metadata.create_all(self.engine)
        except OperationalError as error:
            reason = str(error.orig).strip().partition("\n")[0]
            raise BadInput(f"cannot open the storage '{self.url}': {reason}") from None
        self.heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.heartbeat.join()
        self.release()
        self.engine.dispose()

    def claim(self, key: str) -> bool:
        """Claim a task that is not finished and that no other driver has claimed."""
        now = self._now()
        until = now + self.lease
        with self.engine.begin() as connection:
            taken = connection.execute(
                sql.update(TABLE)
                .where(TABLE.c.key == key, TABLE.c.record.is_(None), TABLE.c.until < now)
                .values(owner=self.owner, until=until)
            )
            if taken.rowcount:
                return self._have(key)
        try:
            with self.engine.begin() as connection:
                connection.execute(sql.insert(TABLE).values(key=key, owner=self.owner, until=until))
        except IntegrityError:  # another driver has it, or it is done
            return False
        return self._have(key)

    def finish(self, key: str, record: Mapping[str, Any]) -> bool:
        """Write the record of a claimed task; False if the claim was lost."""
        with self.guard:
            self.mine.discard(key)
        with self.engine.begin() as connection:
            written = connection.execute(
                sql.update(TABLE)
                .where(TABLE.c.key == key, TABLE.c.owner == self.owner, TABLE.c.record.is_(None))
                .values(record=json.dumps(record), written=self._now())
            )
        return bool(written.rowcount)

    def done(self, key: str) -> bool:
        """Whether a task has a record."""
        with self.engine.connect() as connection:
            found = sql.select(TABLE.c.key).where(TABLE.c.key == key, TABLE.c.record.is_not(None))
            return connection.execute(found).first() is not None

    def release(self, keys: Iterable[str] | None = None) -> None:
        """Release claimed tasks that were not finished; by default all of them."""
        with self.guard:
            given = set(self.mine if keys is None else keys)
            self.mine -= given
        if given:
            with self.engine.begin() as connection:
                connection.execute(self._ours(given).values(until=0.0))

    def forget(self, prefix: str) -> None:
        """Remove all claims and records whose key begins with ``prefix``."""
        with self.engine.begin() as connection:
            connection.execute(
                sql.delete(TABLE).where(TABLE.c.key.startswith(prefix, autoescape=True))
            )

    def add(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Insert records that were read from files; existing rows are kept."""
        for key, record in records.items():
            row = {"key": key, "record": json.dumps(record), "until": 0.0}
            known = sql.select(TABLE.c.key).where(TABLE.c.key == key)
            with self.engine.begin() as connection:
                if connection.execute(known).first() is None:
                    inserted = sql.insert(TABLE).values(
                        owner=self.owner, written=self._now(), **row
                    )
                    connection.execute(inserted)

    def records(
        self, prefixes: Collection[str], since: float = 0.0
    ) -> tuple[dict[str, dict[str, Any]], float]:
        """Records whose key begins with one of ``prefixes``, and the value of the next ``since``.

        Only those written after ``since``, or up to one lease before it.
        """
        beginnings = [TABLE.c.key.startswith(prefix, autoescape=True) for prefix in prefixes]
        with self.engine.connect() as connection:
            rows = connection.execute(
                sql.select(TABLE.c.key, TABLE.c.record, TABLE.c.written).where(
                    sql.or_(*beginnings), TABLE.c.written > since - self.lease
                )
            ).all()
        newest = max((row.written for row in rows), default=since)
        return {row.key: json.loads(row.record) for row in rows}, newest

    def _have(self, key: str) -> bool:
        with self.guard:
            self.mine.add(key)
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
                with self.engine.begin() as connection:
                    connection.execute(self._ours(held).values(until=self._now() + self.lease))

    def _now(self) -> sql.ColumnElement[float]:
        """The time; the database's clock where drivers may run on several machines."""
        if self.engine.dialect.name == "sqlite":
            return sql.literal(time.time())
        return sql.cast(sql.extract("epoch", sql.func.clock_timestamp()), sql.Float(53))


def engine_of(url: str) -> sql.Engine:
    """The database at an address."""
    try:
        address = sql.make_url(url)
        if address.drivername == "postgresql":
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() == "sqlite":
            return sql.create_engine(address, connect_args={"timeout": 60})
        return sql.create_engine(address, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise BadInput(
            f"the storage '{url}' is invalid: {error}; give sqlite:///FILE or postgresql://..."
        ) from None
