"""Random draws of samplers that follow ``np.random`` where they have no seed of their own."""

import numpy as np

from lookalike.samplers.base import Indices

__all__ = ["draw_some", "generator"]


def generator(seed: int | None) -> np.random.Generator:
    """A generator; for None one whose seed ``np.random`` draws."""
    return np.random.default_rng(np.random.randint(2**31) if seed is None else seed)


def draw_some(items: Indices, number: int, random: np.random.Generator) -> Indices:
    """So many items, all different where there are that many."""
    return random.choice(items, number, replace=len(items) < number)
