"""The studies that come with the package: read, resolved, and what their papers did."""

import pytest

from lookalike.config import load, recipes
from lookalike.study import methods
from lookalike.study.config import load_study
from lookalike.study.tuning import trials_asked

FOLDER = recipes.folder() / "studies"
PATHS = sorted(FOLDER.glob("*.yaml"))
FACTS = methods.DatasetFacts("images", "weights", 75)


def resolved(study):
    return [row.resolve(study, FACTS) for row in methods.rows_of(study)]


def methods_of(name):
    study = load_study(FOLDER / f"{name}.yaml")
    return study, {method.name: method for method in resolved(study)}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_method_of_every_study_is_whole(path):
    study = load_study(path)
    assert resolved(study)


@pytest.mark.parametrize(
    ("place", "batch", "every", "patience"),
    [("cub", 32, 2, 9), ("cars", 32, 5, 14), ("sop", 32, 20, 39), ("cub-256", 256, 2, 9)],
)
def test_the_reality_check(place, batch, every, patience):
    study, found = methods_of(f"reality-check-{place}")
    assert {f"reality-check/{place}/{name}" for name in found} <= set(recipes.names())
    assert len(found) == 14
    assert (study.protocol.folds, study.repeats, study.metric) == (4, 10, "map@r")
    for method in found.values():
        assert trials_asked(study.tuner, method.search) == 50
        config = method.config
        assert config.sampler.arguments["batch_size"] == batch
        assert (config.train.validate_every, config.train.patience_epochs) == (every, patience)
        assert config.train.patience is None  # which would count validations
        assert (config.model.network, config.optim.name) == ("bn-inception", "rmsprop")


def test_the_thesis_cross_validation_is_that_of_its_recipes():
    study, found = methods_of("thesis-cross-validation")
    assert (study.protocol.folds, study.protocol.order) == (10, "random")
    for name, method in found.items():
        recipe = load(f"recipe:thesis/cub/bn-inception/512/{name}-cv")
        assert method.config.loss == recipe.loss
        assert method.config.miner == recipe.miner
        assert method.config.sampler.name == recipe.sampler.name
        assert (method.config.model, method.config.train) == (recipe.model, recipe.train)
        if name != "multi-similarity":  # which learns no weights of its own
            assert method.config.optim == recipe.optim


def test_the_split_ratios_of_the_thesis_are_those_of_its_recipes():
    study = load_study(FOLDER / "thesis-split-ratio.yaml")
    for value, method in zip(study.axes["ratio"], resolved(study), strict=True):
        recipe = load(f"recipe:thesis/split-ratio/{value}")
        assert method.config.protocol.ratio == recipe.protocol.ratio
        assert (method.config.loss, method.config.miner) == (recipe.loss, recipe.miner)
        assert (method.config.model, method.config.optim) == (recipe.model, recipe.optim)


def test_the_thesis_grid_holds_what_it_found():
    _, searched_for = methods_of("thesis-grid")
    for name, method in searched_for.items():
        found = load(f"recipe:thesis/cub/bn-inception/512/{name.removeprefix('grid-')}-fixed")
        for key, searched in method.search.items():
            if key == "loss.gamma":
                continue  # 58 is no point of its own grid of 10, 20, ...
            section, _, argument = key.partition(".")
            value = found.model_dump()[section][argument]
            steps = (value - searched.low) / searched.step
            assert searched.low <= value <= searched.high
            assert steps == pytest.approx(round(steps), abs=1e-6), key
