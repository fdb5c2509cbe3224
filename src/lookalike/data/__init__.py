"""Data sets, splits, transforms and the image cache."""

# The modules of the data sets are imported because that registers them.
from lookalike.data import (  # noqa: F401
    glyphs,
    official,
    own_images,
)
from lookalike.data.checking import CheckReport, check
from lookalike.data.image_set import ImageSet, UnreadableImage
from lookalike.data.loading import load, prepare
from lookalike.data.official import Counts
from lookalike.data.presets import PRESETS, own_transform, preset
from lookalike.data.split import ORDERS, PROTOCOLS, Split, Subset, draw_test_half, make_splits
from lookalike.data.store import ImageStore, chosen_store, open_store
from lookalike.data.transforms import ONE_VIEW, Normalisation, Preset, Views

__all__ = [
    "ONE_VIEW",
    "ORDERS",
    "PRESETS",
    "PROTOCOLS",
    "CheckReport",
    "Counts",
    "ImageSet",
    "ImageStore",
    "Normalisation",
    "Preset",
    "Split",
    "Subset",
    "UnreadableImage",
    "Views",
    "check",
    "chosen_store",
    "draw_test_half",
    "load",
    "make_splits",
    "open_store",
    "own_transform",
    "prepare",
    "preset",
]
