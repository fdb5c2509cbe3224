import time

import numpy as np
import pytest

from lookalike.search import Index
from lookalike.serve.map import _ONE, IndexMap


def wait_for(index_map):
    for _ in range(600):
        if index_map.layout().final:
            return index_map.layout()
        time.sleep(0.1)
    return pytest.fail("no map")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))


def test_a_rough_map_comes_at_once_and_a_good_one_later(shop):
    index_map = IndexMap(shop, 1000)
    rough = index_map.layout()
    assert (rough.method, rough.final) == ("pca", False)
    good = wait_for(index_map)
    assert good.method == "t-sne"
    assert good.ids.tolist() == rough.ids.tolist() == list(range(len(shop)))
    assert abs(good.coordinates).max() == pytest.approx(1)
    nearest = np.linalg.norm(
        good.coordinates[:, None] - good.coordinates[None], axis=2
    ) + 9 * np.eye(len(shop))
    similar = shop.vectors @ shop.vectors.T - 9 * np.eye(len(shop))
    ranks = (similar > similar[np.arange(len(shop)), nearest.argmin(1)][:, None]).sum(1)
    assert np.median(ranks) < 5  # who is near on the map is similar indeed


def test_the_good_map_is_kept(shop):
    good = wait_for(IndexMap(shop, 1000))
    again = IndexMap(shop, 1000).layout()
    assert again.final
    assert np.array_equal(again.coordinates, good.coordinates)


def test_a_damaged_map_is_made_again(shop, tmp_path):
    wait_for(IndexMap(shop, 1000))
    (kept,) = tmp_path.glob("map-*.npy")
    kept.write_bytes(b"broken")
    assert not IndexMap(shop, 1000).layout().final


def test_large_indexes_are_shown_in_part(shop):
    found = IndexMap(shop, 20).layout()
    assert len(set(found.ids.tolist())) == 20


def test_an_empty_index_has_an_empty_map(tmp_path, shop):
    found = IndexMap(Index.create(tmp_path / "empty.index", shop.embedder), 20).layout()
    assert found.final
    assert found.coordinates.shape == (0, 2)


def test_a_retired_map_does_not_wait_for_the_one_that_is_computed(shop):
    with _ONE:
        index_map = IndexMap(shop, 30)  # of which the cache has no map
        assert not index_map.layout().final
        index_map.retired = True
        assert wait_for(index_map).method == "pca"
