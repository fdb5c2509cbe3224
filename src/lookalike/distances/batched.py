"""A large matrix of distances, a block of rows at a time."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from lookalike.distances.naming import DistanceLike, create

__all__ = ["BatchedDistance"]


class BatchedDistance(nn.Module):
    """A distance whose matrix is never whole: each block of rows goes to a function.

    Attributes of the distance (``is_inverted``, ``power``, ...) are those of this module too.

    Args:
        distance: The distance, or its name.
        iter_fn: Gets each block, its first row and the row after its last.
        batch_size: Rows per block.

    >>> import torch
    >>> rows = []
    >>> BatchedDistance("cosine", lambda block, *_: rows.append(len(block)), 2)(torch.eye(5))
    >>> rows
    [2, 2, 1]
    """

    def __init__(
        self,
        distance: DistanceLike,
        iter_fn: Callable[[Tensor, int, int], object] | None = None,
        batch_size: int = 32,
    ) -> None:
        super().__init__()
        self.distance = create(distance)
        self.iter_fn = iter_fn
        self.batch_size = batch_size

    def forward(self, query_emb: Tensor, ref_emb: Tensor | None = None) -> None:
        """Give ``iter_fn`` all blocks, in order."""
        others = query_emb if ref_emb is None else ref_emb
        for start in range(0, len(query_emb), self.batch_size):
            rows = query_emb[start : start + self.batch_size]
            if self.iter_fn is not None:
                self.iter_fn(self.distance(rows, others), start, start + self.batch_size)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the module, then those of the distance."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "distance":
                raise
            return getattr(self.distance, name)
