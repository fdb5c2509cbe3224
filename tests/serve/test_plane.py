import time

import numpy as np
import pytest

from lookalike.search import Index
from lookalike.serve.labels import Labels
from lookalike.serve.plane import Plane


def wait_for(plane):
    for _ in range(600):
        if plane.map().final:
            return plane.map()
        time.sleep(0.1)
    return pytest.fail("no map")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))


def test_a_rough_map_comes_at_once_and_a_good_one_later(shop):
    plane = Plane(shop, 1000)
    rough = plane.map()
    assert (rough.method, rough.final) == ("pca", False)
    good = wait_for(plane)
    assert good.method == "t-sne"
    assert good.rows.tolist() == rough.rows.tolist() == list(range(len(shop)))
    assert abs(good.places).max() == pytest.approx(1)
    nearest = np.linalg.norm(good.places[:, None] - good.places[None], axis=2) + 9 * np.eye(
        len(shop)
    )
    similar = shop.vectors @ shop.vectors.T - 9 * np.eye(len(shop))
    ranks = (similar > similar[np.arange(len(shop)), nearest.argmin(1)][:, None]).sum(1)
    assert np.median(ranks) < 5  # who is near on the map is similar indeed


def test_the_good_map_is_kept(shop):
    good = wait_for(Plane(shop, 1000))
    again = Plane(shop, 1000).map()
    assert again.final
    assert np.array_equal(again.places, good.places)


def test_a_damaged_map_is_made_again(shop, tmp_path):
    wait_for(Plane(shop, 1000))
    (kept,) = tmp_path.glob("map-*.npy")
    kept.write_bytes(b"broken")
    assert not Plane(shop, 1000).map().final


def test_large_indexes_are_shown_in_part(shop):
    found = Plane(shop, 20).map()
    assert len(set(found.rows.tolist())) == 20


def test_an_empty_index_has_an_empty_map(tmp_path, shop):
    found = Plane(Index.create(tmp_path / "empty.index", shop.embedder), 20).map()
    assert found.final
    assert found.places.shape == (0, 2)


def test_labels_are_counted(shop):
    table = Labels(shop).table()
    assert table.counts == [6] * 9
    assert [table.names[code] for code in table.codes] == list(shop.labels)
    assert (
        table.rows("teal disc").tolist()
        == np.flatnonzero(np.array(list(shop.labels)) == "teal disc").tolist()
    )
    assert len(table.rows(None)) == len(shop)
    assert len(table.rows("no such")) == 0
