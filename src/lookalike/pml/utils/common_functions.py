"""``pytorch_metric_learning.utils.common_functions``: the few that user code calls."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from lookalike.distances.statistics import Statistics

__all__ = ["EmbeddingDataset", "TorchInitWrapper"]


class _WithSwitch(ModuleType):
    """This module, whose ``COLLECT_STATS`` may be set and is then seen by every part."""

    @property
    def COLLECT_STATS(self) -> bool:  # noqa: N802
        """Whether parts made from now on say that they keep statistics; none are kept."""
        return Statistics.wanted

    @COLLECT_STATS.setter
    def COLLECT_STATS(self, wanted: bool) -> None:  # noqa: N802
        Statistics.wanted = wanted


sys.modules[__name__].__class__ = _WithSwitch


class TorchInitWrapper:
    """A function of ``torch.nn.init`` with its arguments, for ``weight_init_func``.

    Args:
        init_func: Fills a tensor.
        **kwargs: Its other arguments.

    >>> import torch
    >>> from lookalike.pml.losses import NormalizedSoftmaxLoss
    >>> fill = TorchInitWrapper(torch.nn.init.constant_, val=2)
    >>> NormalizedSoftmaxLoss(2, 3, weight_init_func=fill).W.unique().item()
    2.0
    """

    def __init__(self, init_func: Callable[..., object], **kwargs: Any) -> None:
        self.init_func = init_func
        self.kwargs = kwargs

    def __call__(self, tensor: Tensor) -> None:
        """Fill the tensor."""
        self.init_func(tensor, **self.kwargs)


class EmbeddingDataset(Dataset[tuple[Any, Any]]):
    """Embeddings with their labels as a data set.

    Args:
        embeddings: One row per item.
        labels: One label per item.
    """

    def __init__(self, embeddings: Any, labels: Any) -> None:
        self.embeddings = embeddings
        self.labels = labels

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.embeddings[index], self.labels[index]
