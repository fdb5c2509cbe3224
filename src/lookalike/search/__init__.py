"""Search by picture: models in folders, indexes, and what is made of them."""

from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Added, Index
from lookalike.search.items import Hit, Item, Record
from lookalike.search.sources import Skipped

__all__ = [
    "Added",
    "Blueprint",
    "Embedder",
    "Encoder",
    "Hit",
    "Index",
    "Item",
    "Record",
    "Skipped",
]
