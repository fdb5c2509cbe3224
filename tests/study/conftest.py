import dataclasses

import pytest
import yaml

BASE = {
    "model": {
        "network": "efficientnet-lite0",
        "weights": "imagenet",
        "frozen": True,
        "frozen_views": 1,
        "head_init": "pca",
        "dim": 8,
    },
    "sampler": {"name": "spc", "batch_size": 8, "per_class": 2},
    "train": {"epochs": 2, "batches_per_epoch": 5, "eval_batch_size": 512, "device": "cpu"},
}


@pytest.fixture(scope="session")
def study_values(pictures):
    """A study of seconds on a folder of pictures, as the mapping in its file."""

    def values(**changes):
        return {
            "name": "small",
            "data": {"name": "folder", "root": str(pictures), "transform": "none"},
            "base": BASE,
            "methods": ["triplet", "proxy-anchor"],
            "protocol": {"folds": 2, "metrics": ["recall@1", "map@r"]},
            "tuner": {"trials": 3},
            "repeats": 2,
        } | changes

    return values


@pytest.fixture
def study_file(tmp_path, study_values):
    """The same as a file."""

    def write(**changes):
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(study_values(**changes)))
        return path

    return write


@pytest.fixture(scope="session")
def timeless():
    """Everything that a study found, but how long it took."""

    def bare(row):
        values = dataclasses.asdict(row)
        values.pop("seconds", None)
        values.pop("readings", None)  # how often a winner was tested is history, not a result
        for part in (*values.get("trials", ()), *values.get("repeats", ())):
            del part["seconds"]
        return values

    return lambda results: [bare(row) for row in (*results.rows, *results.baselines)]
