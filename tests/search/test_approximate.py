import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.progress import Watcher
from lookalike.search import Index, Record, approximate
from lookalike.search.approximate import FastSearch, build, kind_for


class Notes(Watcher):
    def __init__(self):
        self.said = []

    def note(self, text):
        self.said.append(text)


def clustered(number, dim, seed=0):
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(40, dim))
    rows = centres[random.integers(0, 40, number)] + 0.7 * random.normal(size=(number, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def true_neighbours(queries, vectors, k):
    return np.argsort(-(queries @ vectors.T), axis=1)[:, :k]


@pytest.fixture
def many(tmp_path, embedder, monkeypatch):
    """An index of 3,000 vectors that is large enough for fast search."""
    monkeypatch.setattr(approximate, "EXACT_BELOW", 1_000)
    index = Index.create(tmp_path / "many.index", embedder)
    rows = clustered(3_000, embedder.dim)
    index.root_number(tmp_path)
    index.commit([Record(f"{i}.png", f"label{i % 7}") for i in range(len(rows))], rows)
    return index


@pytest.mark.parametrize("kind", ["hnsw", "ivf", "pq"])
def test_each_kind_reaches_the_recall_that_it_claims(tmp_path, kind):
    vectors, ids = clustered(4_000, 16), np.arange(4_000) * 5 + 3
    built = build(tmp_path / "x.faiss", kind, vectors, ids, 30_000, Watcher())
    assert built.recall >= 0.97
    assert built.sample == 256
    queries = clustered(200, 16, seed=4)
    found = FastSearch(tmp_path / "x.faiss", built).candidates(queries, 10)
    truth = ids[true_neighbours(queries, vectors, 10)]
    hits = [len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)]
    assert np.mean(hits) >= 0.93


def test_the_kind_follows_the_size():
    assert [kind_for(n) for n in (49_999, 50_000, 200_000, 5_000_000)] == [
        None,
        "hnsw",
        "ivf",
        "pq",
    ]


def test_settling_builds_measures_and_says_so(many):
    notes = Notes()
    many.optimize(notes)
    assert any("recall@10" in line and "against exact" in line for line in notes.said)
    again = Index.open(many.place)
    assert "HNSW" in again.approximation
    queries = clustered(50, many.embedder.dim, seed=4)
    truth = many.ids[true_neighbours(queries, many.vectors, 10)]
    fast = [[hit.id for hit in hits] for hits in again.search(queries, 10)]
    exact = [[hit.id for hit in hits] for hits in again.search(queries, 10, exact=True)]
    assert exact == truth.tolist()
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(fast, exact, strict=True)]) > 0.95
    notes.said.clear()
    again.optimize(notes)
    assert notes.said == []  # nothing has changed


def test_new_and_removed_pictures_count_at_once(many):
    many.optimize(Watcher())
    built = many.manifest.fast
    extra = clustered(20, many.embedder.dim, seed=8)
    many.commit([Record(f"new{i}.png") for i in range(20)], extra)
    many.optimize(Watcher())
    assert many.manifest.fast == built  # still the same file
    hits = many.search(extra, 1)
    assert [one[0].path for one in hits] == [f"new{i}.png" for i in range(20)]
    query = many.vectors[5].copy()
    near = [hit.id for hit in many.search(query, 30)[0]]
    many.remove(near[:25])
    assert many.manifest.fast == built
    after = [hit.id for hit in many.search(query, 30)[0]]
    assert len(after) == 30
    assert not set(near[:25]) & set(after)
    assert after[:5] == near[25:]


def test_many_changes_build_it_again_and_few_pictures_end_it(many):
    many.optimize(Watcher())
    before = many.manifest.fast
    many.remove(many.ids[::3].tolist())
    assert many.manifest.fast.count == len(many) == 2_000
    assert not (many.folder / before.file).exists()
    many.remove(many.ids[:1_500].tolist())
    assert many.manifest.fast is None
    assert not list(many.folder.glob("fast-*"))
    assert len(many.search(many.vectors[0], 5)[0]) == 5


def test_a_label_is_searched_exactly(many):
    many.optimize(Watcher())
    query = clustered(1, many.embedder.dim, seed=5)
    rows = np.flatnonzero(np.array(many.labels) == "label3")
    truth = rows[true_neighbours(query, many.vectors[rows], 8)[0]]
    found = many.search(query, 8, label="label3")[0]
    assert [hit.id for hit in found] == many.ids[truth].tolist()


def test_vectors_without_structure_stay_exact_when_the_fast_way_misses(many, monkeypatch):
    monkeypatch.setattr(approximate, "EFFORTS", (1,))
    monkeypatch.setattr(approximate, "FEWEST_CELLS", (1,))
    monkeypatch.setattr(approximate, "GRAPH_BELOW", 1_000)
    random = np.random.default_rng(0).normal(size=(2_000, many.embedder.dim)).astype(np.float32)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    many.commit([Record(f"noise{i}.png") for i in range(2_000)], random, many.ids.tolist())
    notes = Notes()
    many.optimize(notes)
    assert many.manifest.fast is None
    assert any("stays exact" in line for line in notes.said)


def test_a_damaged_file_is_noticed(many):
    many.optimize(Watcher())
    path = many.folder / many.manifest.fast.file
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(BadInput, match="damaged"):
        Index.open(many.place)
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(BadInput, match="damaged"):
        Index.open(many.place)
    path.unlink()
    with pytest.raises(BadInput, match="damaged"):
        Index.open(many.place)
