"""Collections of vectors, and what was found in them."""

import numpy as np

from lookalike.progress import Watcher
from lookalike.search import Record

DIM = 16


class Notes(Watcher):
    """A watcher that remembers what it was told."""

    def __init__(self):
        self.said = []

    def note(self, text):
        self.said.append(text)


def clustered(number, dim=DIM, seed=0):
    """Unit vectors round forty centres."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(40, dim))
    rows = centres[random.integers(0, 40, number)] + 0.7 * random.normal(size=(number, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def records(start, stop):
    """Records with a label and a price."""
    return [
        Record(f"{i}.png", f"label{i % 7}", {"price": str(i % 100)}) for i in range(start, stop)
    ]


def agreement(found, truth):
    """The share of the true hits that were found."""
    pairs = zip(found, truth, strict=True)
    shares = [len({h.id for h in a} & {h.id for h in b}) / max(1, len(b)) for a, b in pairs]
    return float(np.mean(shares))
