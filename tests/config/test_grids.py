"""Grid files: how cells are named and merged, and that ours mention what there is."""

from lookalike.config import recipes
from lookalike.config.loading import plain_yaml
from lookalike.config.recipes import Grid, GridFile, as_list

CONTENT = {
    "paper": "reality-check",
    "summary": "{method} on {dataset}",
    "common": {
        "model": {"network": "bn-inception", "dim": 128},
        "sampler": {"name": "spc", "batch_size": 32, "per_class": 4},
        "seed": 1,
    },
    "axes": {
        "dataset": {"cub": {"data": {"name": "cub"}}, "sop": {"data": {"name": "sop"}, "seed": 2}},
        "method": {
            "triplet": {"loss": {"name": "triplet", "margin": 9}},
            "margin": {"loss": {"name": "margin"}},
        },
        "size": {64: {"model": {"dim": 64}}, 128: {}},
    },
    "cells": [{"when": {"dataset": "sop", "method": "margin"}, "set": {"seed": 3}}],
    "grids": [
        {"name": "{dataset}/{method}"},
        {"name": "{dataset}/last", "only": {"method": "margin", "size": 64}, "set": {"seed": 4}},
    ],
}


def grids(**changes):
    file = GridFile.model_validate(CONTENT | changes)
    return [Grid(file, spec) for spec in file.grids]


def cells(grid):
    return {grid.name(choice): grid.values(choice) for choice in grid.choices()}


def test_cells_are_named_and_merged_in_order():
    first, last = grids()
    found = cells(first)
    assert list(found) == ["cub/triplet", "cub/margin", "sop/triplet", "sop/margin"]
    assert [values["seed"] for values in found.values()] == [1, 1, 2, 3]
    assert first.summary({"dataset": "cub", "method": "margin"}) == "margin on cub"
    assert [values["seed"] for values in cells(last).values()] == [4, 4]


def test_printed_values_go_over_the_axes():
    """Reality Check prints margin 0.0961 for triplet on CUB with batches of 32."""
    first, last = grids()
    assert cells(first)["cub/triplet"]["loss"] == {"name": "triplet", "margin": 0.0961}
    assert cells(first)["sop/margin"]["optim"] == {"loss_lr": 1.82e-3}
    assert cells(last)["cub/last"]["loss"] == {"name": "margin"}  # printed for 128 dimensions only


def test_notes_are_the_files_and_those_of_the_cell():
    cells = [*CONTENT["cells"], {"when": {"method": "margin"}, "note": "Of the margin loss."}]
    grid, _ = grids(notes="Of all.", cells=cells)
    assert grid.notes({"dataset": "cub", "method": "triplet"}) == "Of all."
    assert grid.notes({"dataset": "cub", "method": "margin"}) == "Of all.\n\nOf the margin loss."
    assert grid.values({"dataset": "sop", "method": "margin"})["seed"] == 3


def test_every_axis_and_value_that_our_files_mention_exists():
    contents = [plain_yaml(path) for path in recipes.folder().rglob("*.yaml")]
    files = [GridFile.model_validate(one) for one in contents if "grids" in one]
    assert files
    for file in files:
        for mentioned in [*(c.when for c in file.cells), *(one.only for one in file.grids)]:
            for axis, values in mentioned.items():
                assert set(as_list(values)) <= set(file.axes[axis])
