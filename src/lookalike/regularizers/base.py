"""What every regulariser is: rows (embeddings or learned weights) in, a scalar out."""

from typing import Any, TypeAlias

from torch import Tensor, nn

from lookalike.registry import REGULARIZERS

__all__ = ["Regularizer", "RegularizerLike", "build"]


class Regularizer(nn.Module):
    """A penalty on rows: embeddings, or a loss's learned weights (one row a class)."""

    def forward(self, rows: Tensor) -> Tensor:
        """The penalty, a scalar."""
        raise NotImplementedError


RegularizerLike: TypeAlias = nn.Module | str | dict[str, Any]


def build(regularizer: RegularizerLike | None) -> nn.Module | None:
    """A regulariser by name, or by ``{name: ..., argument: ...}``; a module as it is."""
    if regularizer is None or isinstance(regularizer, nn.Module):
        return regularizer
    settings = {"name": regularizer} if isinstance(regularizer, str) else dict(regularizer)
    made: nn.Module = REGULARIZERS.create(settings.pop("name"), **settings)
    return made
