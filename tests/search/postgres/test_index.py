"""The same index in a real PostgreSQL with pgvector."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.search import Embedder, Index, Record
from lookalike.search.postgres import store as postgres_store


def test_it_answers_as_the_folder_does(stored, index, embedder):
    queries = np.random.default_rng(1).normal(size=(4, embedder.dim)).astype(np.float32)
    for label in (None, "green"):
        here, there = (i.search(queries, 6, label=label) for i in (stored, index))
        for one, other in zip(here, there, strict=True):
            assert [hit.path for hit in one] == [hit.path for hit in other]
            assert [hit.label for hit in one] == [hit.label for hit in other]
            np.testing.assert_allclose(
                [hit.similarity for hit in one], [hit.similarity for hit in other], atol=1e-5
            )


def test_it_needs_nothing_but_the_server(stored, place, photos, embedder):
    opened = Index.open(place)
    assert opened.embedder.fingerprint == embedder.fingerprint
    assert opened.root == photos
    assert len(opened) == 12
    assert opened.label_names == ["blue", "green", "red"]
    np.testing.assert_allclose(np.linalg.norm(opened.vectors, axis=1), 1, atol=1e-5)
    for row, id in enumerate(opened.ids.tolist()):
        assert opened.item(id).path == opened.paths[row]
        assert opened.item(id).label == opened.labels[row]
        assert opened.file_of(id) == photos / opened.paths[row]
        np.testing.assert_array_equal(opened.vector_of(id), opened.vectors[row])


def test_add_and_remove(stored, place, photos):
    Image.new("RGB", (200, 200), "yellow").save(photos / "red" / "0.png")
    Image.new("RGB", (200, 200), "pink").save(photos / "red" / "9.png")
    added = stored.add(photos)
    assert (added.new, added.changed, added.unchanged) == (1, 1, 11)
    gone = stored.ids[:2].tolist()
    assert stored.remove(gone) == 2
    opened = Index.open(place)
    assert len(opened) == len(list(opened.paths)) == 11
    assert not set(gone) & set(opened.ids.tolist())
    with pytest.raises(BadInput, match="there is no picture"):
        stored.remove([gone[0]])
    assert stored.query([Image.open(photos / "red" / "9.png")], 1)[0][0].path == "red/9.png"


def test_metadata_is_kept(place, embedder, photos):
    (photos / "list.csv").write_text('path,label,note\nred/0.png,a,"say ""hi"", ü"\nred/1.png,,\n')
    index = Index.create(place, embedder, photos / "list.csv")
    assert [item.metadata for item in map(index.item, index.ids.tolist())] == [
        {"note": 'say "hi", ü'},
        {"note": ""},
    ]
    assert list(index.labels) == ["a", None]


def test_many_get_a_graph_that_agrees_with_exact_search(place, embedder, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres_store, "EXACT_BELOW", 1_000)
    random = np.random.default_rng(0)
    centres = random.normal(size=(30, embedder.dim))
    rows = centres[random.integers(0, 30, 2_000)] + 0.7 * random.normal(size=(2_000, embedder.dim))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    index = Index.create(place, embedder)
    index.root_number(tmp_path)
    index.commit([Record(f"{i}.png", f"{i % 3}") for i in range(2_000)], rows)
    index.optimize(Watcher())
    opened = Index.open(place)
    assert "HNSW" in opened.approximation
    assert float(opened.approximation.partition("recall@10 ")[2][:5]) >= 0.95
    plan = "EXPLAIN SELECT id FROM {schema}.item ORDER BY embedding <#> %s LIMIT 10"
    assert "Index Scan using item_graph" in str(opened.contents.tables.all(plan, [rows[0]]))
    queries = rows[:40] + 0.02 * random.normal(size=(40, embedder.dim)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    exact = [[hit.path for hit in hits] for hits in opened.search(queries, 10, exact=True)]
    assert exact == [[f"{row}.png" for row in one] for one in truth]
    fast = [[hit.path for hit in hits] for hits in opened.search(queries, 10)]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(fast, exact, strict=True)]) > 0.9
    labelled = opened.search(queries[:1], 10, label="2")[0]
    rows_of_label = truth_of_label(queries[0], rows, 2)
    assert [hit.path for hit in labelled] == [f"{row}.png" for row in rows_of_label]


def truth_of_label(query, rows, label):
    members = np.arange(label, len(rows), 3)
    return members[np.argsort(-(rows[members] @ query))[:10]]


def test_threads_can_share_it(stored):
    def ask(row):
        return [stored.search(stored.vectors[row], 3)[0][0].id for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert found == [[stored.ids[row]] * 10 for row in range(4)]


def test_a_query_by_another_model_is_refused(stored):
    torch.manual_seed(31)
    with pytest.raises(BadInput, match="another model"):
        stored.check_encoder(Embedder.from_network("small-cnn", weights="none"))


def test_what_is_not_there_or_there_already_is_refused(stored, place, postgres, embedder):
    with pytest.raises(BadInput, match="already"):
        Index.create(place, embedder)
    with pytest.raises(BadInput, match="there is no index 'nothing'"):
        Index.open(f"{postgres}#nothing")
    stored.store.tables.database.run(
        stored.store.schema, lambda run: run("UPDATE {schema}.model SET version = 9")
    )
    with pytest.raises(BadInput, match="version 9, and this lookalike reads version 3;"):
        Index.open(place)


def test_a_server_that_does_not_answer_gets_a_sentence_without_the_password():
    with pytest.raises(BadInput, match="cannot open") as caught:
        Index.open("postgresql://me:secret@127.0.0.1:1/shop")
    assert "secret" not in str(caught.value)


def test_a_failed_commit_leaves_everything(stored, place, embedder):
    bad = [Record("new.png"), Record("a\0b.png")]
    with pytest.raises((LookalikeError, ValueError)):
        stored.commit(bad, np.ones((2, embedder.dim), np.float32), stored.ids[:3].tolist())
    assert len(Index.open(place)) == 12
