import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.errors import BadInput, LookalikeError
from lookalike.search import Embedder, Index


def test_it_finds_what_numpy_finds(index, embedder):
    queries = np.random.default_rng(1).normal(size=(3, embedder.dim)).astype(np.float32)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    similarity = unit @ np.asarray(index.vectors).T
    for hits, row in zip(index.search(queries, 5), similarity, strict=True):
        best = np.argsort(-row)[:5]
        assert [hit.id for hit in hits] == index.ids[best].tolist()
        np.testing.assert_allclose([hit.similarity for hit in hits], row[best], atol=1e-6)


def test_a_picture_finds_itself_and_its_colour(index, photos):
    hits = index.query([Image.open(photos / "green" / "2.png")], 4)[0]
    assert hits[0].path == "green/2.png"
    assert hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert [hit.label for hit in hits] == ["green"] * 4


def test_rows_ids_and_files_belong_together(index, photos, embedder):
    assert len(index) == 12
    assert index.root == photos
    assert index.label_names == ["blue", "green", "red"]
    for row, id in enumerate(index.ids.tolist()):
        item = index.item(id)
        assert (item.path, item.label) == (index.paths[row], index.labels[row])
        assert index.file_of(id) == photos / item.path
        vector = embedder.embed([Image.open(index.file_of(id))])[0]
        np.testing.assert_allclose(index.vector_of(id), vector, atol=1e-5)


def test_a_label_narrows_the_search(index, photos):
    hits = index.query([Image.open(photos / "green" / "2.png")], 10, label="red")[0]
    assert len(hits) == 4
    assert {hit.label for hit in hits} == {"red"}
    with pytest.raises(BadInput, match="did you mean 'green'"):
        index.query([Image.open(photos / "green" / "2.png")], label="grene")


def test_it_needs_nothing_but_its_folder(index, photos, tmp_path):
    shutil.move(index.place, tmp_path / "elsewhere")
    query = Image.open(photos / "red" / "0.png")
    shutil.move(photos, tmp_path / "gone")
    moved = Index.open(tmp_path / "elsewhere")
    assert moved.query([query], 1)[0][0].path == "red/0.png"
    with pytest.raises(LookalikeError, match="no longer"):
        moved.file_of(0)


def test_vectors_are_mapped_and_protected(index):
    opened = Index.open(index.place)
    assert isinstance(opened.vectors, np.memmap)
    opened.vectors[0] = 0
    assert np.linalg.norm(Index.open(index.place).vectors[0]) == pytest.approx(1, abs=1e-5)


def test_add_embeds_what_is_new_or_changed_only(index, photos):
    before = dict(zip(index.paths, index.ids.tolist(), strict=True))
    old = index.vector_of(before["red/0.png"])
    Image.new("RGB", (200, 200), "yellow").save(photos / "red" / "0.png")
    Image.new("RGB", (200, 200), "pink").save(photos / "red" / "9.png")
    added = index.add(photos)
    assert (added.new, added.changed, added.unchanged) == (1, 1, 11)
    after = dict(zip(index.paths, index.ids.tolist(), strict=True))
    assert len(after) == 13
    assert after["red/0.png"] > max(before.values())
    assert {path: after[path] for path in before if path != "red/0.png"} == {
        path: id for path, id in before.items() if path != "red/0.png"
    }
    assert not np.allclose(index.vector_of(after["red/0.png"]), old, atol=1e-3)
    assert index.add(photos).unchanged == 13


def test_another_folder_can_be_added(index, tmp_path):
    more = tmp_path / "more" / "white"
    more.mkdir(parents=True)
    Image.new("RGB", (170, 170), "white").save(more / "0.png")
    index.add(more.parent)
    found = Index.open(index.place)
    assert found.roots == (index.root, more.parent)
    id = found.ids[-1]
    assert found.item(id).label == "white"
    assert found.file_of(id) == more / "0.png"


def test_removed_pictures_stay_away(index):
    gone = index.ids[[0, 5]].tolist()
    assert index.remove(gone) == 2
    for one in (index, Index.open(index.place)):
        assert len(one) == 10
        assert not set(gone) & set(one.ids.tolist())
        assert all(hit.id not in gone for hit in one.search(one.vectors[3], 12)[0])
        assert len(list(one.labels)) == len(list(one.paths)) == 10
    with pytest.raises(BadInput, match="there is no picture"):
        index.remove([gone[0]])
    index.remove(index.ids.tolist())
    assert Index.open(index.place).search(np.ones(index.embedder.dim)) == [[]]


def test_a_csv_brings_labels_and_metadata(tmp_path, photos, embedder):
    table = tmp_path / "list.csv"
    table.write_text(
        "path,label,price\nphotos/red/0.png,warm,3.50\nphotos/blue/1.png,,4\n"
        "photos/blue/1.png,cold,4\nnowhere.png,cold,1\n"
    )
    index = Index.create(tmp_path / "i", embedder)
    added = index.add(table)
    assert added.new == 2
    assert [(s.path, s.reason) for s in added.skipped] == [
        ("photos/blue/1.png", "it is listed twice"),
        ("nowhere.png", "there is no such file"),
    ]
    assert index.item(0).metadata == {"price": "3.50"}
    assert [index.item(i).label for i in (0, 1)] == ["warm", None]
    assert list(index.metadata) == [{"price": "3.50"}, {"price": "4"}]
    assert index.label_names == ["warm"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,label\na.png,x\n", "column 'path' is missing"),
        ("path,label\na.png\n", "row 2: 2 values expected"),
        ("path,x,x\na.png,1,2\n", "occurs twice"),
        ('path\n""\n', "row 2: path must not be empty"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, embedder, text, sentence):
    (tmp_path / "list.csv").write_text(text)
    index = Index.create(tmp_path / "i", embedder)
    with pytest.raises(BadInput, match=sentence):
        index.add(tmp_path / "list.csv")


def test_a_query_by_another_model_is_refused(index, embedder):
    index.check_encoder(embedder)
    torch.manual_seed(99)
    with pytest.raises(BadInput, match="another model"):
        index.check_encoder(Embedder.from_network("small-cnn", weights="none"))


@pytest.mark.parametrize(
    ("vector", "k", "sentence"),
    [
        (np.ones(3), 1, "not 3"),
        (np.zeros(256), 1, "not zero"),
        (np.full(256, np.nan), 1, "not zero"),
        (np.ones(256), 0, "k must be"),
        (np.ones((2, 2, 256)), 1, r"not the shape \[2, 2, "),
        ([[1.0, 2.0], [3.0]], 1, "must be a vector of"),
        (["far"], 1, "must be a vector of"),
    ],
)
def test_a_bad_query_is_refused(index, vector, k, sentence):
    if np.shape(vector[0]) != (2,) and np.size(vector) % 256 == 0:
        vector = vector[..., : index.dim]
    with pytest.raises(BadInput, match=sentence):
        index.search(vector, k)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("order", ["C", "F"])
def test_only_the_direction_of_a_query_counts(index, scale, order):
    queries = np.array(np.asarray(index.vectors)[:3] * np.float32(scale), order=order)
    found = index.search(queries, 1)
    assert [hits[0].id for hits in found] == index.ids[:3].tolist()
    assert [hits[0].similarity for hits in found] == pytest.approx([1, 1, 1], abs=1e-5)


def test_an_id_of_more_than_64_bits_is_unknown(index):
    with pytest.raises(BadInput, match=f"no picture {2**70} in"):
        index.item(2**70)
    with pytest.raises(BadInput, match=f"no picture -{2**70} in"):
        index.remove([0, -(2**70)])
    assert len(index) == 12


def test_what_is_no_index_is_refused(tmp_path, index, embedder):
    with pytest.raises(BadInput, match=r"there is no index"):
        Index.open(tmp_path / "nothing")
    with pytest.raises(BadInput, match="already"):
        Index.create(index.place, embedder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(BadInput, match="not an index"):
        Index.create(tmp_path / "full", embedder)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_another_version_is_refused(index, tmp_path):
    path = tmp_path / "colours.index" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(BadInput, match="version 99"):
        Index.open(index.place)
    for text in ("{", "[" * 99_999):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"index\.json is not JSON"):
            Index.open(index.place)


@pytest.mark.parametrize("name", ["vectors.npy", "items.arrow"])
@pytest.mark.parametrize("harm", ["cut", "gone", "other", "bit"])
def test_damage_is_noticed(index, name, harm):
    (path,) = index.store.folder.glob(f"segments/*/{name}")
    whole = path.read_bytes()
    if harm == "cut":
        path.write_bytes(whole[:-3])
    elif harm == "gone":
        path.unlink()
    elif harm == "bit":
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    else:
        path.write_bytes(b"\xff" * len(whole))
    with pytest.raises(BadInput, match="damaged"):
        Index.open(index.place)


@pytest.mark.parametrize("harm", ["cut", "gone", "bit"])
def test_damaged_tombstones_are_noticed(index, harm):
    index.remove(index.ids[:1].tolist())
    (path,) = index.store.folder.glob("segments/*/removed-*")
    whole = path.read_bytes()
    if harm == "cut":
        path.write_bytes(whole[:-3])
    elif harm == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(BadInput, match="damaged"):
        Index.open(index.place)


def test_a_changed_manifest_is_noticed(index):
    path = index.store.folder / "index.json"
    path.write_text(path.read_text().replace('"next_id": 12', '"next_id": 11'))
    with pytest.raises(BadInput, match=r"damaged: the content of index\.json"):
        Index.open(index.place)
    path.write_text("{")
    with pytest.raises(BadInput, match="not JSON"):
        Index.open(index.place)


def test_a_model_of_another_index_is_noticed(index, tmp_path):
    torch.manual_seed(77)
    other = Embedder.from_network("small-cnn", weights="none")
    other.save(tmp_path / "colours.index" / "model")
    with pytest.raises(BadInput, match="damaged"):
        _ = Index.open(index.place).embedder


def test_two_writers_do_not_overwrite_each_other(index, photos):
    other = Index.open(index.place)
    Image.new("RGB", (200, 200), "pink").save(photos / "red" / "9.png")
    other.add(photos)
    added = index.add(photos)  # embeds it too, and replaces it
    assert (added.new, added.unchanged) == (1, 12)
    assert len(index) == len(Index.open(index.place)) == 13


def test_pictures_are_selected_by_path_folder_label_and_missing_file(index, photos):
    by_path = dict(zip(index.paths, index.ids.tolist(), strict=True))
    red = [id for path, id in by_path.items() if path.startswith("red/")]
    assert index.select(["./red/1.png"]) == [by_path["red/1.png"]]
    assert index.select(["red/"]) == red
    assert index.select(label="red") == red
    (photos / "blue" / "2.png").unlink()
    assert index.select(missing=True) == [by_path["blue/2.png"]]
    assert set(index.select(["red"], missing=True)) == {*red, by_path["blue/2.png"]}
    assert index.select() == []
    with pytest.raises(BadInput, match=r"did you mean .red/1\.png"):
        index.select(["red/1.pgn"])
    for name in ("x/" * 2_000, "a\0b", "caf\udce9.jpg"):
        with pytest.raises(BadInput, match="the index has no"):
            index.select([name])
    with pytest.raises(BadInput, match="did you mean 'green'"):
        index.select(label="grene")
    assert index.select(where="path like 'red/%' and label = 'red'") == red
    with pytest.raises(BadInput, match="no picture has the column 'prize'"):
        index.select(where="prize < 3")


def test_many_paths_are_looked_up_at_once(index, photos, monkeypatch):
    def scan(*_):
        raise AssertionError("every picture is looked at")

    monkeypatch.setattr(index, "ids_where", scan)
    paths = [path for path in index.paths if path.startswith(("red", "blue"))]
    assert len(index.select(paths)) == 8
