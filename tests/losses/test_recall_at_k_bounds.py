"""No more than k positives count among the first k."""

import math

import pytest
import torch

from lookalike import losses


def test_the_soft_number_of_positives_is_at_most_k():
    """Eight of a class at k = 1, a soft threshold: the sigmoids add up to more than one."""
    torch.manual_seed(0)
    embeddings = torch.nn.functional.normalize(torch.randn(10, 3, dtype=torch.float64), dim=1)
    labels = [0] * 8 + [1] * 2
    sigma, threshold, k = 0.05, 5.0, 1
    similarity = (embeddings @ embeddings.T).tolist()

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    values, above = [], 0
    for a in range(10):
        items = [j for j in range(10) if j != a]
        positives = [j for j in items if labels[j] == labels[a]]
        inside = 0.0
        for p in positives:
            before = sum(
                sigmoid((similarity[a][j] - similarity[a][p]) / sigma) for j in items if j != p
            )
            inside += sigmoid((k - 1 - before) / threshold)
        above += inside > k
        values.append(1 - min(k, inside) / min(k, len(positives)))
    assert above == 8
    loss = losses.create("recall-at-k", k_vals=(k,), temperature=sigma, k_temperature=threshold)
    found = loss(embeddings, torch.tensor(labels)).item()
    assert found == pytest.approx(sum(values) / 10, rel=1e-9)
