import numpy as np
import pytest

from lookalike.search import Index, Record


@pytest.fixture
def place(postgres, request):
    return f"{postgres}#{request.node.name}"


@pytest.fixture
def stored(place, embedder, photos):
    return Index.create(place, embedder, photos)


@pytest.fixture(scope="session")
def unit_rows():
    """Unit vectors round some centres."""

    def make(count, dim, seed=0):
        random = np.random.default_rng(seed)
        centres = random.normal(size=(30, dim))
        rows = centres[random.integers(0, 30, count)] + 0.7 * random.normal(size=(count, dim))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    return make


@pytest.fixture
def records():
    """Records with metadata."""

    def make(count, start=0):
        return [
            Record(f"{i}.png", f"{i % 3}", {"price": f"{i}", "odd": "yes" if i % 2 else "no"})
            for i in range(start, start + count)
        ]

    return make
