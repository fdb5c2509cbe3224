"""A distance of one's own, written as a subclass of PML's base."""

from torch import Tensor

from lookalike.distances.base import AdjustableDistance, raised

__all__ = ["BaseDistance"]


class BaseDistance(AdjustableDistance):
    """A distance by ``compute_mat(query_emb, ref_emb)``, as PML's subclasses write it.

    The rows come at length 1 where ``normalize_embeddings``; ``power`` is applied to the matrix.

    Args:
        normalize_embeddings: Whether embeddings are brought to unit length.
        p: The norm of that length.
        power: To which the numbers are raised.
        is_inverted: Whether larger is closer.

    >>> import torch
    >>> class Largest(BaseDistance):
    ...     def compute_mat(self, query_emb, ref_emb):
    ...         return torch.cdist(query_emb, ref_emb, p=float("inf"))
    >>> Largest(normalize_embeddings=False)(torch.tensor([[0.0, 0.0], [1.0, 3.0]]))
    tensor([[0., 3.],
            [3., 0.]])
    """

    symmetric = False

    def __init__(
        self,
        normalize_embeddings: bool = True,
        p: float = 2,
        power: float = 1,
        is_inverted: bool = False,
    ) -> None:
        super().__init__(normalize_embeddings, p, power)
        self.is_inverted = is_inverted

    @property
    def ordered_by_cosine(self) -> bool:
        """False: nothing is known of the order."""
        return False

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """The matrix of rows that are ready to be compared."""
        raise NotImplementedError

    def matrix(self, query: Tensor, reference: Tensor | None) -> Tensor:
        """``compute_mat`` to the power."""
        rows = self.maybe_normalize(query)
        others = rows if reference is None else self.maybe_normalize(reference)
        return raised(self.compute_mat(rows, others), self.power)
