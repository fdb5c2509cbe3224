"""A model for use, trained on every class."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import lookalike as la
from lookalike import data
from lookalike.data import make_splits
from lookalike.errors import BadInput, LookalikeError
from lookalike.runs.run import Run
from lookalike.training.runner import for_all_classes


@pytest.fixture(scope="module")
def validated(pictures, tmp_path_factory):
    settings = {
        "data.name": "folder",
        "data.root": pictures,
        "data.transform": "small",
        "model.network": "small-cnn",
        "model.weights": "none",
        "model.dim": 8,
        "loss.name": "proxy-anchor",
        "sampler.batch_size": 8,
        "sampler.per_class": 2,
        "train.epochs": 3,
        "train.batches_per_epoch": 2,
        "runs_dir": tmp_path_factory.mktemp("runs"),
    }
    return la.train("recipe:glyphs", settings, progress=False)


def with_choice(run, folder, **changes):
    """A copy of a run whose result says something else."""
    (folder / "config.yaml").write_text((run.folder / "config.yaml").read_text())
    result = {key: value for key, value in (run.result | changes).items() if value is not None}
    (folder / "result.json").write_text(json.dumps(result))
    return Run(folder)


def test_every_class_trains_and_none_is_tested(pictures):
    images = data.load("folder", pictures)
    (split,) = make_splits(images, "all")
    np.testing.assert_array_equal(split.train.indices, np.arange(len(images)))
    assert split.validation is None
    assert not split.has_test
    assert split.description == "all: 16 training classes"
    with pytest.raises(LookalikeError, match="not available"):
        split.final_test()


def test_a_set_without_test_classes_trains(tmp_path, pictures):
    """What other protocols refuse."""
    rows = [f"{p.relative_to(pictures)},{p.parent.name},train" for p in pictures.rglob("*.png")]
    table = pictures / "all-train.csv"
    table.write_text("\n".join(["path,label,split", *rows]))
    images = data.load("csv", table)
    table.unlink()
    with pytest.raises(BadInput, match="has no test classes"):
        make_splits(images, "paper")
    assert make_splits(images, "all")[0].train.class_count == 16


def test_the_epochs_of_a_validated_run_on_all_its_classes(validated, tmp_path, monkeypatch):
    chosen = with_choice(validated, tmp_path, chosen_epoch=2)
    config = for_all_classes(chosen)
    assert (config.protocol.name, config.train.epochs) == ("all", 2)
    from lookalike.training import train

    run = train(config)
    assert run.done
    assert run.folder != validated.folder
    assert run.result["train_classes"] == 16
    assert "test" not in run.result
    assert run.scores == {}
    assert load_file(run.weights)["head.linear.weight"].shape[0] == 8
    assert la.load(run).embed([next(iter_images(run))]).shape == (1, 8)


def iter_images(run):
    yield from sorted(run.config.data.root.rglob("*.png"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"chosen_epoch": 0}, "no epoch was better"), ({"chosen_epoch": None}, "was not validated")],
)
def test_a_run_that_does_not_say_how_long_is_refused(validated, tmp_path, changes, sentence):
    with pytest.raises(BadInput, match=sentence):
        for_all_classes(with_choice(validated, tmp_path, **changes))
