"""Heads that start from the data, against scikit-learn and plain formulas."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from lookalike import models
from lookalike.errors import BadInput

RANDOM = np.random.default_rng(0)
LABELS = np.repeat(np.arange(8), 25)
FEATURES = RANDOM.normal(size=(8, 20))[LABELS] + RANDOM.normal(size=(200, 20)) * np.arange(1, 21)


def projected(weight, bias):
    return FEATURES @ weight.double().numpy().T + bias.double().numpy()


def same_up_to_sign(ours, theirs, rtol=1e-3):
    signs = np.sign((ours * theirs).sum(0))
    np.testing.assert_allclose(ours * signs, theirs, rtol=rtol, atol=1e-3)


def test_pca_is_scikit_learns():
    ours = projected(*models.pca(torch.from_numpy(FEATURES), 5))
    same_up_to_sign(ours, PCA(5).fit_transform(FEATURES))


def test_lda_spans_the_discriminants_of_scikit_learn():
    weight, bias = models.lda(torch.from_numpy(FEATURES), torch.from_numpy(LABELS), 7, 1e-9)
    ours = projected(weight, bias)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit_transform(FEATURES, LABELS)
    # whitened within classes: distances between class means are those of the textbook
    means = np.stack([ours[c == LABELS].mean(0) for c in range(8)])
    others = np.stack([theirs[c == LABELS].mean(0) for c in range(8)])
    gaps = np.linalg.norm(means[:, None] - means, axis=2)
    known = np.linalg.norm(others[:, None] - others, axis=2)
    np.testing.assert_allclose(gaps, known * np.mean(gaps[known > 0] / known[known > 0]), rtol=0.02)


def test_much_shrinkage_is_pca():
    features, labels = torch.from_numpy(FEATURES), torch.from_numpy(LABELS)
    weight, bias = models.lda(features, labels, 3, 1e9)
    ours = projected(weight, bias)
    same_up_to_sign(ours / ours.std(0), (p := projected(*models.pca(features, 3))) / p.std(0))


@pytest.mark.parametrize("labels", [torch.zeros(200, dtype=torch.long), torch.arange(200)])
def test_one_class_and_one_image_a_class_are_finite(labels):
    weight, bias = models.lda(torch.from_numpy(FEATURES), labels + 2**40, 4, 1.0)
    assert weight.isfinite().all()
    assert bias.isfinite().all()


def test_more_directions_than_features_are_refused():
    with pytest.raises(BadInput, match="more than the 20 features"):
        models.pca(torch.from_numpy(FEATURES), 21)


def clustered(noise, *, classes=12, images=10, seed=0):
    """Class means of unit spread; ``noise`` is the deviation inside classes, by direction."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), images)
    means = random.normal(size=(classes, len(noise)))
    rows = means[labels] + random.normal(size=(len(labels), len(noise))) * noise
    return torch.from_numpy(rows), torch.from_numpy(labels)


def cosines(rows):
    rows = rows.double().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


@pytest.mark.parametrize("shrink", [0.1, 3.0])
def test_whitened_features_have_the_angles_of_all_discriminants(shrink):
    features, labels = torch.from_numpy(FEATURES), torch.from_numpy(LABELS)
    found = models.Discriminants(features, labels).whitened(features, shrink)
    weight, bias = models.lda(features, labels, FEATURES.shape[1], shrink)
    np.testing.assert_allclose(
        cosines(found), cosines(torch.from_numpy(projected(weight, bias))), atol=1e-4
    )


def test_the_shrink_is_small_where_classes_vary_in_a_few_directions_only():
    features, labels = clustered(np.r_[np.full(3, 30.0), np.full(9, 0.3)])
    assert models.choose_shrink(features, labels) == min(models.SHRINKS)


def test_the_shrink_is_large_where_there_is_no_such_direction():
    # 40 images cannot tell 200 equal variances: what they seem to say is chance
    features, labels = clustered(np.full(200, 2.0), classes=8, images=5)
    assert models.choose_shrink(features, labels) >= 10


def test_the_shrink_does_not_depend_on_the_names_of_the_classes():
    features, labels = clustered(np.r_[np.full(3, 3.0), np.full(20, 0.7)])
    assert models.choose_shrink(features, labels) == models.choose_shrink(
        features, labels * 7 + 2**40
    )


@pytest.mark.parametrize(
    "labels", [np.repeat(np.arange(3), 10), np.r_[np.arange(27), 27, 27, 28]], ids=["3", "alone"]
)
def test_too_few_classes_to_compare_leave_out_the_discriminants(labels):
    features = torch.from_numpy(RANDOM.normal(size=(30, 6)))
    assert models.choose_shrink(features, torch.from_numpy(labels)) == float("inf")
