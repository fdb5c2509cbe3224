"""Embeddings of several views are the mean of those of each view."""

import pytest
import torch
from torch.nn import functional

from lookalike import models
from lookalike.data import ONE_VIEW, Views
from lookalike.models import multi_view
from lookalike.ops.rows import normalize_rows


@pytest.mark.parametrize("normalize", [True, False])
def test_the_mean_of_all_views(normalize):
    torch.manual_seed(0)
    model = models.build("small-cnn", dim=8, normalize=normalize).eval()
    images = torch.randn(3, 3, 32, 32)
    half = functional.interpolate(images, (16, 16), mode="bilinear")
    shown = [half, half.flip(3), images, images.flip(3)]
    with torch.no_grad():
        expected = torch.stack([model(view) for view in shown]).mean(0)
        expected = normalize_rows(expected) if normalize else expected
        found = multi_view(model, Views(flip=True, scales=(0.5, 1.0)))(images)
    torch.testing.assert_close(found, expected)


def test_one_view_is_the_model_itself():
    model = models.build("small-cnn", dim=8)
    assert multi_view(model, ONE_VIEW) is model


def test_frozen_parts_stay_frozen():
    """Switching to evaluation and back must not train a frozen batch norm."""
    model = models.build("small-cnn", dim=8)
    model.freeze(bn_statistics=True)
    model.train()
    both = multi_view(model, Views(flip=True))
    was = both.training
    both.eval()
    both.train(was)
    assert model.training
    assert not any(layer.training for layer in model._batch_norms())
