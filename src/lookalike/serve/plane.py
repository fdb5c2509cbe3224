"""The map of an index: a flat picture of its vectors, rough at once and good after a while."""

import threading
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.cache import cache_folder
from lookalike.data.image_set import digest
from lookalike.errors import BadInput
from lookalike.evaluation.flattening import flatten, principal_plane
from lookalike.files import atomically
from lookalike.search.index import Index

__all__ = ["Plane", "PlaneMap"]

SEED = 0


@dataclass(frozen=True)
class PlaneMap:
    """Rows of the index and where they lie, between -1 and 1."""

    rows: NDArray[np.int64]
    places: NDArray[np.float64]
    method: str
    final: bool


class Plane:
    """A map of at most ``points`` pictures drawn by chance.

    The principal components are there within seconds; t-SNE follows from a thread of its own and
    is kept in the cache folder, so that the next start has it at once.
    """

    def __init__(self, index: Index, points: int) -> None:
        self.index = index
        self.points = points
        self._map: PlaneMap | None = None
        self._lock = threading.Lock()

    def map(self) -> PlaneMap:
        """The best map so far; the first call computes the rough one and starts the good one."""
        with self._lock:
            if self._map is None:
                self._begin()
            assert self._map is not None
            return self._map

    def _begin(self) -> None:
        count = len(self.index)
        rng = np.random.default_rng(SEED)
        rows = np.sort(rng.permutation(count)[: self.points]).astype(np.int64)
        vectors = np.array(self.index.vectors[rows] if count else np.empty((0, 1)), np.float32)
        name = f"map-{digest(rows, vectors)}.npy"
        kept = self._kept(name, len(rows))
        if kept is not None:
            self._map = PlaneMap(rows, kept, "t-sne", final=True)
            return
        tensor = torch.from_numpy(vectors)
        few = len(rows) < 8
        rough = principal_plane(tensor)
        self._map = PlaneMap(rows, rough, "pca", final=few)
        if not few:
            work = threading.Thread(
                target=self._improve, args=(rows, tensor, name), name="map", daemon=True
            )
            work.start()

    def _improve(self, rows: NDArray[np.int64], vectors: torch.Tensor, name: str) -> None:
        try:
            places = flatten(vectors, SEED)
        except BaseException:
            if self._map is not None:
                self._map = replace(self._map, final=True)  # nobody shall wait for a better one
            raise
        try:
            with atomically(cache_folder() / name) as draft, draft.open("wb") as file:
                np.save(file, places, allow_pickle=False)
        except (OSError, BadInput):
            pass  # a map that cannot be kept is made again next time
        self._map = PlaneMap(rows, places, "t-sne", final=True)

    def _kept(self, name: str, count: int) -> NDArray[np.float64] | None:
        try:
            places = np.load(cache_folder() / name, allow_pickle=False)
        except (OSError, ValueError, EOFError, BadInput):
            return None
        good = places.shape == (count, 2) and places.dtype == np.float64
        return places if good and np.isfinite(places).all() else None
