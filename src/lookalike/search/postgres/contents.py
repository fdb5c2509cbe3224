"""What is stored in the tables of an index, read as it is needed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput, LookalikeError
from lookalike.inference.bulk.listing import is_text
from lookalike.inference.embedder import Embedder
from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.search.index import Index
from lookalike.search.items import Record
from lookalike.search.postgres.conditions import Where
from lookalike.search.postgres.database import Database, Statements
from lookalike.search.postgres.nearest import Search
from lookalike.search.postgres.schema import FIELDS

T = TypeVar("T")

CACHED = ("ids", "vectors", "records", "columns", "_label_counts", "label_names", "label_codes")
"""What is fetched once for each state."""
IDS_OF = """
SELECT coalesce(item.id, -1) FROM
    unnest(%s::integer[], %s::text[]) WITH ORDINALITY AS given (root, path, number)
    LEFT JOIN {schema}.item USING (root, path) ORDER BY given.number
"""


class Contents(Index):
    """The pictures of an index in PostgreSQL.

    Every call answers from one state of the tables. What is fetched once and kept (ids, records,
    vectors) belongs to one state too: where another process has changed the index meanwhile, that
    is said, and :meth:`latest` has the new state.
    """

    schema: str
    database: Database
    _search: Search
    _count: int

    @cached_property
    def embedder(self) -> Embedder:  # type: ignore[override]
        """The model, fetched when it is needed."""
        self.refuse_without_model()
        ((settings, weights),) = self._all("SELECT settings, weights FROM {schema}.model")
        return Embedder.unpack(settings, weights, self.place)

    @cached_property
    def ids(self) -> NDArray[np.int64]:  # type: ignore[override]
        """The id of each picture; like the following, fetched on first use."""
        return self.ids_where(None)

    @cached_property
    def vectors(self) -> Vectors:  # type: ignore[override]
        """All vectors."""
        found = np.empty((len(self.ids), self.dim), np.float32)

        def fill(rows: Iterator[Any]) -> Vectors:
            for number, (vector,) in enumerate(rows):
                found[number] = vector.to_numpy()
            return found

        return self._aligned("embedding", fill)

    @cached_property
    def records(self) -> Sequence[Record]:  # type: ignore[override]
        """What is stored about each picture."""
        return self._aligned(FIELDS, lambda rows: [Record(*row) for row in rows])

    @cached_property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """Every label, sorted."""
        return sorted(self.label_counts())

    @cached_property
    def label_codes(self) -> NDArray[np.int32]:  # type: ignore[override]
        """The position of each picture's label in ``label_names``."""
        number = {name: code for code, name in enumerate(self.label_names)}

        def codes(rows: Iterator[Any]) -> NDArray[np.int32]:
            return np.fromiter((number.get(label, -1) for (label,) in rows), np.int32)

        return self._aligned("label", codes)

    @cached_property
    def columns(self) -> list[str]:  # type: ignore[override]
        """The names of the metadata columns, sorted."""
        rows = self._all("SELECT name FROM {schema}.metadata_column")
        return sorted(row[0] for row in rows)

    def label_counts(self) -> dict[str, int]:
        """How many pictures each label has."""
        return dict(self._label_counts)

    @cached_property
    def _label_counts(self) -> dict[str, int]:
        statement = (
            "SELECT label, count(*) FROM {schema}.item WHERE label IS NOT NULL GROUP BY label"
        )
        return dict(sorted(self._all(statement)))

    def __len__(self) -> int:
        return int(self._count)

    def count(self, where: Filter | None = None) -> int:
        """How many pictures a filter leaves."""
        if where is None:
            return int(self._count)
        condition = self._where(where)
        statement = "SELECT count(*) FROM {schema}.item WHERE {where}"
        found = self._all(statement, condition.values, where=condition.condition)
        return int(found[0][0])

    def ids_where(self, where: Filter | None) -> NDArray[np.int64]:
        """The ids of the pictures that a filter leaves, ascending."""
        condition = self._where(where)
        statement = "SELECT id FROM {schema}.item WHERE {where} ORDER BY id"

        def work(run: Statements) -> NDArray[np.int64]:
            with run.stream(statement, condition.values, where=condition.condition) as rows:
                return np.fromiter((row[0] for row in rows), np.int64)

        return self.database.run(self.schema, work)

    def _where(self, where: Filter | None) -> Where:
        """A filter in SQL; one with a column that no picture has is refused."""
        if where is not None:
            self.check_filter(where)
        return self._search.where(where)

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures."""
        return [Record(*row) for row in self._chosen(FIELDS, ids)]

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures, float32 [n, dim]."""
        rows = [row[0].to_numpy() for row in self._chosen("embedding", ids)]
        return np.array(rows, np.float32).reshape(-1, self.dim)

    def ids_of(self, records: Sequence[Record]) -> NDArray[np.int64]:
        """The id of the picture with the same folder and path; -1: there is none."""
        keys = [[record.root for record in records], [record.path for record in records]]
        return np.array([row[0] for row in self._all(IDS_OF, keys)], np.int64)

    def has_label(self, label: str) -> bool:
        """Whether a picture has a label."""
        if not is_text(label):
            return False
        return bool(self._all("SELECT 1 FROM {schema}.item WHERE label = %s LIMIT 1", [label]))

    def _chosen(self, columns: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """The columns of some pictures; an unknown id is refused."""
        wanted = [int(id) for id in ids]
        statement = f"SELECT id, {columns} FROM {{schema}}.item WHERE id = ANY(%s::bigint[])"
        possible = [id for id in wanted if abs(id) < 2**63]
        found = {row[0]: row[1:] for row in self._all(statement, [possible])}
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

        return self.database.run(self.schema, work)

    def _all(self, statement: str, values: Any = None, **parts: Any) -> list[tuple[Any, ...]]:
        return self.database.run(
            self.schema, lambda run: run(statement, values, **parts).fetchall()
        )
