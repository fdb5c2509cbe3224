"""A weighted sum of losses, each with a miner of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.miners.mined import Indices

__all__ = ["MultipleLosses"]


class MultipleLosses(nn.Module):
    """The weighted sum of several losses of the same batch, each with its own miner.

    Args:
        losses: By name, or a list; ours or PML's.
        miners: By the names of losses, or a list as long, with None for a loss without miner.
        weights: By name, or a list as long; None: 1 each.

    >>> import torch
    >>> from lookalike.losses import ContrastiveLoss, IntraPairVarianceLoss
    >>> loss = MultipleLosses([ContrastiveLoss(), IntraPairVarianceLoss()], weights=[1, 0.5])
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(1.4142)
    """

    def __init__(
        self,
        losses: Mapping[str, nn.Module] | Sequence[nn.Module],
        miners: Mapping[str, nn.Module] | Sequence[nn.Module | None] | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.is_dict = isinstance(losses, Mapping)
        parts = _by_name(losses)
        chosen = {} if miners is None else _matching(miners, losses, "miners")
        self.losses: nn.ModuleDict | nn.ModuleList
        self.losses = nn.ModuleDict(parts) if self.is_dict else nn.ModuleList(parts.values())
        self.miners = nn.ModuleDict({k: miner for k, miner in chosen.items() if miner is not None})
        self.factors = dict.fromkeys(parts, 1.0)
        if weights is not None:
            self.factors = _matching(weights, losses, "weights")
            if self.factors.keys() != parts.keys():
                raise BadInput("weights must be given for each of the losses, or for none")

    @property
    def weights(self) -> dict[str, float] | list[float]:
        """The weight of each loss, as they were given."""
        return self.factors if self.is_dict else list(self.factors.values())

    def forward(
        self, embeddings: Tensor, labels: Labels | None, indices_tuple: Indices | None = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: [N, D].
            labels: One per embedding.
            indices_tuple: For all losses; None where they have miners of their own.

        Returns:
            A scalar.
        """
        if len(self.miners) and indices_tuple is not None:
            raise BadInput("the losses have miners of their own, and take no indices_tuple")
        total: Any = 0
        for name, loss in self.losses.named_children():
            mined = indices_tuple
            if name in self.miners:
                mined = self.miners[name](embeddings, labels)
            total = total + self.factors[name] * loss(embeddings, labels, mined)
        summed: Tensor = total
        return summed


def _by_name(parts: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """The parts by name; those of a list by their number."""
    if isinstance(parts, Mapping):
        return dict(parts)
    return {str(number): part for number, part in enumerate(parts)}


def _matching(given: Any, losses: Any, what: str) -> dict[str, Any]:
    """What is given for the losses, by name; refused where it does not fit them."""
    found, names = _by_name(given), _by_name(losses)
    alike = isinstance(given, Mapping) == isinstance(losses, Mapping)
    complete = isinstance(given, Mapping) or len(found) == len(names)
    if not (alike and complete and found.keys() <= names.keys()):
        raise BadInput(f"{what} must be given as the losses are: by their names, or a list as long")
    return found
