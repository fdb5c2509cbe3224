"""Data sets, splits, transforms and the image cache."""

from lookalike.data import cub, glyphs
from lookalike.data.cache import PixelStore, open_store
from lookalike.data.image_set import ImageSet, UnreadableImage, load
from lookalike.data.split import PROTOCOLS, Split, Subset, make_splits
from lookalike.data.transforms import PRESETS, Normalisation, Preset, preset

__all__ = [
    "PRESETS",
    "PROTOCOLS",
    "ImageSet",
    "Normalisation",
    "PixelStore",
    "Preset",
    "Split",
    "Subset",
    "UnreadableImage",
    "cub",
    "glyphs",
    "load",
    "make_splits",
    "open_store",
    "preset",
]
