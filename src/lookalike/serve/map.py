"""The map of an index: its vectors on a plane, by PCA at once and by t-SNE some time later."""

import threading
from contextlib import suppress
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
FEWEST = 8
"""Pictures that t-SNE needs."""
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

    Attributes:
        retired: The index has changed: its map is not improved any more.
    """

    def __init__(self, index: Index, points: int) -> None:
        self.index = index
        self.points = points
        self.retired = False
        self._layout: Layout | None = None

    def layout(self) -> Layout:
        """The best layout so far; the first call computes PCA and starts t-SNE.

        Only one thread calls it.
        """
        if self._layout is None:
            all_ids = self.index.ids_where(None)
            rng = np.random.default_rng(SEED)
            rows = np.sort(rng.choice(len(all_ids), min(self.points, len(all_ids)), replace=False))
            ids = np.asarray(all_ids[rows], np.int64)
            vectors = np.array(self.index.vectors_of(ids.tolist()), np.float32)
            name = f"map-{digest(ids, vectors)}.npy"
            kept = _kept(name, len(ids))
            if kept is not None:
                self._layout = Layout(ids, kept, "t-sne", final=True)
                return self._layout
            rough = project_pca(torch.from_numpy(vectors))
            self._layout = Layout(ids, rough, "pca", final=len(ids) < FEWEST)
            if not self._layout.final:
                work = (self._layout, vectors, name)
                threading.Thread(target=self._improve, args=work, name="map", daemon=True).start()
        return self._layout

    def _improve(self, rough: Layout, vectors: NDArray[np.float32], name: str) -> None:
        better = replace(rough, final=True)  # clients must not wait for what will not come
        try:
            # a thread that waits keeps its state of the index, and that may change every second
            while not (taken := _ONE.acquire(timeout=0.2)) and not self.retired:
                pass
            if taken:
                with suppress(OSError, BadInput):  # else it is computed again next time
                    try:
                        coordinates = project_tsne(torch.from_numpy(vectors), SEED)
                    finally:
                        _ONE.release()
                    better = replace(better, coordinates=coordinates, method="t-sne")
                    with atomically(cache_folder() / name) as draft, draft.open("wb") as file:
                        np.save(file, coordinates, allow_pickle=False)
        finally:
            self._layout = better


def _kept(name: str, count: int) -> NDArray[np.float64] | None:
    """The coordinates of an earlier start."""
    try:
        coordinates = np.load(cache_folder() / name, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadInput):
        return None
    valid = coordinates.shape == (count, 2) and coordinates.dtype == np.float64
    return coordinates if valid and np.isfinite(coordinates).all() else None
