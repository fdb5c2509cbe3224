import json

import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.search import Index, Record, check
from lookalike.search.check import check_index
from lookalike.search.folder.contents import FolderContents

DIM = 12


def rows(count, seed=0, spread=0.3):
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(5, DIM))
    found = centres[random.integers(0, 5, count)] + spread * random.normal(size=(count, DIM))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def stored(tmp_path):
    index = Index.create(tmp_path / "i", None, dim=DIM)
    index.commit([Record(f"{i}.png") for i in range(400)], rows(400))
    return index


def test_a_healthy_index(stored):
    found = check_index(stored.place)
    assert found.healthy
    assert (found.pictures, found.queries, found.recall) == (400, 256, 1.0)
    assert (found.duplicates, found.empty, found.missing) == ([], [], None)
    assert not found.drift.found
    assert "no drift" in str(found)
    json.dumps(found.as_dict())


def test_duplicates_empty_vectors_and_missing_files(stored, tmp_path):
    given = rows(3, seed=5)
    given[1] = given[0]
    given[2] = 0
    stored.root_number(tmp_path)
    stored.commit([Record("a"), Record("b"), Record("zero")], given)
    found = check_index(stored.place, files=True)
    assert found.healthy
    assert found.duplicates == [[400, 401]]
    assert found.empty == [402]
    assert len(found.missing) == 403
    assert "in 1 groups: [400, 401]" in str(found)


def test_drift_is_found_where_new_pictures_are_of_another_kind(stored):
    other = np.random.default_rng(3).normal(size=(60, DIM)).astype(np.float32)
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    stored.commit([Record(f"new{i}.png") for i in range(60)], other)
    found = check_index(stored.place)
    assert found.drift.found
    assert "they drift away" in str(found)


def test_drift_of_a_large_index_is_measured_on_a_sample(stored, monkeypatch):
    """New pictures that are only like each other do not make it search for all pictures."""
    depths = []
    search = FolderContents.search

    def spy(self, queries, k, where, exact):
        depths.append(k)
        return search(self, queries, k, where, exact)

    monkeypatch.setattr(FolderContents, "search", spy)
    monkeypatch.setattr(check, "BLOCK", 64)
    monkeypatch.setattr(check, "DRIFT_GALLERY", 100, raising=False)
    other = np.eye(1, DIM, dtype=np.float32) + np.full((40, DIM), 1e-3, np.float32)
    stored.commit([Record(f"new{i}.png") for i in range(40)], other)
    assert check_index(stored.place).drift.found
    assert max(depths) == 11


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_pictures(tmp_path, count):
    index = Index.create(tmp_path / "few", None, dim=DIM)
    index.commit([Record(f"{i}") for i in range(count)], rows(count))
    found = check_index(str(tmp_path / "few"))
    assert found.healthy
    assert found.drift is None


def test_every_damaged_file_is_named(stored):
    stored.commit([Record("more")], rows(1), [0])
    for name in ("vectors.npy", "items.arrow"):
        path = next(stored.store.folder.glob(f"segments/*/{name}"))
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        found = check_index(stored.place)
        assert not found.healthy
        assert name in str(found)
        path.write_bytes(whole)
    assert check_index(stored.place).healthy
    with pytest.raises(BadInput, match="there is no index"):
        check_index(stored.place + "-nothing")
