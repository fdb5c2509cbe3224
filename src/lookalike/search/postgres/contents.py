"""What is stored in the tables of an index, read as it is needed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import numpy as np
from numpy.typing import NDArray
from psycopg.sql import Composable

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.bulk.listing import is_text
from lookalike.inference.encoder import Vectors
from lookalike.search.contents import Contents, State
from lookalike.search.filters import Filter
from lookalike.search.items import Hit, Record
from lookalike.search.postgres.database import Statements
from lookalike.search.postgres.nearest import Search
from lookalike.search.postgres.schema import FIELDS

T = TypeVar("T")

REMEMBERED = 1_000
"""Filters of which it is known whether they leave few pictures."""

IDS_OF = """
SELECT coalesce(item.id, -1) FROM
    unnest(%s::integer[], %s::text[]) WITH ORDINALITY AS given (root, path, number)
    LEFT JOIN {schema}.item USING (root, path) ORDER BY given.number
"""


class PostgresContents(Contents):
    """The pictures of an index in PostgreSQL.

    Every call answers from one state of the tables. What is fetched once and kept (ids, records,
    vectors) belongs to one state too: where another process has changed the index meanwhile, that
    is said, and ``Index.latest`` has the new state.

    Args:
        tables: Where they are, and how they are searched.
        place: What a message calls the index.
        row: The state as the server has it.
        state: The same as facts.
        ef_search: Of the graph; None: there is none.
    """

    def __init__(
        self,
        tables: Search,
        place: str,
        row: tuple[Any, ...],
        state: State,
        ef_search: int | None,
    ) -> None:
        self.tables, self.place = tables, place
        self.row, self.state, self.ef_search = row, state, ef_search
        self._few: dict[str, bool] = {}

    def search(
        self, queries: Vectors, k: int, where: Filter | None, exact: bool
    ) -> list[list[Hit]]:
        """The nearest pictures and what is stored about them."""
        ef_search = None if exact else self.ef_search
        matters = ef_search is not None or len(queries) > 1
        few = matters and where is not None and self._leaves_few(where)
        return self.tables.nearest(queries, k, where, None if few else ef_search, few)

    def _leaves_few(self, where: Filter) -> bool:
        """Whether a filter is better searched exactly; asked once for each state and filter."""
        known = self._few.get(where.text)
        if known is None:
            if len(self._few) >= REMEMBERED:
                self._few.clear()
            known = self._few[where.text] = self.tables.few(where)
        return known

    def root_at(self, number: int) -> Path | None:
        """The folder of a number, which another process may have added since."""
        found = super().root_at(number)
        if found is None and number >= 0:
            rows = self.all("SELECT path FROM {schema}.root WHERE number = %s", [number])
            found = Path(rows[0][0]) if rows else None
        return found

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The id of each picture; like the following, fetched on first use."""
        return self._ids("SELECT id FROM {schema}.item ORDER BY id", {})

    @cached_property
    def vectors(self) -> Vectors:
        """All vectors."""
        found = np.empty((len(self.ids), self.state.dim), np.float32)

        def fill(rows: Iterator[Any]) -> Vectors:
            for number, (vector,) in enumerate(rows):
                found[number] = vector.to_numpy()
            return found

        return self._aligned("embedding", fill)

    @cached_property
    def records(self) -> Sequence[Record]:
        """What is stored about each picture."""
        return self._aligned(FIELDS, lambda rows: [Record(*row) for row in rows])

    @cached_property
    def labels(self) -> Sequence[str | None]:
        """The label of each picture."""
        return self._aligned("label", lambda rows: [label for (label,) in rows])

    @cached_property
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""
        return sorted(row[0] for row in self.all("SELECT name FROM {schema}.metadata_column"))

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """How many pictures each label has."""
        statement = (
            "SELECT label, count(*) FROM {schema}.item WHERE label IS NOT NULL GROUP BY label"
        )
        return dict(sorted(self.all(statement)))

    def count(self, where: Filter) -> int:
        """How many pictures a filter leaves."""
        condition = self.tables.where(where)
        statement = "SELECT count(*) FROM {schema}.item WHERE {where}"
        found = self.all(statement, condition.values, where=condition.condition)
        return int(found[0][0])

    def ids_where(self, where: Filter) -> NDArray[np.int64]:
        """The ids of the pictures that a filter leaves, ascending."""
        condition = self.tables.where(where)
        statement: LiteralString = "SELECT id FROM {schema}.item WHERE {where} ORDER BY id"
        return self._ids(statement, condition.values, where=condition.condition)

    def _ids(
        self, statement: LiteralString, values: dict[str, Any], **parts: Composable
    ) -> NDArray[np.int64]:
        def work(run: Statements) -> NDArray[np.int64]:
            with run.stream(statement, values, **parts) as rows:
                return np.fromiter((row[0] for row in rows), np.int64)

        return self.tables.run(work)

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return [Record(*row) for row in self._chosen(FIELDS, ids)]

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures, float32 [n, dim]."""
        rows = [row[0].to_numpy() for row in self._chosen("embedding", ids)]
        return np.array(rows, np.float32).reshape(-1, self.state.dim)

    def ids_of(self, records: Sequence[Record]) -> NDArray[np.int64]:
        """The id of the picture with the same folder and path; -1: there is none."""
        keys = [[record.root for record in records], [record.path for record in records]]
        return np.array([row[0] for row in self.all(IDS_OF, keys)], np.int64)

    def has_label(self, label: str) -> bool:
        """Whether a picture has a label."""
        if not is_text(label):
            return False
        return bool(self.all("SELECT 1 FROM {schema}.item WHERE label = %s LIMIT 1", [label]))

    def _chosen(self, columns: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """The columns of some pictures; an unknown id is refused."""
        wanted = [int(id) for id in ids]
        statement = f"SELECT id, {columns} FROM {{schema}}.item WHERE id = ANY(%s::bigint[])"
        possible = [id for id in wanted if abs(id) < 2**63]
        found = {row[0]: row[1:] for row in self.all(statement, [possible])}
        for id in wanted:
            if id not in found:
                raise BadInput(f"there is no picture {id} in the index '{self.place}'")
        return [found[id] for id in wanted]

    def _aligned(self, columns: str, keep: Callable[[Iterator[Any]], T]) -> T:
        """What ``keep`` makes of the columns of every picture, streamed in the order of ``ids``."""
        ids = self.ids
        statement = f"SELECT id, {columns} FROM {{schema}}.item ORDER BY id"

        def in_order(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            for id, row in zip_longest(ids, rows, fillvalue=None):
                if id is None or row is None or row[0] != id:
                    raise LookalikeError(
                        f"another process has changed the index '{self.place}'; open it again"
                    )
                yield row[1:]

        def work(run: Statements) -> T:
            with run.stream(statement) as rows:
                return keep(in_order(rows))

        return self.tables.run(work)

    def all(self, statement: str, values: Any = None, **parts: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return self.tables.all(statement, values, **parts)
