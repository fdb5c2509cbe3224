"""The map of an index: its vectors on a plane, by PCA at once and by t-SNE some time later."""

import threading
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.data.cache import cache_folder
from lookalike.data.image_set import digest
from lookalike.errors import BadInput
from lookalike.evaluation.projection import project_pca, project_tsne
from lookalike.files import atomically
from lookalike.search.index import Index

SEED = 0
_ONE = threading.Lock()
"""Indexes may change faster than t-SNE runs: one at a time."""


@dataclass(frozen=True)
class Layout:
    """Ids of pictures and their coordinates on the map, between -1 and 1."""

    ids: NDArray[np.int64]
    coordinates: NDArray[np.float64]
    method: Literal["pca", "t-sne"]
    final: bool


class IndexMap:
    """A map of at most ``points`` randomly drawn pictures.

    The principal components are available within seconds; t-SNE follows from a thread of its own
    and is stored in the cache folder, so that the next start has it at once.
    """

    def __init__(self, index: Index, points: int) -> None:
        self.index = index
        self.points = points
        self._layout: Layout | None = None
        self._lock = threading.Lock()
        self._retired = False

    def retire(self) -> None:
        """The index has changed: do not begin to improve this map."""
        self._retired = True

    def layout(self) -> Layout:
        """The best layout so far; the first call computes PCA and starts t-SNE."""
        with self._lock:
            if self._layout is None:
                self._begin()
            assert self._layout is not None
            return self._layout

    def _begin(self) -> None:
        all_ids = self.index.ids_where(None)
        rng = np.random.default_rng(SEED)
        rows = np.sort(rng.choice(len(all_ids), min(self.points, len(all_ids)), replace=False))
        ids = np.asarray(all_ids[rows], np.int64)
        vectors = np.array(self.index.vectors_of(ids.tolist()), np.float32)
        name = f"map-{digest(ids, vectors)}.npy"
        cached = self._cached(name, len(ids))
        if cached is not None:
            self._layout = Layout(ids, cached, "t-sne", final=True)
            return
        tensor = torch.from_numpy(vectors)
        few = len(ids) < 8
        self._layout = Layout(ids, project_pca(tensor), "pca", final=few)
        if not few:
            work = (ids, tensor, name)
            threading.Thread(target=self._improve, args=work, name="map", daemon=True).start()

    def _improve(self, ids: NDArray[np.int64], vectors: torch.Tensor, name: str) -> None:
        coordinates = None
        try:
            if self._acquire():
                try:
                    coordinates = project_tsne(vectors, SEED)
                finally:
                    _ONE.release()
        finally:
            if coordinates is None and self._layout is not None:  # clients must not wait for it
                self._layout = replace(self._layout, final=True)
        if coordinates is None:
            return
        try:
            with atomically(cache_folder() / name) as draft, draft.open("wb") as file:
                np.save(file, coordinates, allow_pickle=False)
        except (OSError, BadInput):
            pass  # it is computed again next time
        self._layout = Layout(ids, coordinates, "t-sne", final=True)

    def _acquire(self) -> bool:
        """Wait until no other map is computed; False: this one has been retired meanwhile.

        A thread that waits keeps its state of the index in memory, and indexes may change every
        second.
        """
        while not self._retired:
            if _ONE.acquire(timeout=0.2):
                return True
        return False

    def _cached(self, name: str, count: int) -> NDArray[np.float64] | None:
        try:
            coordinates = np.load(cache_folder() / name, allow_pickle=False)
        except (OSError, ValueError, EOFError, BadInput):
            return None
        valid = coordinates.shape == (count, 2) and coordinates.dtype == np.float64
        return coordinates if valid and np.isfinite(coordinates).all() else None
