"""``lookalike train data.name=folder``, as a user starts it: the recipe for one's own pictures."""

import numpy as np
import pytest
from PIL import Image

from lookalike.config import load, recipes
from lookalike.training import train


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Twelve classes of coloured noise, nine pictures each: six to train on, two to validate."""
    folder = tmp_path_factory.mktemp("few")
    random = np.random.default_rng(0)
    for number in range(12):
        colour = random.integers(0, 256, 3)
        (folder / f"{number:02}").mkdir()
        for image in range(9):
            pixels = np.clip(colour + random.normal(0, 40, (170, 180, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}" / f"{image}.png")
    return folder


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
