import numpy as np
import pytest
import torch

from lookalike.evaluation.projection import project_tsne


def test_classes_that_lie_apart_are_apart_on_the_map():
    labels = np.repeat(np.arange(10), 12)
    noise = torch.randn(120, 32, generator=torch.Generator().manual_seed(0))
    flat = project_tsne(10 * torch.eye(32)[torch.from_numpy(labels)] + 0.2 * noise, seed=0)
    distance = np.linalg.norm(flat[:, None] - flat[None], axis=2) + 10 * np.eye(120)
    assert (labels[distance.argmin(1)] == labels).mean() > 0.95
    assert np.abs(flat).max() == pytest.approx(1)


def test_the_same_seed_gives_the_same_map():
    rows = torch.randn(60, 8, generator=torch.Generator().manual_seed(1))
    assert np.array_equal(project_tsne(rows, seed=5), project_tsne(rows, seed=5))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_any_number_of_points_can_be_drawn(count):
    rows = torch.randn(count, 4, generator=torch.Generator().manual_seed(2))
    flat = project_tsne(rows, seed=0)
    assert flat.shape == (count, 2)
    assert np.isfinite(flat).all()


@pytest.mark.parametrize(
    "rows",
    [torch.ones(40, 4), torch.zeros(40, 4), torch.ones(40, 1), torch.eye(2).half()[[0, 1] * 20]],
)
def test_collapsed_embeddings_can_be_drawn(rows):
    assert np.isfinite(project_tsne(rows, seed=0)).all()
