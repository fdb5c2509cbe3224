"""How often samplers that look at embeddings choose what, counted."""

import numpy as np
import pytest
import torch

from lookalike import samplers


def test_d2_draws_by_the_squared_distance():
    """Of three images on a circle: after the first pick, each other by its squared distance."""
    angles = torch.tensor([0.0, 0.6, 2.4])
    embeddings = torch.stack([angles.cos(), angles.sin()], 1)
    sampler = samplers.create("d2", [0, 1, 2], batch_size=2, per_class=1, pool=3, seed=1)
    sampler.fill(embeddings)
    after_first = []
    for _ in range(9000):
        ((first, second),) = sampler
        if first == 0:
            after_first.append(second)
    near, far = (float((embeddings[0] - embeddings[at]).square().sum()) for at in (1, 2))
    share = after_first.count(1) / len(after_first)
    assert len(after_first) > 2500
    assert share == pytest.approx(near / (near + far), abs=0.03)  # by the distance: 0.24


def test_the_moments_of_ddm_are_weighed_as_in_the_public_code():
    """75 times the Wasserstein distance, plus the differences of mean and standard deviation."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    batches = random.permutation(60)[:40].reshape(2, 20)
    plain, weighed = (
        samplers.create("ddm", np.arange(60) // 4, batch_size=20, per_class=4, moments=moments)
        for moments in (False, True)
    )

    def distances(chosen):
        gaps = np.linalg.norm(chosen[:, None] - chosen[None], axis=2)
        return gaps[np.triu_indices(len(chosen), 1)]

    whole = distances(rows)
    own = [distances(rows[batch]) for batch in batches]
    gaps = [abs(d.mean() - whole.mean()) + abs(d.std() - whole.std()) for d in own]
    expected = 75 * plain.dissimilarity(rows, batches) + gaps
    assert weighed.dissimilarity(rows, batches) == pytest.approx(expected, rel=1e-6)
