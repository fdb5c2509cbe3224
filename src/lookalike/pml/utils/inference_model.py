"""A network that answers questions about images, called as PML's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lookalike.errors import BadInput
from lookalike.pml.distances import adopted_distance
from lookalike.pml.utils.neighbours import FaissKNN

__all__ = ["InferenceModel", "MatchFinder"]


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
            first = next(self.trunk.parameters(), None)
            device = self.data_device or (None if first is None else first.device)
            x = x.to(device=device, dtype=self.dtype)
        self.trunk.eval()
        self.embedder.eval()
        found: Tensor = self.embedder(self.trunk(x))
        return nn.functional.normalize(found, dim=1) if self.normalize_embeddings else found

    def train_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Start a new index of these images: a tensor, a list, or a data set."""
        self._index(self.knn_func.train, inputs, batch_size)

    def add_to_knn(self, inputs: Any, batch_size: int = 64) -> None:
        """Add images to the index."""
        self._index(self.knn_func.add, inputs, batch_size)

    def _index(self, put: Callable[[Tensor], None], inputs: Any, batch_size: int) -> None:
        put(torch.cat([self.get_embeddings(part) for part in _parts(inputs, batch_size)]))

    def get_nearest_neighbors(self, query: Any, k: int) -> tuple[Tensor, Tensor]:
        """Distances and indices of the k nearest images of the index."""
        found: tuple[Tensor, Tensor] = self.knn_func(self.get_embeddings(query), k)
        return found

    def get_matches(
        self,
        query: Any,
        ref: Any = None,
        threshold: float | None = None,
        return_tuples: bool = False,
    ) -> NDArray[np.bool_] | list[tuple[int, int]]:
        """Which images match which: a table, or a list of pairs."""
        rows = self.get_embeddings(query)
        others = rows if ref is None else self.get_embeddings(ref)
        finder: MatchFinder = self.match_finder
        return finder.get_matching_pairs(rows, others, threshold, return_tuples)

    def is_match(self, x: Any, y: Any, threshold: float | None = None) -> bool | NDArray[np.bool_]:
        """Whether each image of ``x`` matches that of ``y`` in the same place."""
        finder: MatchFinder = self.match_finder
        return finder.is_match(self.get_embeddings(x), self.get_embeddings(y), threshold)

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


def _parts(inputs: Any, batch_size: int) -> Iterator[Any]:
    """The inputs, a batch at a time."""
    inputs = _stacked(inputs)
    if isinstance(inputs, Tensor | list):
        yield from (inputs[at : at + batch_size] for at in range(0, len(inputs), batch_size))
    elif isinstance(inputs, Dataset):
        yield from (images for images, _ in DataLoader(inputs, batch_size=batch_size))
    else:
        raise BadInput(f"images are a tensor, a list or a data set, not {type(inputs).__name__}")
