"""An index that version 1 wrote: six pictures of two labels, one replaced, one removed and back."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.search import Blueprint, Embedder, Index

OLD = Path(__file__).parent / "version-1"


@pytest.fixture
def old(tmp_path):
    return shutil.copytree(OLD, tmp_path / "old.index")


def test_it_says_how_to_upgrade(old):
    with pytest.raises(BadInput, match=r"'lookalike index upgrade .*old\.index' upgrades it"):
        Index.open(old)


def test_ids_paths_labels_metadata_and_vectors_survive(old):
    lines = (old / "state-000003" / "items.jsonl").read_text().splitlines()
    before = [json.loads(line) for line in lines]
    vectors = np.load(old / "state-000003" / "vectors.npy")
    assert Index.upgrade(str(old)) == 1
    index = Index.open(old)
    assert index.ids.tolist() == [2, 3, 4, 5, 6, 7]
    assert [vars(record) for record in index.records] == before
    np.testing.assert_array_equal(index.vectors, vectors)
    assert index.label_counts() == {"blue ü": 2, "red ü": 2}
    assert index.columns == ["brand", "price"]
    assert index.roots == (Path("/photos"),)
    found = index.search(vectors[1], 2, where="price < 1 and brand = 'x''y'")[0]
    assert [hit.id for hit in found] == [3, 6]
    assert sorted(path.name for path in old.iterdir()) == [".lock", "index.json", "segments"]
    index.commit([], np.empty((0, 8), np.float32), [2])
    assert Index.open(old).manifest.next_id == 8
    assert Index.upgrade(str(old)) == 2  # nothing to do


def test_the_model_stays(old, tmp_path):
    blueprint = Blueprint(network="small-cnn", dim=8)
    model = Embedder(blueprint.build(), blueprint)
    model.save(old / "model")
    values = json.loads((old / "index.json").read_text())
    (old / "index.json").write_text(json.dumps(values | {"model": model.fingerprint}))
    Index.upgrade(str(old))
    assert Index.open(old).embedder.fingerprint == model.fingerprint


def test_an_empty_index_is_upgraded(old):
    values = json.loads((old / "index.json").read_text())
    np.save(old / "state-000003" / "ids.npy", np.empty(0, np.int64))
    np.save(old / "state-000003" / "vectors.npy", np.empty((0, 8), np.float32))
    (old / "index.json").write_text(json.dumps(values | {"count": 0, "sizes": {}}))
    Index.upgrade(str(old))
    assert len(Index.open(old)) == 0


@pytest.mark.parametrize("name", ["vectors.npy", "ids.npy", "items.jsonl"])
@pytest.mark.parametrize("harm", ["cut", "gone", "other"])
def test_a_damaged_one_is_refused_and_left_alone(old, name, harm):
    path = old / "state-000003" / name
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-3] if harm == "cut" else b"\xff" * len(whole))
    with pytest.raises(BadInput, match="damaged"):
        Index.upgrade(str(old))
    assert json.loads((old / "index.json").read_text())["version"] == 1
