"""Search by cells: recall, filters, removed and new pictures.

With ``faiss.contrib.torch_utils`` imported, as pytorch-metric-learning does: from then on FAISS
returns tensors wherever it allocates the result itself.
"""

import faiss.contrib.torch_utils  # noqa: F401
import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.progress import Watcher
from lookalike.search import Index, Record
from lookalike.search.folder import cells, segment
from tests.search.folder.collection import DIM, Notes, agreement, clustered, records


def test_optimizing_builds_measures_and_says_so(many):
    notes = Notes()
    many.optimize(notes)
    assert any("recall@10" in line and "against exact" in line for line in notes.said)
    again = Index.open(many.place)
    assert "IVF" in again.approximation
    queries = clustered(50, seed=4)
    exact = again.search(queries, 10, exact=True)
    truth = np.argsort(-(queries @ many.vectors.T), axis=1)[:, :10]
    assert [[hit.id for hit in one] for one in exact] == many.ids[truth].tolist()
    assert agreement(again.search(queries, 10), exact) > 0.93
    notes.said.clear()
    again.optimize(notes)
    assert notes.said == []  # nothing has changed


@pytest.mark.parametrize(
    ("precision", "how"), [("float32", "IVF,"), ("float16", "IVF with float16 vectors,")]
)
def test_each_precision_reaches_the_recall_that_it_claims(tmp_path, small, precision, how):
    index = Index.create(tmp_path / "i", None, dim=DIM, vectors=precision)
    rows = clustered(4_000)
    index.commit(records(0, 4_000), rows)
    index.optimize(Watcher())
    assert how in index.approximation
    assert index.contents.manifest.segments[0].cells.recall >= 0.95
    queries = clustered(100, seed=4)
    for where in (None, "price < 50", "label = 'label3'"):
        found = index.search(queries, 10, where=where)
        assert agreement(found, index.search(queries, 10, where=where, exact=True)) > 0.9
    atol = {"float32": 1e-6, "float16": 1e-3}[precision]
    np.testing.assert_allclose(index.vectors, rows, atol=atol)
    hit = index.search(rows[7], 1)[0][0]
    assert (hit.path, hit.similarity) == ("7.png", pytest.approx(1, abs=2e-2))


def test_new_and_removed_pictures_count_at_once(many):
    many.optimize(Watcher())
    (built,) = many.contents.manifest.segments
    extra = clustered(20, seed=8)
    many.commit([Record(f"new{i}.png") for i in range(20)], extra)
    many.optimize(Watcher())
    assert many.contents.manifest.segments[0] == built  # still the same files
    hits = many.search(extra, 1)
    assert [one[0].path for one in hits] == [f"new{i}.png" for i in range(20)]
    query = many.vectors[5].copy()
    near = [hit.id for hit in many.search(query, 30, exact=True)[0]]
    many.remove(near[:25])
    (after,) = [note for note in many.contents.manifest.segments if note.name == built.name]
    assert after.cells == built.cells
    after = [hit.id for hit in many.search(query, 30)[0]]
    assert len(after) == 30
    assert not set(near[:25]) & set(after)
    assert many.search(query, 30, exact=True)[0][0].id == near[25]


def test_removing_much_writes_the_segment_anew_and_few_pictures_end_fast_search(many):
    many.optimize(Watcher())
    (before,) = many.contents.manifest.segments
    many.remove(many.ids[::3].tolist())
    (after,) = many.contents.manifest.segments
    assert after.count == len(many) == 2_000
    assert after.removed == 0
    assert not (many.store.folder / "segments" / before.name).exists()
    many.remove(many.ids[:1_500].tolist())
    assert many.approximation is None
    assert not list(many.store.folder.rglob("centroids-*"))
    assert len(many.search(many.vectors[0], 5)[0]) == 5


def test_the_centroids_are_kept_until_four_fold_growth(many):
    many.optimize(Watcher())
    (first,) = many.contents.segments
    many.commit(records(3_000, 5_000), clustered(2_000, seed=2))
    many.optimize(Watcher())
    assert sorted(note.count for note in many.contents.manifest.segments) == [2_000, 3_000]
    many.compact(Watcher())
    assert [note.count for note in many.contents.manifest.segments] == [5_000]
    for one in many.contents.segments:
        np.testing.assert_array_equal(one.cells.centroids, first.cells.centroids)
        assert one.note.cells.trained_on == 3_000
    queries = clustered(50, seed=4)
    assert agreement(many.search(queries), many.search(queries, exact=True)) > 0.93
    many.commit(records(5_000, 12_001), clustered(7_001, seed=3))
    many.optimize(Watcher())
    (note,) = many.contents.manifest.segments
    assert (note.count, note.cells.trained_on) == (12_001, 12_001)
    assert agreement(many.search(queries), many.search(queries, exact=True)) > 0.93


@pytest.mark.parametrize("where", ["price < 50", "price < 5", "label = 'label3'", "price = 7"])
def test_a_filter_finds_what_comparing_with_everything_finds(many, monkeypatch, where):
    monkeypatch.setattr(segment, "FEW", 100)
    many.optimize(Watcher())
    queries = clustered(60, seed=5)
    truth = many.search(queries, 8, where=where, exact=True)
    assert agreement(many.search(queries, 8, where=where), truth) > 0.95


def test_a_filter_on_pictures_far_from_the_query_finds_them_too(many, monkeypatch):
    """The chosen pictures lie in cells that the query alone would not visit."""
    monkeypatch.setattr(segment, "FEW", 100)
    rows = clustered(3_000)
    far = np.argsort(rows @ rows[0])[:900]
    given = [
        Record(f"{i}.png", None, {"far": "yes" if i in set(far.tolist()) else "no"})
        for i in range(3_000)
    ]
    many.commit(given, rows)
    many.compact(Watcher())
    assert len(many) == 3_000
    found = many.search(rows[:1], 20, where="far = 'yes'")
    assert {hit.metadata["far"] for hit in found[0]} == {"yes"}
    assert agreement(found, many.search(rows[:1], 20, where="far = 'yes'", exact=True)) >= 0.9


def test_more_hits_than_the_visited_cells_hold(many):
    many.optimize(Watcher())
    many.remove(many.ids[:100].tolist())
    query = clustered(2, seed=6)
    for k in (2_000, 2_900, 5_000):
        found = many.search(query, k)
        assert [len(one) for one in found] == [min(k, 2_900)] * 2
        assert len({hit.id for hit in found[0]}) == min(k, 2_900)
    matching = many.count(many.filter_for("price < 50"))
    assert len(many.search(query, 5_000, where="price < 50")[0]) == matching


def test_vectors_without_structure_stay_exact_when_the_fast_way_misses(many, monkeypatch):
    monkeypatch.setattr(cells, "NPROBES", (1,))
    random = np.random.default_rng(0).normal(size=(2_000, DIM)).astype(np.float32)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    many.commit([Record(f"noise{i}.png") for i in range(2_000)], random, many.ids.tolist())
    notes = Notes()
    many.optimize(notes)
    assert many.approximation is None
    assert any("stays exact" in line for line in notes.said)
    notes.said.clear()
    many.optimize(notes)
    assert notes.said == []  # it is not tried again and again
    assert len(many.search(random[:1], 5)[0]) == 5


@pytest.mark.parametrize("name", ["lists", "cells", "centroids"])
@pytest.mark.parametrize("harm", ["cut", "bit", "other", "gone"])
def test_damaged_cells_are_noticed(many, name, harm):
    many.optimize(Watcher())
    (path,) = many.store.folder.rglob(f"{name}-*")
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        path.write_bytes({"cut": whole[:-10], "bit": flipped, "other": b"x" * len(whole)}[harm])
    with pytest.raises(BadInput, match="damaged"):
        Index.open(many.place)


@pytest.mark.parametrize("where", [None, "price < 90"])
def test_columns_in_any_order_of_memory(many, where):
    many.optimize(Watcher())
    queries = clustered(5, seed=3)
    found = many.search(np.asfortranarray(queries.astype(np.float64)), 4, where=where)
    assert found == many.search(queries, 4, where=where)
