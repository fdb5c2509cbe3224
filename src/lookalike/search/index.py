"""A collection of pictures that can be searched by what they look like."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.addresses import DatabaseAddress, is_postgres
from lookalike.errors import BadInput, LookalikeError, did_you_mean
from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Encoder, Vectors
from lookalike.inference.pictures import Pictures, file_inside, is_text
from lookalike.inference.source import open_source
from lookalike.progress import Watcher
from lookalike.search.contents import Address, Contents, Store
from lookalike.search.filters import Filter
from lookalike.search.folder.store import FolderStore
from lookalike.search.items import Added, Column, Hit, Item, Precision, Record
from lookalike.search.vectors import NoDirectionError, unit_rows

if TYPE_CHECKING:
    from lookalike.search.postgres import PostgresStore

Place: TypeAlias = Path | Address


class Index:
    """Pictures with their vectors, and the model that made them.

    ``Index.create`` and ``Index.open`` take a folder, or ``postgresql://...#name``. Row ``i`` of
    ``ids``, ``paths``, ``labels``, ``metadata`` and ``vectors`` is one picture; ids stay the same
    as long as the picture does, rows do not. An object shows one state of the index until it
    changes that itself; :meth:`latest` gives the newest.

    Attributes:
        store: Where it is.
        contents: What it shows.
    """

    def __init__(self, store: Store[Any], contents: Contents) -> None:
        self.store = store
        self.contents = contents

    @staticmethod
    def create(
        place: Place,
        embedder: Embedder | None,
        source: Path | None = None,
        watcher: Watcher | None = None,
        *,
        dim: int | None = None,
        vectors: Precision = "float32",
    ) -> "Index":
        """Make a new index.

        Args:
            place: A folder, or ``postgresql://...#name``; it must not be in use.
            embedder: The model of the index; None: it will hold given vectors only.
            source: Pictures to add at once, see :meth:`add`.
            watcher: Is told the progress.
            dim: The size of the vectors, where there is no model.
            vectors: How exactly they are stored: "float32" or "float16".

        Returns:
            The index.
        """
        address = place if isinstance(place, DatabaseAddress) else str(place)
        store = store_class(place).create(address, embedder, vector_size(embedder, dim), vectors)
        index = Index(store, store.newest())
        if source is not None:
            index.add(source, watcher)
        return index

    @staticmethod
    def open(place: Place) -> "Index":
        """Open an index.

        Args:
            place: Its folder, or ``postgresql://...#name``.

        Returns:
            The index as it is now.

        Raises:
            BadInput: There is none, it is damaged, or it is of another version.
        """
        address = place if isinstance(place, DatabaseAddress) else str(place)
        store = store_class(place)(address)
        return Index(store, store.newest())

    @property
    def place(self) -> str:
        """Its folder, or its address without the password."""
        return self.store.place

    @property
    def address(self) -> Address:
        """What opens it in another process; it may have a password, which ``str`` leaves out."""
        return self.store.address

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model; empty where the index has none."""
        return self.contents.state.fingerprint

    @property
    def embedder(self) -> Embedder:
        """The model, loaded when it is needed."""
        self.refuse_without_model()
        return self.store.model(self.contents.state)

    @property
    def blueprint(self) -> Blueprint | None:
        """How its network is built, which is known without loading it; None: it has no model."""
        return self.store.blueprint() if self.fingerprint else None

    @property
    def dim(self) -> int:
        """The size of its vectors."""
        return self.contents.state.dim

    @property
    def dtype(self) -> Precision:
        """How exactly they are stored."""
        return self.contents.state.dtype

    @property
    def generation(self) -> int:
        """Grows with every commit."""
        return self.contents.state.generation

    @property
    def updated(self) -> float:
        """When the last commit was, in seconds since 1970."""
        return self.contents.state.updated

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that were indexed."""
        return self.contents.state.roots

    @property
    def approximation(self) -> str | None:
        """How search is made fast, and its recall against exact search; None: always exact."""
        return self.contents.state.approximation

    @property
    def columns(self) -> list[str]:
        """The names of the metadata columns, sorted."""
        return self.contents.columns

    @property
    def ids(self) -> NDArray[np.int64]:
        """The id of each picture: ascending, never used again."""
        return self.contents.ids

    @property
    def vectors(self) -> Vectors:
        """A unit vector for each picture, float32 [n, dim]."""
        return self.contents.vectors

    @property
    def records(self) -> Sequence[Record]:
        """What is stored about each picture."""
        return self.contents.records

    @property
    def label_names(self) -> list[str]:
        """Every label, sorted."""
        return list(self.contents.label_counts)

    def refuse_without_model(self) -> None:
        """Refuse to embed where the index has no model."""
        if not self.fingerprint:
            raise BadInput(
                f"the index '{self.place}' has no model: it was made of given vectors, and is "
                "searched by vector or by id"
            )

    @property
    def root(self) -> Path:
        """The folder that was indexed first; paths are relative to it."""
        return self.roots[0] if self.roots else Path()

    @property
    def paths(self) -> Sequence[str]:
        """The path of each picture, relative to its folder."""
        return Column(self.records, "path")

    @property
    def labels(self) -> Sequence[str | None]:
        """The label of each picture, where it has one."""
        return Column(self.records, "label")

    @property
    def metadata(self) -> Sequence[dict[str, str]]:
        """The other columns of each picture's row in a CSV."""
        return Column(self.records, "metadata")

    def __len__(self) -> int:
        return self.contents.state.count

    def latest(self) -> "Index":
        """This index as it is in its place now; itself where nothing has changed."""
        newest = self.store.newest(self.contents)
        return self if newest is self.contents else Index(self.store, newest)

    def records_of(self, ids: Sequence[int]) -> list[Record]:
        """What is stored about some pictures; an unknown id is refused."""
        return self.contents.records_of(ids)

    def vector_of(self, id: int) -> Vectors:
        """The unit vector of a picture."""
        found: Vectors = self.vectors_of([id])[0]
        return found

    def vectors_of(self, ids: Sequence[int]) -> Vectors:
        """The unit vectors of some pictures, float32 [n, dim]; an unknown id is refused."""
        return self.contents.vectors_of(ids)

    def ids_of(self, records: Sequence[Record]) -> NDArray[np.int64]:
        """The id of the picture with the same folder and path; -1: there is none."""
        return self.contents.ids_of(records)

    def count(self, where: Filter | None = None) -> int:
        """How many pictures there are, or match a filter."""
        if where is None:
            return len(self)
        where.check_columns(self.columns)
        return self.contents.count(where)

    def ids_where(self, where: Filter | None) -> NDArray[np.int64]:
        """The ids of the pictures that match a filter (None: of all), ascending."""
        if where is None:
            return self.ids
        where.check_columns(self.columns)
        return self.contents.ids_where(where)

    def label_counts(self) -> dict[str, int]:
        """How many pictures have each label, by name."""
        return dict(self.contents.label_counts)

    def root_number(self, root: Path) -> int:
        """The number of a folder among ``roots``; a new one is stored at once."""
        if root not in self.roots:
            self.store.add_root(root)
            self.contents = self.store.newest(self.contents)
        return self.roots.index(root)

    def optimize(self, watcher: Watcher) -> None:
        """Make search fast again after pictures were added or removed, where that is needed."""
        self.contents = self.store.optimize(self.contents, watcher)

    def compact(self, watcher: Watcher) -> None:
        """Give back the space of removed pictures, and make search as fast as it can be."""
        self.contents = self.store.compact(self.contents, watcher)

    def commit(
        self, records: Sequence[Record], vectors: Vectors, dropped: Iterable[int] = ()
    ) -> None:
        """Add new pictures and drop others by id, all or nothing.

        Args:
            records: The new pictures. One whose folder and path are in the index already replaces
                that picture; of several with one folder and path the last one stays.
            vectors: Their unit vectors, [n, dim].
            dropped: Ids that go; unknown ones are passed over.

        Raises:
            BadInput: The vectors have another shape or are not finite, or a path, label or metadata
                is not text.
        """
        if vectors.shape != (len(records), self.dim):
            raise BadInput(
                f"{len(records)} pictures of an index with vectors of {self.dim} numbers need an "
                f"array [{len(records)}, {self.dim}], not {list(vectors.shape)}"
            )
        if not np.isfinite(vectors).all():
            raise BadInput("a vector has numbers that are not finite")
        try:
            self.contents = self.store.commit(self.contents, records, vectors, dropped)
        except UnicodeEncodeError as error:
            raise BadInput(f"a path, label or metadata is not text: {error.object!r}") from error

    def search(
        self,
        vectors: ArrayLike,
        k: int = 10,
        *,
        label: str | None = None,
        where: str | Filter | None = None,
        exact: bool = False,
    ) -> list[list[Hit]]:
        """Find the pictures that are most similar to each vector.

        Args:
            vectors: One vector, or rows of vectors, of the index's own model.
            k: How many pictures to find.
            label: Search among the pictures of this label only.
            where: Search among the pictures that match this filter only, for example
                ``price < 50 and brand = 'x'``.
            exact: Compare with every picture even where a faster search is available.

        Returns:
            For each vector ``k`` hits, or as many as there are, the most similar first.

        Raises:
            BadInput: A vector has another length or is not finite, no picture has the label, or
                the filter cannot be read or names a column that no picture has.
        """
        if k < 1:
            raise BadInput(f"k must be at least 1, not {k}")
        queries = unit_queries(vectors, self.dim)
        chosen = None
        if label is not None or where is not None:
            chosen = self.filter_for(where, label)
        return self.contents.search(queries, k, chosen, exact)

    def filter_for(
        self, where: str | Filter | None = None, label: str | None = None
    ) -> Filter | None:
        """A filter and a label as one filter.

        Args:
            where: A filter, or its text.
            label: The label that pictures must have, too.

        Returns:
            Both, combined with AND; None: neither is given.

        Raises:
            BadInput: It cannot be read, or no picture has the label or one of the columns.
        """
        if label is not None and not self.contents.has_label(label):
            raise BadInput(
                f"no picture has the label '{label}'; {did_you_mean(label, self.label_counts())}"
            )
        found = Filter.of(parsed(where) if isinstance(where, str) else where, label)
        if found is not None:
            found.check_columns(self.columns)
        return found

    def query(
        self,
        images: Pictures,
        k: int = 10,
        *,
        encoder: Encoder | None = None,
        label: str | None = None,
        where: str | Filter | None = None,
        exact: bool = False,
    ) -> list[list[Hit]]:
        """Find the pictures that look most like each image.

        Args:
            images: Paths, PIL images, arrays, tensors, or batches of them.
            k: The number of results for each.
            encoder: Embeds them in place of the index's model; it must be the same model.
            label: Search this label only.
            where: Search the pictures that match this filter only.
            exact: Compare with every picture instead of an approximate search.

        Returns:
            The hits of each image, the most similar first.
        """
        encoder = encoder or self.embedder
        self.check_encoder(encoder)
        return self.search(encoder.embed(images), k, label=label, where=where, exact=exact)

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuse an encoder whose vectors cannot be compared with those of the index."""
        mine, other = self.fingerprint, encoder.fingerprint
        if other != mine:
            raise BadInput(
                f"the index '{self.place}' was made by another model ({mine[:12]}, not "
                f"{other[:12]}); its vectors cannot be compared"
            )

    def items(self, ids: Iterable[int]) -> list[Item]:
        """What is known about the pictures ``ids``."""
        known = [int(id) for id in ids]
        pairs = zip(known, self.records_of(known), strict=True)
        return [Item(id, record.path, record.label, record.metadata) for id, record in pairs]

    def item(self, id: int) -> Item:
        """What is known about the picture ``id``."""
        return self.items([id])[0]

    def file_of(self, id: int) -> Path:
        """The file of a picture.

        Args:
            id: The id of the picture.

        Returns:
            Its absolute path.

        Raises:
            BadInput: No picture has the id.
            LookalikeError: It has no file in the folder that was indexed (any more).
        """
        record = self.records_of([id])[0]
        found = self.find_file(record)
        if found is None:
            raise LookalikeError(f"the picture '{record.path}' is no longer in its folder")
        return found

    def find_file(self, record: Record) -> Path | None:
        """The file of a picture, if there is one inside of its folder."""
        root = self.contents.root_at(record.root)
        return None if root is None else file_inside(root, record.path)

    def select(
        self,
        paths: Sequence[str] = (),
        label: str | None = None,
        missing: bool = False,
        where: str | Filter | None = None,
    ) -> list[int]:
        """Ids of the pictures to which any of these applies.

        Args:
            paths: Paths of pictures or folders, as the index names them.
            label: All pictures of this label.
            missing: All pictures whose files no longer exist.
            where: All pictures that match this filter.

        Returns:
            The ids, ascending.
        """
        chosen: set[int] = set()
        for one in (self.filter_for(label=label), self.filter_for(where)):
            if one is not None:
                chosen.update(self.ids_where(one).tolist())
        chosen.update(self._at_or_below([path.removeprefix("./").rstrip("/") for path in paths]))
        if missing:
            for id, record in zip(self.ids.tolist(), self.records, strict=True):
                if self.find_file(record) is None:
                    chosen.add(id)
        return sorted(chosen)

    def _at_or_below(self, paths: Sequence[str]) -> Iterator[int]:
        """The ids of pictures, found by their paths, and of those below folders."""
        for path in paths:
            if not is_text(path):
                raise BadInput(f"the index has no '{path}'")
        roots = len(self.roots) or 1
        records = [Record(path, root=root) for path in paths for root in range(roots)]
        ids = self.ids_of(records).reshape(-1, roots)
        for path, own in zip(paths, ids, strict=True):
            found = own[own >= 0] if (own >= 0).any() else self.ids_where(Filter.below(path))
            if not len(found):
                some = [record.path for record in self.records[:10_000]]
                raise BadInput(f"the index has no '{path}'; {did_you_mean(path, some)}")
            yield from found.tolist()

    def add(self, source: Path | str, watcher: Watcher | None = None) -> Added:
        """Add the pictures of a source; those that have not changed are not embedded again.

        What has been embedded is committed every minute, so that a killed process loses little.

        Args:
            source: A folder (the first sub-folder of a picture is its label), a CSV with the
                column ``path``, perhaps ``label``, and metadata, or any other that
                :func:`~lookalike.inference.source.open_source` takes.
            watcher: Is told the progress.

        Returns:
            How many pictures were new, changed, unchanged, and which were skipped.
        """
        from lookalike.search.ingest import embed_into

        place = Path(source).expanduser()
        above = [root for root in self.roots if place.resolve().is_relative_to(root)]
        pictures = open_source(place, root=above[0] if above else None)
        return embed_into(self, pictures, watcher=watcher)

    def remove(self, ids: Iterable[int], watcher: Watcher | None = None) -> int:
        """Drop pictures from the index, not their files.

        Args:
            ids: Their ids.
            watcher: Is told the progress.

        Returns:
            How many were dropped.

        Raises:
            BadInput: An id is unknown; nothing is dropped then.
        """
        gone = sorted(set(ids))
        self.records_of(gone)
        if gone:
            self.commit([], np.empty((0, self.dim), np.float32), gone)
            self.optimize(watcher or Watcher())
        return len(gone)


def vector_size(embedder: Embedder | None, dim: int | None) -> int:
    """The size of the vectors of a new index; refused where nothing tells it."""
    size = embedder.dim if embedder is not None else dim
    if size is None or size < 1:
        raise BadInput("an index without a model needs the length of its vectors")
    return size


def unit_queries(vectors: ArrayLike, dim: int) -> Vectors:
    """One vector, or rows of vectors, as rows of unit length."""
    try:
        queries = np.atleast_2d(np.ascontiguousarray(vectors, np.float32))
    except (TypeError, ValueError) as error:
        raise BadInput(f"a query must be a vector of {dim} numbers") from error
    if queries.ndim != 2 or queries.shape[1] != dim:
        found = queries.shape[1] if queries.ndim == 2 else f"the shape {list(queries.shape)}"
        raise BadInput(f"the index holds vectors of {dim} numbers, not {found}")
    try:
        return unit_rows(queries)
    except NoDirectionError as error:
        raise BadInput("a query must be a vector of finite numbers that is not zero") from error


@lru_cache(maxsize=256)
def parsed(where: str) -> Filter | None:
    """A filter from its text; a service is asked the same ones again and again."""
    return Filter.of(where)


def store_class(place: Place) -> type[FolderStore] | type["PostgresStore"]:
    """The class of the store at a place."""
    if not is_postgres(place):
        return FolderStore
    try:
        from lookalike.search.postgres import PostgresStore
    except ImportError as error:
        raise BadInput(
            f"an index in PostgreSQL needs the package '{error.name}': "
            "pip install 'lookalike[postgres]'"
        ) from error
    return PostgresStore
