"""Mixing: examples between two classes as further candidates, for every additive loss."""

from lookalike.mixing.mixing import Mixing, additive_names

__all__ = ["Mixing", "additive_names"]
