"""Nearest neighbours and clusters by FAISS, called as PML's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.pml.distances import adopted_distance

__all__ = ["CustomKNN", "FaissKMeans", "FaissKNN"]


@dataclass(eq=False, repr=False)
class FaissKNN:
    """The nearest neighbours by a FAISS index; squared Euclidean distances unless told.

    Args:
        reset_before: Whether every call starts with an empty index.
        reset_after: Whether the index is emptied after every call.
        index_init_fn: From the dimension to an index; None: ``faiss.IndexFlatL2``.
        gpus: Must be None: ``lookalike.nearest`` searches on the device of the embeddings.

    >>> distances, indices = FaissKNN()(torch.eye(2), 1, torch.eye(2))
    >>> indices.flatten().tolist()
    [0, 1]
    """

    reset_before: bool = True
    reset_after: bool = True
    index_init_fn: Callable[[int], Any] | None = None
    gpus: list[int] | None = None

    def __post_init__(self) -> None:
        if self.gpus is not None:
            raise BadInput("FAISS searches on the processor here; leave gpus out")
        self.index: Any = None

    def __call__(
        self,
        query: Tensor,
        k: int,
        reference: Tensor | None = None,
        ref_includes_query: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Distances and indices of the k nearest, [queries, k]; without the query itself."""
        if self.reset_before:
            self._start(query.shape[1])
        if self.index is None:
            raise BadInput("the index is empty; train it first")
        if reference is not None:
            self.add(reference)
        found = self.index.search(_rows(query), k + ref_includes_query)
        if self.reset_after:
            self.reset()
        distances, indices = (torch.from_numpy(part).to(query.device) for part in found)
        return without_itself(distances, indices) if ref_includes_query else (distances, indices)

    def _start(self, width: int) -> None:
        import faiss

        self.index = (self.index_init_fn or faiss.IndexFlatL2)(width)

    def train(self, embeddings: Tensor) -> None:
        """Start a new index with these embeddings."""
        self._start(embeddings.shape[1])
        self.add(embeddings)

    def add(self, embeddings: Tensor) -> None:
        """Add embeddings to the index."""
        self.index.add(_rows(embeddings))

    def save(self, filename: str) -> None:
        """Write the index to a file."""
        import faiss

        faiss.write_index(self.index, str(filename))

    def load(self, filename: str) -> None:
        """Read the index from a file."""
        import faiss

        self.index = faiss.read_index(str(filename))

    def reset(self) -> None:
        """Empty the index."""
        self.index = None


class CustomKNN:
    """The nearest neighbours by any distance.

    Args:
        distance: The distance, or its name.
        batch_size: Queries that are compared at once; None: all.

    >>> _, indices = CustomKNN("cosine", batch_size=1)(torch.eye(2), 1, torch.eye(2))
    >>> indices.flatten().tolist()
    [0, 1]
    """

    def __init__(self, distance: Any, batch_size: int | None = None) -> None:
        self.distance = adopted_distance(distance)
        self.batch_size = batch_size

    def __call__(
        self,
        query: Tensor,
        k: int,
        reference: Tensor | None = None,
        ref_includes_query: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Distances and indices of the k nearest, [queries, k]; without the query itself."""
        others = query if reference is None else reference
        found = [
            self.distance(rows, others).topk(
                k + ref_includes_query, largest=self.distance.is_inverted
            )
            for rows in torch.split(query, self.batch_size or max(1, len(query)))
        ]
        values, places = (torch.cat(parts) for parts in zip(*found, strict=True))
        return without_itself(values, places) if ref_includes_query else (values, places)


class FaissKMeans:
    """Clusters by FAISS.

    Args:
        **kwargs: Those of ``faiss.Kmeans``.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.kwargs = kwargs

    def __call__(self, x: Tensor, nmb_clusters: int) -> Tensor:
        """The cluster of each row."""
        import faiss

        rows = _rows(x)
        means = faiss.Kmeans(rows.shape[1], nmb_clusters, **self.kwargs)
        means.train(rows)
        return torch.from_numpy(means.index.search(rows, 1)[1].flatten()).to(x.device)


def without_itself(distances: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours of query i without item i; without the last where i is not among them."""
    own = indices == torch.arange(len(indices), device=indices.device).unsqueeze(1)
    own[~own.any(1), -1] = True
    return distances[~own].view(len(own), -1), indices[~own].view(len(own), -1)


def _rows(x: Tensor) -> Any:
    """The rows as FAISS takes them."""
    return np.ascontiguousarray(torch.as_tensor(x).detach().cpu().float().numpy())
