"""``lookalike train data.name=folder``, as a user starts it: the recipe for one's own pictures."""

import pytest

from lookalike.config import load, recipes
from lookalike.runs.run import test_embeddings as stored_embeddings
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


@pytest.mark.parametrize(
    "name", ["folder", "csv", "parquet", "webdataset", "huggingface", "my.package:photos"]
)
def test_every_kind_of_own_images_starts_from_the_recipe(name):
    settings = [f"data.name={name}", "data.root=photos"]
    config = load(recipes.default_recipe(settings), settings)
    assert (config.data.name, config.data.transform) == (name, "small")
    assert (config.model.network, config.model.weights) == ("efficientnet-lite0", "imagenet")
    assert recipes.default_recipe(["data.name=cub"]) is None


def test_which_classes_test_is_drawn_for_all_seeds_alike(few, tmp_path):
    given = ["data.name=folder", f"data.root={few}", f"runs_dir={tmp_path}", "train.epochs=0"]

    def tested(*more):
        run = train(load("recipe:folder", [*given, *more]))
        return set(stored_embeddings(run).labels.tolist())

    last = set(range(6, 12))
    assert tested("protocol.order=sequential") == last  # as the configuration of older runs says
    assert tested() == tested("seed=5") != last
    assert tested("protocol.seed=5") != tested()
