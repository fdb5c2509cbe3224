"""``pytorch_metric_learning.utils.common_functions``: what user code calls."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["TorchInitWrapper"]


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
