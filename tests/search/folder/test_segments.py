"""What an index of segments must get right at its edges."""

import shutil

import numpy as np
import pytest

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.search import Embedder, Index, Record
from lookalike.search.folder import contents, rows, store
from lookalike.search.folder.manifest import Manifest
from tests.search.folder.collection import DIM, clustered, records


def test_an_empty_index_answers(bare):
    assert (len(bare), bare.ids.tolist(), bare.label_names, bare.columns) == (0, [], [], [])
    assert bare.vectors.shape == (0, DIM)
    assert bare.search(np.ones(DIM)) == [[]]
    assert bare.count() == 0
    assert bare.label_counts() == {}
    bare.optimize(Watcher())
    bare.compact(Watcher())
    assert list(Index.open(bare.place).records) == []
    with pytest.raises(BadInput, match="has no model"):
        _ = bare.embedder


def test_one_picture_and_then_none(bare):
    bare.commit([Record("a.png")], clustered(1))
    assert [hit.path for hit in bare.search(clustered(1), 10)[0]] == ["a.png"]
    bare.remove([0])
    assert (len(bare), bare.search(clustered(1), 10)) == (0, [[]])
    assert bare.contents.manifest.segments == ()
    bare.commit([Record("a.png")], clustered(1))
    assert bare.ids.tolist() == [1]  # ids are never used again


def test_a_filter_that_matches_nothing(bare):
    bare.commit(records(0, 50), clustered(50))
    assert bare.search(clustered(2), 5, where="price > 1000") == [[], []]
    assert bare.count(bare.filter_for("price > 1000")) == 0
    assert bare.ids_where(bare.filter_for("price > 1000")).tolist() == []
    with pytest.raises(BadInput, match="did you mean 'price'"):
        bare.search(clustered(1), 5, where="prize < 3")


def test_labels_and_paths_with_odd_characters(bare):
    odd = ["it's", 'a "quote"', "new\nline", "ünïcödé 猫", "%_\\", "", " ", "a/b", "0"]
    given = [Record(f"{name}/1.png", name, {"näme 'x'": name}) for name in odd]
    bare.commit(given, clustered(len(odd)))
    again = Index.open(bare.place)
    assert list(again.records) == given
    for name in odd:
        (hits,) = again.search(np.ones(DIM), 20, label=name)
        assert [hit.label for hit in hits] == [name]
    assert again.label_names == sorted(odd)
    assert again.select(["a"]) == [odd.index("a/b")]
    assert again.select(["%_\\"]) == [odd.index("%_\\")]


def test_metadata_columns_may_differ_between_segments(bare):
    bare.commit([Record("a", None, {"price": "3"}), Record("b")], clustered(2))
    bare.commit([Record("c", "x", {"size": "9", "root": "r"})], clustered(1))
    bare.commit([Record("d", None, {"size": ""})], clustered(1))
    before = list(bare.records)
    assert bare.columns == ["price", "root", "size"]
    for _ in range(2):
        assert [hit.path for hit in bare.search(np.ones(DIM), where="price < 5")[0]] == ["a"]
        null = {hit.path for hit in bare.search(np.ones(DIM), where="size is null")[0]}
        assert null == {"a", "b"}
        assert [hit.path for hit in bare.search(np.ones(DIM), where="root = 'r'")[0]] == ["c"]
        assert list(bare.records) == before
        bare.compact(Watcher())
    assert len(bare.contents.manifest.segments) == 1
    assert bare.item(2).metadata == {"size": "9", "root": "r"}


def test_identical_vectors_are_all_found(bare):
    bare.commit(records(0, 30), np.repeat(clustered(1), 30, 0))
    found = bare.search(clustered(1), 30)[0]
    assert sorted(hit.id for hit in found) == list(range(30))


def test_a_record_of_the_same_path_replaces(bare):
    rows = clustered(6)
    bare.commit([Record("a", "old"), Record("b")], rows[:2])
    bare.commit([Record("a", "new"), Record("a", "newer")], rows[2:4])  # the last one counts
    assert list(zip(bare.ids.tolist(), bare.paths, bare.labels, strict=True)) == [
        (1, "b", None),
        (2, "a", "newer"),
    ]
    np.testing.assert_array_equal(bare.vector_of(2), rows[3])
    bare.commit([Record("a", root=1)], rows[4:5])  # the same path in another folder
    assert len(bare) == 3
    assert bare.ids_of([Record("a"), Record("a", root=1), Record("x")]).tolist() == [2, 3, -1]
    with pytest.raises(BadInput, match="there is no picture 0"):
        bare.records_of([0])
    with pytest.raises(BadInput, match="there is no picture 0"):
        bare.vectors_of([0])


def test_many_small_segments_are_merged_and_nothing_changes(bare):
    rows = clustered(40)
    for at in range(40):
        bare.commit(records(at, at + 1), rows[at : at + 1], [at - 3] if at % 5 == 4 else [])
        bare.optimize(Watcher())
        assert len(bare.contents.manifest.segments) <= store.MOST
    gone = {at - 3 for at in range(40) if at % 5 == 4}
    left = [at for at in range(40) if at not in gone]
    for one in (bare, Index.open(bare.place)):
        assert one.ids.tolist() == left
        assert list(one.records) == [records(at, at + 1)[0] for at in left]
        np.testing.assert_array_equal(one.vectors, rows[left])
        np.testing.assert_array_equal(one.vectors_of(left), rows[left])
        assert sum(one.label_counts().values()) == len(left)
    bare.compact(Watcher())
    assert len(bare.contents.manifest.segments) == 1
    assert bare.contents.manifest.segments[0].removed == 0
    assert sorted(path.name for path in bare.store.folder.iterdir()) == [
        ".compact.lock",
        ".lock",
        "index.json",
        "segments",
    ]
    assert bare.ids.tolist() == left


def test_a_reader_keeps_its_state_and_latest_has_the_new_one(bare):
    bare.commit(records(0, 20), clustered(20))
    reader = Index.open(bare.place)
    assert reader.latest() is reader
    before = reader.search(clustered(3, seed=1), 5)
    bare.commit(records(20, 30), clustered(10, seed=2), [0, 1])
    bare.compact(Watcher())
    assert reader.search(clustered(3, seed=1), 5) == before  # its files are gone by now
    assert list(reader.records) == records(0, 20)
    now = reader.latest()
    assert now is not reader
    assert now.generation > reader.generation
    assert now.updated >= reader.updated
    assert now.ids.tolist() == list(range(2, 30))
    assert now.latest() is now


def test_latest_shares_the_model_and_the_segments_that_have_not_changed(index, photos):
    model = index.embedder
    other = Index.open(index.place)
    other.remove([0])
    now = index.latest()
    assert now.embedder is model
    assert now.contents.segments[0].rows is index.contents.segments[0].rows
    assert len(now) == 11


def test_another_index_in_its_place_is_read_anew(index, tmp_path):
    """As when a collection is embedded again by another model, under the same name."""
    model, folder = index.embedder, index.store.folder
    index.remove([0, 1])
    index.compact(Watcher())
    index.remove([2])
    shutil.rmtree(folder)
    other = Index.create(folder, Embedder.from_network("small-cnn", weights="none"))
    other.commit([Record(f"{i}") for i in range(20)], np.eye(20, other.dim, dtype=np.float32))
    for number in range(3):
        other.remove([number])
    now = index.latest()
    assert now.fingerprint == other.fingerprint != model.fingerprint
    assert now.embedder.fingerprint == other.fingerprint
    assert now.ids.tolist() == other.ids.tolist()


def test_two_processes_create_one_index(tmp_path, monkeypatch):
    """The slower one finds the index of the other, and leaves it alone."""
    place = tmp_path / "new.index"
    lock = store.writing

    def slow_lock(folder):
        monkeypatch.setattr(store, "writing", lock)
        Index.create(place, None, dim=DIM).commit([Record("kept")], clustered(1))
        return lock(folder)

    monkeypatch.setattr(store, "writing", slow_lock)
    with pytest.raises(BadInput, match="there is an index in"):
        Index.create(place, None, dim=DIM)
    assert list(Index.open(place).paths) == ["kept"]


def test_two_objects_write_in_turn_and_roots_keep_their_numbers(bare, tmp_path):
    other = Index.open(bare.place)
    assert bare.root_number(tmp_path / "a") == 0
    assert other.root_number(tmp_path / "b") == 1
    assert bare.root_number(tmp_path / "b") == 1
    bare.commit([Record("x", root=0)], clustered(1))
    other.commit([Record("x", root=1)], clustered(1))
    bare.commit([], np.empty((0, DIM), np.float32), [0])
    other.commit([], np.empty((0, DIM), np.float32), [0])  # gone already: nothing happens
    assert Index.open(bare.place).ids.tolist() == [1]


def test_a_writer_waits_and_then_says_why(bare, monkeypatch):
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    with (
        store.writing(bare.store.folder),
        pytest.raises(LookalikeError, match="another process has been"),
    ):
        bare.commit(records(0, 1), clustered(1))


def test_two_compactions_exclude_each_other(bare, monkeypatch):
    monkeypatch.setattr(store, "COMPACTION_SECONDS", 0.05)
    for at in range(20):
        bare.commit(records(at, at + 1), clustered(1))
    with store.compacting(bare.store.folder) as mine:
        assert mine
        with pytest.raises(LookalikeError, match="another process is compacting"):
            bare.compact(Watcher())
        bare.optimize(Watcher())  # by rule: somebody else does it
        assert len(bare.contents.manifest.segments) == 20


def test_the_files_of_a_running_compaction_stay_and_those_of_a_killed_one_go(bare):
    work = bare.store.folder / "segments" / "m000099" / "items.arrow"
    work.parent.mkdir()
    (bare.store.folder / "segments" / "s000099").mkdir()
    with store.compacting(bare.store.folder):
        bare.commit(records(0, 1), clustered(1))
        assert work.parent.exists()
        assert not (bare.store.folder / "segments" / "s000099").exists()
        work.touch()
        bare.commit([], clustered(0))
        assert work.exists()
    bare.commit(records(1, 2), clustered(1))
    assert not work.parent.exists()


def test_adding_and_removing_during_a_merge(bare, monkeypatch):
    for at in range(0, 40, 10):
        bare.commit(records(at, at + 10), clustered(40)[at : at + 10])
    bare.commit([], clustered(0), [3, 13, 23, 33])
    bare.commit([Record("last")], clustered(1))
    writing = store.written

    def slow(*given):
        found = writing(*given)
        monkeypatch.setattr(store, "written", writing)
        other = Index.open(bare.place)
        other.commit([Record("meanwhile")], clustered(1), [5])  # 5 is in the merged segment
        return found

    monkeypatch.setattr(store, "written", slow)
    bare.compact(Watcher())
    expected = [at for at in range(42) if at % 10 != 3 and at != 5]
    for one in (bare, Index.open(bare.place)):
        assert one.ids.tolist() == expected
        assert one.records[len(one) - 1].path == "meanwhile"
    assert [note.removed for note in bare.contents.manifest.segments] == [0, 1]


def test_bad_vectors_are_refused(bare):
    with pytest.raises(BadInput, match=r"an array \[1, 16\], not \[1, 3\]"):
        bare.commit([Record("a")], np.ones((1, 3), np.float32))
    with pytest.raises(BadInput, match="not finite"):
        bare.commit([Record("a")], np.full((1, DIM), np.nan, np.float32))
    with pytest.raises(BadInput, match="not text"):
        bare.commit([Record("caf\udce9")], clustered(1))
    assert len(Index.open(bare.place)) == 0
    with pytest.raises(BadInput, match="needs the length"):
        Index.create(bare.store.folder.parent / "other", None)


def test_a_commit_reads_what_it_needs_only(bare, monkeypatch):
    """Neither the former records nor their vectors are looked at."""
    bare.commit(records(0, 500), clustered(500))
    monkeypatch.setattr(contents.FolderContents, "ids", property(lambda self: 1 / 0))
    monkeypatch.setattr(contents.FolderContents, "vectors_of", lambda *_: 1 / 0)
    bare.commit(records(490, 510), clustered(20), [3])
    assert len(bare) == 509
    bare.remove([4])
    assert bare.count() == 508


def test_large_files_are_verified_by_check_only(bare, monkeypatch):
    bare.commit(records(0, 50), clustered(50))
    (path,) = bare.store.folder.glob("segments/*/vectors.npy")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(BadInput, match=r"content of .*vectors\.npy"):
        Index.open(bare.place)
    monkeypatch.setattr(contents, "VERIFIED", path.stat().st_size - 1)
    assert len(Index.open(bare.place)) == 50


def test_tombstones_of_a_killed_writer_are_ignored(bare):
    bare.commit(records(0, 10), clustered(10))
    bare.remove([1])
    (home,) = (bare.store.folder / "segments").iterdir()
    (home / f"removed-{bare.generation + 1:06d}.npy").write_bytes(b"cut off")
    assert len(Index.open(bare.place)) == 9
    bare.remove([2])
    assert Index.open(bare.place).ids.tolist() == [0, 3, 4, 5, 6, 7, 8, 9]
    assert len(list(home.glob("removed-*"))) == 1


def test_answers_of_few_filters_are_remembered(bare):
    """Each costs memory that grows with the collection."""
    bare.commit(records(0, 100), clustered(100))
    for price in range(40):
        assert len(bare.search(np.ones(DIM), 3, where=f"price <> {price}")[0]) == 3
    (only,) = bare.contents.segments
    assert (
        only.choose.cache_info().currsize
        == only.rows.matches.cache_info().currsize
        == rows.REMEMBERED
    )


def test_a_full_disk_names_the_index(tmp_path):
    for lock in (store.writing, store.compacting):
        with (
            pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}'"),
            lock(tmp_path),
        ):
            raise OSError(28, "from a file that does not tell its name")


def test_space_is_reserved_before_rows_are_written(tmp_path):
    """A mapped file without space would kill the process where it is written to."""
    rows.allocated(tmp_path / "a.npy", np.dtype(np.float32), (1000, 64))
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 1000 * 64 * 4


def test_a_manifest_of_another_format_is_named(tmp_path):
    (tmp_path / "index.json").write_text('{"format": "other"}')
    with pytest.raises(BadInput, match=r"is not an index of lookalike: index\.json"):
        Index.open(tmp_path)


def test_any_flipped_bit_of_index_json_is_named_or_harmless(bare):
    bare.commit(records(0, 3), clustered(3))
    path = bare.store.folder / "index.json"
    content, whole, unnamed = path.read_bytes(), Manifest.read(bare.store.folder), []
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert Manifest.read(bare.store.folder) == whole  # other spaces
        except LookalikeError as error:
            unnamed += [str(error)] * ("index.json" not in str(error))
    assert unnamed == []
