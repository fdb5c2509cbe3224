"""Indexes of a stranger, with right checksums: nothing outside is touched, nothing crashes."""

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BadInput
from lookalike.progress import Watcher
from lookalike.search import Index, Record
from lookalike.search.folder import cells, disk, table, writer
from lookalike.search.folder.disk import FileNote
from lookalike.search.folder.manifest import LogNote
from lookalike.search.folder.verify import damage_of
from tests.search.folder.collection import DIM, clustered, records


@pytest.fixture
def precious(tmp_path):
    """A folder outside of every index."""
    folder = tmp_path / "home"
    (folder / "s000007").mkdir(parents=True)
    for path in (
        folder / "diary.txt",
        folder / "s000007" / "vectors.npy",
        folder / "removed-1.log",
    ):
        path.write_text("precious")
    return folder


def contents(folder):
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def reseal(index, **changes):
    """Write the manifest as a stranger would, with the right checksum."""
    index.contents.manifest.model_copy(update=changes).write(index.store.folder)


def renoted(index, name):
    """The manifest's segments with the file ``name`` of the first one noted as it is now."""
    first = index.contents.manifest.segments[0]
    note = FileNote.of(index.store.folder / "segments" / first.name / name)
    return (first.model_copy(update={"files": {**first.files, name: note}}),)


def test_a_folder_of_segments_that_leads_elsewhere_is_refused(bare, precious):
    (bare.store.folder / "segments").rmdir()
    (bare.store.folder / "segments").symlink_to(precious)
    before = contents(precious)
    writes = (
        lambda: bare.commit(records(0, 1), clustered(1)),
        lambda: bare.root_number(precious),
        lambda: bare.compact(Watcher()),
    )
    for write in writes:
        with pytest.raises(BadInput, match="segments' is a symbolic link"):
            write()
    assert contents(precious) == before


@pytest.mark.parametrize("name", ["segments/s000000", "removed-000001.log", "model"])
def test_any_link_inside_an_index_is_refused_by_writers(bare, precious, name):
    (bare.store.folder / name).symlink_to(precious)
    with pytest.raises(BadInput, match="is a symbolic link"):
        bare.commit(records(0, 1), clustered(1))


def test_writers_remove_only_what_writers_name(bare):
    kept = ["segments/notes", "segments/s000009/holiday.jpg", "state-1/x", "removed-me.txt"]
    for name in kept:
        (bare.store.folder / name).parent.mkdir(exist_ok=True)
        (bare.store.folder / name).write_text("mine")
    bare.commit(records(0, 1), clustered(1))
    bare.compact(Watcher())
    assert all((bare.store.folder / name).read_text() == "mine" for name in kept)


def test_the_names_that_writers_give_are_those_that_they_remove(many):
    many.optimize(Watcher())
    many.commit([], np.empty((0, DIM), np.float32), [1])
    names = [path.name for path in many.store.folder.rglob("*") if path.is_file()]
    segments = {path.name for path in (many.store.folder / "segments").rglob("*") if path.is_file()}
    assert segments == set(disk.SEGMENT_FILES)
    other = {"index.json", disk.WRITE_LOCK, disk.COMPACTION_LOCK}
    assert all(writer.OURS.fullmatch(name) for name in set(names) - segments - other)
    assert all(
        writer.OURS.fullmatch(path.name) for path in (many.store.folder / "segments").iterdir()
    )


@pytest.mark.parametrize("name", ["../home/diary.txt", "/etc/passwd", "a/b", "..", ""])
def test_a_manifest_names_no_file_elsewhere(bare, precious, name):
    bare.commit(records(0, 2), clustered(2))
    bare.commit([], np.empty((0, DIM), np.float32), [1])
    before = contents(precious)
    segment, log = bare.contents.manifest.segments[0], bare.contents.manifest.removed
    for changes in (
        {"removed": log.model_copy(update={"file": name})},
        {"segments": (segment.model_copy(update={"name": name}),)},
        {"segments": (segment.model_copy(update={"files": {name: FileNote(size=0, crc=0)}}),)},
    ):
        reseal(bare, **changes)
        with pytest.raises(BadInput, match=r"damaged: index\.json"):
            Index.open(bare.place)
    assert contents(precious) == before


@pytest.mark.parametrize("name", ["holiday.jpg", "index.json", "removed-me.txt"])
def test_tombstones_are_appended_to_no_other_file(bare, name):
    bare.commit(records(0, 2), clustered(2))
    path = bare.store.folder / name
    if not path.exists():
        path.write_text("mine")
    reseal(bare, removed=LogNote.model_construct(file=name, entries=0, crc=0))
    before = path.read_bytes()
    with pytest.raises(BadInput, match=r"damaged: index\.json"):
        Index.open(bare.place).commit([], np.empty((0, DIM), np.float32), [1])
    assert path.read_bytes() == before


def test_offsets_beyond_the_data_are_refused_before_they_are_followed(bare):
    """In a process of its own: where they are followed it ends by a signal."""
    bare.commit([Record(f"{i:04}.png", "a label") for i in range(200)], clustered(200))
    path = bare.store.folder / "segments" / bare.contents.manifest.segments[0].name / table.FILE
    data = bytearray(path.read_bytes())
    offsets = np.arange(0, 201 * 8, 8, dtype=np.int64).tobytes()
    at = data.index(offsets)
    wrong = np.arange(0, 201 * 8, 8, dtype=np.int64)
    wrong[100:200] = 2**40
    data[at : at + len(offsets)] = wrong.tobytes()
    path.write_bytes(data)
    reseal(bare, segments=renoted(bare, table.FILE))
    assert "items.arrow cannot be read" in damage_of(bare.store.folder, Watcher())[0]
    program = (
        "from lookalike.search import Index\n"
        f"index = Index.open({str(bare.place)!r})\n"
        "print([record.path for record in index.records][:1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1, done.returncode
    assert "items.arrow cannot be read" in done.stderr


@pytest.mark.parametrize("kind", ["columns", "nulls", "text"])
def test_other_tables_are_refused(bare, kind):
    bare.commit(records(0, 3), clustered(3))
    path = bare.store.folder / "segments" / bare.contents.manifest.segments[0].name / table.FILE
    schema = table.schema_of(("price",))
    values = {
        field.name: pa.array(
            ["x"] * 3 if pa.types.is_large_string(field.type) else [0] * 3, field.type
        )
        for field in schema
    }
    if kind == "nulls":
        values["path"] = pa.array(["x", None, "y"], pa.large_string())
    elif kind == "text":
        bad = pa.array([b"\xff\xfe"] * 3, pa.large_binary())
        values["path"] = pa.Array.from_buffers(pa.large_string(), 3, bad.buffers())
    else:
        schema = pa.schema([pa.field("path", pa.int64()), *list(schema)[1:]])
        values["path"] = pa.array([1, 2, 3])
    with pa.ipc.new_file(str(path), schema) as sink:
        sink.write_batch(pa.record_batch(list(values.values()), schema=schema))
    reseal(bare, segments=renoted(bare, table.FILE))
    with pytest.raises(BadInput, match=r"items\.arrow cannot be read"):
        Index.open(bare.place)


def test_cells_beyond_the_end_of_their_file_are_refused(many):
    many.optimize(Watcher())
    home = many.store.folder / "segments" / many.contents.manifest.segments[0].name
    sizes = many.contents.segments[0].cells._index.invlists
    lengths = np.array([sizes.list_size(at) for at in range(sizes.nlist)], np.uint64).tobytes()
    data = bytearray((home / cells.FILE).read_bytes())
    at = data.index(lengths)
    forged = np.frombuffer(lengths, np.uint64).copy()
    forged[0] = 2**30
    data[at : at + len(lengths)] = forged.tobytes()
    (home / cells.FILE).write_bytes(data)
    reseal(many, segments=renoted(many, cells.FILE))
    with pytest.raises(BadInput, match=r"ann\.faiss (is of another segment|cannot be read)"):
        Index.open(many.place)


def test_cells_of_longer_vectors_are_refused(many, tmp_path):
    many.optimize(Watcher())
    other = Index.create(tmp_path / "other.index", None, dim=2 * DIM)
    other.commit(records(0, 3_000), clustered(3_000, 2 * DIM))
    other.optimize(Watcher())
    mine, theirs = many.contents.manifest.quantisers[0], other.contents.manifest.quantisers[0]
    (many.store.folder / mine.file).write_bytes((other.store.folder / theirs.file).read_bytes())
    reseal(many, quantisers=(theirs.model_copy(update={"file": mine.file}),))
    with pytest.raises(BadInput, match=r"quantiser.* is not of vectors of 16 numbers"):
        Index.open(many.place)


def test_a_pipe_instead_of_a_file_is_refused(bare):
    bare.commit(records(0, 3), clustered(3))
    path = bare.store.folder / "segments" / bare.contents.manifest.segments[0].name / "keys.npy"
    path.unlink()
    os.mkfifo(path)
    segment = bare.contents.manifest.segments[0]
    note = {**segment.files, "keys.npy": FileNote(size=0, crc=0)}
    reseal(bare, segments=(segment.model_copy(update={"files": note}),))
    with pytest.raises(BadInput, match=re.escape("keys.npy does not have")):
        Index.open(bare.place)


def test_a_record_of_a_folder_that_the_index_does_not_name_has_no_file(bare):
    bare.commit([Record("x", root=7), Record("y", root=-1)], clustered(2))
    found = Index.open(bare.place)
    assert [found.find_file(record) for record in found.records] == [None, None]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (cells.CELLS, "cells.npy names cells that there are not"),
        ("keys.npy", "keys.npy names pictures beyond the last"),
    ],
)
def test_numbers_beyond_the_end_are_refused_before_they_are_followed(many, name, sentence):
    """FAISS adds a vector to any cell that it is told, also one that it does not have."""
    many.optimize(Watcher())
    path = many.store.folder / "segments" / many.contents.manifest.segments[0].name / name
    numbers = np.load(path)
    numbers[..., ::7] = 2**31 + 5
    np.save(path, numbers)
    reseal(many, segments=renoted(many, name))
    found = Index.open(many.place)
    with pytest.raises(BadInput, match=sentence):
        found.commit([], np.empty((0, DIM), np.float32), list(range(2_000)))
        found.compact(Watcher())


def test_a_file_of_another_kind_of_search_is_refused(many):
    import faiss

    many.optimize(Watcher())
    note = many.contents.manifest.quantisers[0]
    path = many.store.folder / note.file
    other = faiss.index_factory(DIM, f"IVF{note.cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    other.train(clustered(3_000))
    faiss.write_index(other, str(path))
    reseal(many, quantisers=(note.model_copy(update={"note": FileNote.of(path)}),))
    with pytest.raises(BadInput, match=r"does not have cells of float32"):
        Index.open(many.place)


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": -1},
        {"next_id": 2**62},
        {"generation": -1},
        {"segments": {"count": -1}},
        {"segments": {"first": 2**62}},
        {"fast": {"quantiser": "nothing.faiss"}},
        {"fast": {"nprobe": 0}},
        {"removed": {"entries": 2**62}},
        {"removed": {"entries": 2**40}},
        {"removed": {"entries": 2**31}},
        {"quantisers": {"cells": -5}},
    ],
    ids=str,
)
def test_a_manifest_of_impossible_numbers_is_refused(many, changes):
    many.optimize(Watcher())
    many.commit([], np.empty((0, DIM), np.float32), [1])
    found = many.contents.manifest
    ((key, value),) = changes.items()
    first, quantiser = found.segments[0], found.quantisers[0]
    if key == "segments":
        value = (first.model_copy(update=value),)
    elif key == "fast":
        key, value = (
            "segments",
            (first.model_copy(update={"fast": first.fast.model_copy(update=value)}),),
        )
    elif key == "removed":
        value = found.removed.model_copy(update=value)
    elif key == "quantisers":
        value = (quantiser.model_copy(update=value),)
    reseal(many, **{key: value})
    with pytest.raises(BadInput, match=r"damaged: index\.json"):
        Index.open(many.place)


def test_tombstones_that_are_not_there_reserve_no_memory(many):
    many.commit([], np.empty((0, DIM), np.float32), [1])
    log = many.contents.manifest.removed.model_copy(update={"entries": 3_000})
    reseal(many, removed=log)
    with pytest.raises(BadInput, match="is cut off"):
        Index.open(many.place)


FORGED_HEADERS = {
    "cut off": "(((((",
    "other keys": "{1: 2, 'descr': '<f4', 3: 4}",
    "large": f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 8), }}",
    "truth": "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 8), }",
    "minus": "-" * 9_000 + "1",
}


@pytest.mark.parametrize("header", [None, *FORGED_HEADERS])
def test_arrays_that_numpy_does_not_expect_are_refused_in_one_sentence(bare, header):
    """NumPy raises almost any exception for a forged header, and opens an archive as one."""
    bare.commit(records(0, 3), clustered(3))
    path = bare.store.folder / "segments" / bare.contents.manifest.segments[0].name / "vectors.npy"
    if header is None:
        np.savez(path.with_suffix(".npz"), clustered(3))
        path.with_suffix(".npz").rename(path)
    else:
        text = FORGED_HEADERS[header].encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    reseal(bare, segments=renoted(bare, "vectors.npy"))
    with pytest.raises(BadInput, match=r"damaged: vectors\.npy (cannot be read|is an archive)"):
        Index.open(bare.place)
