"""``lookalike train data.name=folder``, as a user starts it: the recipe for one's own pictures."""

import pytest

from lookalike.config import load, recipes
from lookalike.training import train


@pytest.fixture(scope="module")
def few(coloured_noise):
    """Twelve classes, nine pictures each: six classes to train on, two to validate."""
    return coloured_noise(12, 9)


def test_few_classes_train_and_the_start_is_tested_beside_them(few, tmp_path):
    given = ["data.name=folder", f"data.root={few}"]
    run = train(
        load(recipes.default_recipe(given), [*given, f"runs_dir={tmp_path}", "train.epochs=2"])
    )
    result = run.result
    assert result["train_classes"] == 4
    first, *later = [epoch["validation map@r"] for epoch in run.epochs()]
    assert len(later) == 2
    assert result["validation"]["map@r"] == max(first, *later)
    assert set(result["untrained"]) == set(result["raw_features"]) == set(result["test"])


def test_another_network_takes_the_recipe_too(few):
    settings = ["data.name=folder", f"data.root={few}", "model.network=resnet18"]
    assert load(recipes.default_recipe(settings), settings).model.frozen_until is None
