import pytest

from lookalike.search import Index
from lookalike.search.folder import segment
from tests.search.folder.collection import DIM, clustered, records


@pytest.fixture
def small(monkeypatch):
    """Collections of a thousand pictures are large."""
    monkeypatch.setattr(segment, "EXACT_BELOW", 1_000)


@pytest.fixture
def bare(tmp_path):
    """An empty index without a model."""
    return Index.create(tmp_path / "bare.index", None, dim=DIM)


@pytest.fixture
def many(small, bare):
    """An index of 3,000 vectors that is large enough for fast search."""
    bare.commit(records(0, 3_000), clustered(3_000))
    return bare
