"""Search by picture: indexes of pictures, near-duplicates, wrong labels."""

from lookalike.inference.embedder import Blueprint, Embedder
from lookalike.inference.encoder import Encoder
from lookalike.search.index import Index
from lookalike.search.items import Added, Hit, Item, Record, Skipped

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
