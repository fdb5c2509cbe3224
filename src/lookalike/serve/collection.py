"""The index that is being served, in its latest state."""

import logging
import threading
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BadInput
from lookalike.inference.encoder import Vectors
from lookalike.search.filters import Filter
from lookalike.search.index import Index
from lookalike.serve.limits import Limits, Refusal
from lookalike.serve.map import IndexMap
from lookalike.serve.monitoring import INDEX, RELOADS, event
from lookalike.serve.pictures import BoundedCache, Pictures

MEAN_OF = 1_000
"""How many pictures of a label its mean is taken of, at most."""
MEANS_KEPT = 256


class View:
    """One state of the index, and what was computed from it; a request uses one from end to end."""

    def __init__(self, index: Index, limits: Limits, thumbnails: BoundedCache) -> None:
        self.index = index
        self.pictures = Pictures(index, thumbnails)
        self.map = IndexMap(index, limits.map_points)
        self._mean_of = lru_cache(MEANS_KEPT)(partial(mean_of, index))

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The id of each picture."""
        return self.index.ids_where(None)

    @cached_property
    def label_counts(self) -> dict[str, int]:
        """Every label with the number of its pictures, by name."""
        return dict(sorted(self.index.label_counts().items()))

    @cached_property
    def columns(self) -> list[str]:
        """The names of metadata columns."""
        return list(self.index.columns)

    def chosen(self, where: str | None, label: str | None) -> Filter | None:
        """The filter of a request.

        Args:
            where: A condition on metadata.
            label: A label that pictures must have.

        Returns:
            The filter; None: all pictures.

        Raises:
            BadInput: The condition cannot be read, or names an unknown column.
            Refusal: No picture has the label.
        """
        condition = Filter.of(where, label)
        if condition is not None:
            condition.check_columns(self.columns)
        if label is not None and label not in self.label_counts:
            raise Refusal(422, f"No picture has the label '{label}'.")
        return condition

    def check(self, *ids: int) -> None:
        """Refuse ids that the index does not have."""
        for id in ids:
            try:
                self.index.records_of([id])
            except BadInput as error:
                raise Refusal(404, f"There is no picture {id}.") from error

    def label_mean(self, label: str) -> Vectors:
        """The mean of the vectors of a label, as a unit vector."""
        if label not in self.label_counts:
            raise Refusal(422, f"No picture has the label '{label}'.")
        return self._mean_of(label)


def mean_of(index: Index, label: str) -> Vectors:
    """The mean of the vectors of a label, as a unit vector.

    Of a label with more than ``MEAN_OF`` pictures, so many are taken, evenly spaced.
    """
    ids = index.ids_where(Filter.of(label=label))
    sample = ids[np.unique(np.linspace(0, len(ids) - 1, min(MEAN_OF, len(ids))).astype(int))]
    mean: Vectors = index.vectors_of(sample.tolist()).mean(0)
    mean /= max(float(np.linalg.norm(mean)), 1e-12)
    return mean


class Collection:
    """Holds the latest view; a thread looks every second whether the index has changed.

    Requests that run keep the view that they have begun with. A state that cannot be opened is
    logged once, and the former one stays.
    """

    def __init__(self, index: Index, limits: Limits) -> None:
        self._limits = limits
        self._thumbnails = BoundedCache(limits.thumbnail_bytes)
        self._stop = threading.Event()
        self._complaint = ""
        self._thread: threading.Thread | None = None
        self.view = View(index, limits, self._thumbnails)
        self._report()

    def _report(self) -> None:
        index = self.view.index
        INDEX["pictures"].set(len(index))
        INDEX["generation"].set(index.generation)
        INDEX["updated_timestamp_seconds"].set(index.updated)

    def follow(self) -> None:
        """Start to look for changes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="reload", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5)

    def _follow(self) -> None:
        while not self._stop.wait(self._limits.reload_seconds):
            try:
                self.refresh()
                self._complaint = ""
            except Exception as error:  # whatever it is, the former state is still good
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    RELOADS.labels("failed").inc()
                    event(f"the changed index cannot be opened: {error}", logging.ERROR)

    def refresh(self) -> bool:
        """Switch to the latest state; whether there was a new one."""
        former = self.view.index
        latest = former.latest()
        if latest is former:
            return False
        if (latest.fingerprint, latest.dim) != (former.fingerprint, former.dim):
            raise BadInput("it was made by another model; start the server again")
        self.view.map.retired = True
        self.view = View(latest, self._limits, self._thumbnails)
        RELOADS.labels("ok").inc()
        self._report()
        event("index reloaded", generation=latest.generation, pictures=len(latest))
        return True
