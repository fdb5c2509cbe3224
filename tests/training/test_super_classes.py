"""The hierarchical sampler by configuration, for data sets that have super-classes."""

from dataclasses import replace

import numpy as np
import pytest

from lookalike import data
from lookalike.errors import BadInput
from lookalike.training.building import build_sampler

HIERARCHICAL = ("sampler.name=hierarchical", "sampler.per_class=4", "sampler.super_classes=2")


def test_batches_hold_few_super_classes(tiny):
    images = data.load("glyphs")
    images = replace(images, super_labels=images.labels % 5)
    subset = data.make_splits(images, "fixed-validation")[0].train
    sampler = build_sampler(tiny(*HIERARCHICAL), subset)
    for _, batch in zip(range(5), sampler, strict=False):
        kinds = images.labels[subset.indices[batch]] % 5
        assert sorted(np.unique(kinds, return_counts=True)[1]) == [16, 16]


def test_data_without_super_classes_are_refused(tiny):
    subset = data.make_splits(data.load("glyphs"), "paper")[0].train
    with pytest.raises(BadInput, match="'glyphs' has none"):
        build_sampler(tiny(*HIERARCHICAL), subset)
