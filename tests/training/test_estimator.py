"""The scikit-learn estimator, by scikit-learn's own checks and on real data."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lookalike as la
from lookalike.errors import BadInput


@parametrize_with_checks([la.MetricLearner(epochs=2, dim=4)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """Digits 0 to 4 to learn from, 5 to 9 to be tested on."""
    X, y = load_digits(return_X_y=True)
    return X[y < 5], y[y < 5], X[y >= 5], y[y >= 5]


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "multi-similarity"},
        {"loss": "proxy-anchor", "loss_lr": 0.1},
        {"loss": "triplet", "miner": "semi-hard", "start": "lda"},
        {"loss": "margin", "loss_settings": {"num_classes": "auto"}, "start": "random"},
    ],
)
def test_learns_what_helps(digits, settings):
    X, y, *_ = digits
    learner = la.MetricLearner(dim=8, epochs=10, lr=3e-3, **settings)
    before = clone(learner).set_params(epochs=0, start="random").fit(X, y).score(X, y)
    assert learner.fit(X, y).score(X, y) > before
    np.testing.assert_allclose(np.linalg.norm(learner.transform(X), axis=1), 1, rtol=1e-5)


def test_same_seed_same_map(digits):
    X, y, unseen, _ = digits
    maps = [la.MetricLearner(dim=8, epochs=2).fit(X, y).transform(unseen) for _ in range(2)]
    np.testing.assert_array_equal(*maps)


def test_an_embedding_does_not_depend_on_the_rows_beside_it(digits):
    """A matrix product in single precision rounds a row in other ways in other company."""
    X, y, unseen, _ = digits
    learner = la.MetricLearner(dim=8, epochs=1).fit(X, y)
    together = learner.transform(unseen)
    alone = np.concatenate([learner.transform(row[None]) for row in unseen[:200]])
    np.testing.assert_allclose(together[:200], alone, rtol=1e-7, atol=0)


def test_in_a_pipeline_and_a_grid(digits):
    X, y, *_ = digits
    pipe = make_pipeline(StandardScaler(), la.MetricLearner(dim=8, epochs=1))
    grid = {"metriclearner__loss": ["contrastive", "proxy-nca"]}
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(pipe, grid, cv=folds).fit(X[:300], y[:300])
    assert 0.5 < search.best_score_ <= 1


def test_wrong_names_are_refused(digits):
    X, y, *_ = digits
    with pytest.raises(BadInput, match="did you mean 'triplet'"):
        la.MetricLearner(loss="tripplet").fit(X, y)
    with pytest.raises(ValueError, match="start must be"):
        la.MetricLearner(start="PCA").fit(X, y)
