"""All fuzzers by name; a module is imported when its fuzzer is asked for."""

import importlib

from chaos.hostile.fuzzer import Fuzzer

__all__ = ["NAMES", "fuzzer"]

NAMES = {
    "images": "images.Images",
    "stores": "images.Stores",
    "archives": "archives.Archives",
    "settings": "settings.Settings",
    "studies": "settings.Studies",
    "weights": "weights.Weights",
    "checkpoints": "weights.Checkpoints",
    "models": "weights.Models",
    "tables": "tables.Tables",
    "results": "results.Results",
    "indexes": "indexes.Indexes",
    "filters": "filters.Filters",
    "http": "http.Requests",
}


def fuzzer(name: str) -> Fuzzer:
    """The fuzzer called ``name``."""
    module, _, kind = NAMES[name].partition(".")
    made: Fuzzer = getattr(importlib.import_module(f"chaos.hostile.{module}"), kind)()
    return made
