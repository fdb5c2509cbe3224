"""Stores of images that were decoded and resized once: raw pixels, or shards of JPEGs."""

from lookalike.data.stores.jpeg import JpegStore
from lookalike.data.stores.opening import chosen_store, open_store
from lookalike.data.stores.raw import PixelStore
from lookalike.data.stores.store import ImageStore

__all__ = ["ImageStore", "JpegStore", "PixelStore", "chosen_store", "open_store"]
