"""``pytorch_metric_learning.utils.common_functions``: the few that user code calls."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

__all__ = ["EmbeddingDataset", "TorchInitWrapper"]


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
