"""``pytorch_metric_learning.utils.inference``: neighbours and matches of a finished model.

Nearest neighbours and clusters are those of FAISS, or by any distance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lookalike.errors import BadInput
from lookalike.pml.distances import adopted_distance

__all__ = ["CustomKNN", "FaissKMeans", "FaissKNN", "InferenceModel", "MatchFinder"]


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
            self.reset()
        if reference is not None:
            (self.train if self.index is None else self.add)(reference)
        if self.index is None:
            raise BadInput("the index is empty; train it first")
        found = self.index.search(_rows(query), k + ref_includes_query)
        if self.reset_after:
            self.reset()
        distances, indices = (torch.from_numpy(part).to(query.device) for part in found)
        return without_itself(distances, indices) if ref_includes_query else (distances, indices)

    def train(self, embeddings: Tensor) -> None:
        """Start a new index with these embeddings."""
        import faiss

        self.index = (self.index_init_fn or faiss.IndexFlatL2)(embeddings.shape[1])
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
        others, number = query if reference is None else reference, k + ref_includes_query
        nearest, largest = [], self.distance.is_inverted
        for rows in torch.split(query, self.batch_size or max(1, len(query))):
            nearest.append(self.distance(rows, others).topk(number, largest=largest))
        distances, indices = (torch.cat(parts) for parts in zip(*nearest, strict=True))
        return without_itself(distances, indices) if ref_includes_query else (distances, indices)


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


class MatchFinder:
    """Which pairs are nearer than a threshold.

    Args:
        distance: The distance, or its name.
        threshold: In its unit; a call may name another.
    """

    def __init__(self, distance: Any, threshold: float | None = None) -> None:
        self.distance = adopted_distance(distance)
        self.threshold = threshold

    @torch.no_grad()
    def get_matching_pairs(
        self,
        query_emb: Tensor,
        ref_emb: Tensor | None = None,
        threshold: float | None = None,
        return_tuples: bool = False,
    ) -> NDArray[np.bool_] | list[tuple[int, int]]:
        """Which queries match which references: a table, or a list of pairs."""
        found = self._near(self.distance(query_emb, ref_emb), threshold).cpu()
        if return_tuples:
            return [(row, column) for row, column in found.nonzero().tolist()]
        return found.numpy()

    @torch.no_grad()
    def is_match(
        self, x: Tensor, y: Tensor, threshold: float | None = None
    ) -> bool | NDArray[np.bool_]:
        """Whether each row of ``x`` matches the row of ``y`` in the same place."""
        found = self._near(self.distance.pairwise_distance(x, y), threshold).cpu()
        return bool(found) if found.numel() == 1 else found.numpy()

    def _near(self, values: Tensor, threshold: float | None) -> Tensor:
        limit = self.threshold if threshold is None else threshold
        if limit is None:
            raise BadInput("a match needs a threshold")
        return values >= limit if self.distance.is_inverted else values <= limit


@dataclass(eq=False, repr=False)
class InferenceModel:
    """A network with an index of embeddings: neighbours and matches of images.

    ``lookalike.inference.Embedder`` does this for a finished run, and ``lookalike search`` for
    folders of images.

    Args:
        trunk: The network, or its first part.
        embedder: Its second part; None: none.
        match_finder: None: cosines of at least 0.9 are matches.
        normalize_embeddings: Whether embeddings are brought to unit length.
        knn_func: None: a FAISS index.
        data_device: Where images go; None: the device of the network.
        dtype: Of the images; None: as they are.
    """

    trunk: nn.Module
    embedder: Any = None
    match_finder: Any = None
    normalize_embeddings: bool = True
    knn_func: Any = None
    data_device: torch.device | str | None = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.embedder = self.embedder or nn.Identity()
        self.match_finder = self.match_finder or MatchFinder("cosine", 0.9)
        self.knn_func = self.knn_func or FaissKNN(reset_before=False, reset_after=False)

    @torch.no_grad()
    def get_embeddings(self, x: Any) -> Tensor:
        """The embeddings of images: a tensor, a list of tensors, or whatever the network takes."""
        x = _stacked(x)
        if isinstance(x, Tensor):
            like = next(self.trunk.parameters(), x)
            x = x.to(self.data_device or like.device, self.dtype)
        self.trunk.eval()
        self.embedder.eval()
        found: Tensor = self.embedder(self.trunk(x))
        return nn.functional.normalize(found, dim=1) if self.normalize_embeddings else found

    def train_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Start a new index of these images: a tensor, a list, or a data set."""
        self.knn_func.train(self._embedded(inputs, batch_size))

    def add_to_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Add images to the index."""
        self.knn_func.add(self._embedded(inputs, batch_size))

    def _embedded(self, inputs: Any, batch_size: int) -> Tensor:
        """The embeddings of all inputs, a batch at a time."""
        if isinstance(inputs, Dataset):
            batches = (images for images, _ in DataLoader(inputs, batch_size))
        elif isinstance(inputs, Tensor | list):
            batches = (inputs[at : at + batch_size] for at in range(0, len(inputs), batch_size))
        else:
            raise BadInput(
                f"images are a tensor, a list or a data set, not {type(inputs).__name__}"
            )
        return torch.cat([self.get_embeddings(batch) for batch in batches])

    def get_nearest_neighbors(self, query: Any, k: int) -> tuple[Tensor, Tensor]:
        """Distances and indices of the k nearest images of the index."""
        return self.knn_func(self.get_embeddings(query), k)  # type: ignore[no-any-return]

    def get_matches(
        self,
        query: Any,
        ref: Any = None,
        threshold: float | None = None,
        return_tuples: bool = False,
    ) -> Any:
        """Which images match which: a table, or a list of pairs."""
        rows = self.get_embeddings(query)
        others = rows if ref is None else self.get_embeddings(ref)
        return self.match_finder.get_matching_pairs(rows, others, threshold, return_tuples)

    def is_match(self, x: Any, y: Any, threshold: float | None = None) -> Any:
        """Whether each image of ``x`` matches that of ``y`` in the same place."""
        return self.match_finder.is_match(self.get_embeddings(x), self.get_embeddings(y), threshold)

    def save_knn_func(self, filename: str) -> None:
        """Write the index to a file."""
        self.knn_func.save(filename)

    def load_knn_func(self, filename: str) -> None:
        """Read the index from a file."""
        self.knn_func.load(filename)


def _stacked(x: Any) -> Any:
    if isinstance(x, list) and all(isinstance(each, Tensor) for each in x):
        return torch.stack(x)
    return x
