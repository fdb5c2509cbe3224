"""Test scores of the network before training, which show what training was good for."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lookalike.models.head import Head, l2_normalise

__all__ = ["untrained_scores"]

Scores = dict[str, float]


@torch.no_grad()
def untrained_scores(
    head: Head, features: Tensor, score: Callable[[Tensor], Scores]
) -> dict[str, Scores]:
    """The scores of a model that has not learned, from what goes into its head's linear layer.

    Args:
        head: As it is before training.
        features: What goes into its linear layer [n, width].
        score: Embeddings to scores.

    Returns:
        ``untrained``: of the model with its head, the state before the first step; and
        ``raw_features``: of the network's own features, where the head changes them.
    """
    raw = l2_normalise(features) if head.normalize else features
    if not isinstance(head.linear, nn.Linear):
        return {"untrained": score(raw)}
    projected: Tensor = head.linear(features.to(head.linear.weight)).float().cpu()
    embeddings = l2_normalise(projected) if head.normalize else projected
    return {"untrained": score(embeddings), "raw_features": score(raw)}
