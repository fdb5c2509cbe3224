"""Indexes of a stranger, with right checksums: nothing outside is touched, nothing crashes."""

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BadInput, LookalikeError
from lookalike.progress import Watcher
from lookalike.search import Index, Record
from lookalike.search.folder import rows, store
from lookalike.search.folder.manifest import FileNote
from lookalike.search.folder.store import damage_of
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


def reseal_segment(index, **changes):
    """The same for the note of the first segment."""
    first, *others = index.contents.manifest.segments
    reseal(index, segments=(first.model_copy(update=changes), *others))


def file_of(index, prefix):
    """A file of the only segment."""
    (path,) = index.store.folder.glob(f"segments/*/{prefix}*")
    return path


def renote(index, path):
    """Note a file of the first segment as it is now."""
    files = index.contents.manifest.segments[0].files
    reseal_segment(index, files={**files, path.name: FileNote.of(path)})


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


@pytest.mark.parametrize("name", ["segments/s000000", "segments/removed-000001.npy", "model"])
def test_any_link_inside_an_index_is_refused_by_writers(bare, precious, name):
    (bare.store.folder / name).symlink_to(precious)
    with pytest.raises(BadInput, match="is a symbolic link"):
        bare.commit(records(0, 1), clustered(1))


def test_writers_remove_only_what_writers_name(bare):
    kept = [
        "segments/notes",
        "segments/s000009/holiday.jpg",
        "segments/x/vectors.npy",
        "cells-1.npy",
    ]
    for name in kept:
        (bare.store.folder / name).parent.mkdir(exist_ok=True)
        (bare.store.folder / name).write_text("mine")
    bare.commit(records(0, 1), clustered(1))
    bare.compact(Watcher())
    assert all((bare.store.folder / name).read_text() == "mine" for name in kept)


def test_the_names_that_writers_give_are_those_that_they_remove(many):
    many.optimize(Watcher())
    many.commit([], np.empty((0, DIM), np.float32), [1])
    many.commit(records(0, 1), clustered(1))
    home = many.store.folder / "segments"
    names = {path.relative_to(home).as_posix() for path in home.glob("*/*")}
    assert len(names) > 7
    assert all(store.OURS.fullmatch(name) for name in names)
    assert {path.name for path in many.store.folder.iterdir()} == {
        "index.json",
        "segments",
        store.WRITE_LOCK,
        store.COMPACTION_LOCK,
    }


@pytest.mark.parametrize("name", ["../home/diary.txt", "/etc/passwd", "a/b", "..", ""])
def test_a_manifest_names_no_file_elsewhere(bare, precious, name):
    bare.commit(records(0, 2), clustered(2))
    before = contents(precious)
    for changes in ({"name": name}, {"files": {name: FileNote(size=0, crc="")}}):
        reseal_segment(bare, **changes)
        with pytest.raises(BadInput, match=r"damaged: index\.json"):
            Index.open(bare.place)
    assert contents(precious) == before


@pytest.mark.parametrize("prefix", ["vectors", "items", "removed", "cells", "centroids", "lists"])
def test_a_file_without_checksum_is_not_opened(many, prefix):
    many.optimize(Watcher())
    many.commit([], np.empty((0, DIM), np.float32), [1])
    files = many.contents.manifest.segments[0].files
    kept = {name: note for name, note in files.items() if not name.startswith(prefix)}
    reseal_segment(many, files=kept)
    with pytest.raises(BadInput, match=rf"index\.json does not name {prefix}"):
        Index.open(many.place)


def test_offsets_beyond_the_data_are_refused_before_they_are_followed(bare):
    """In a process of its own: where they are followed it ends by a signal."""
    bare.commit([Record(f"{i:04}.png", "a label") for i in range(200)], clustered(200))
    path = file_of(bare, rows.ITEMS)
    data = bytearray(path.read_bytes())
    offsets = np.arange(0, 201 * 8, 8, dtype=np.int64).tobytes()
    at = data.index(offsets)
    wrong = np.arange(0, 201 * 8, 8, dtype=np.int64)
    wrong[100:200] = 2**40
    data[at : at + len(offsets)] = wrong.tobytes()
    path.write_bytes(data)
    renote(bare, path)
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
    path = file_of(bare, rows.ITEMS)
    schema = rows.schema_of(("price",))
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
        schema = schema.set(1, pa.field("path", pa.int64()))
        values["path"] = pa.array([1, 2, 3])
    with pa.ipc.new_file(str(path), schema) as sink:
        sink.write_batch(pa.record_batch(list(values.values()), schema=schema))
    renote(bare, path)
    with pytest.raises(BadInput, match=r"items\.arrow cannot be read"):
        Index.open(bare.place)


@pytest.mark.parametrize("harm", ["cells", "centroids", "lists"])
def test_cells_of_another_segment_are_refused(many, tmp_path, harm):
    many.optimize(Watcher())
    other = Index.create(tmp_path / "other.index", None, dim=2 * DIM)
    other.commit(records(0, 2_500), clustered(2_500, 2 * DIM))
    other.optimize(Watcher())
    mine, theirs = file_of(many, harm), file_of(other, harm)
    mine.write_bytes(theirs.read_bytes())
    renote(many, mine)
    with pytest.raises(BadInput, match=rf"damaged: {harm}-\d+"):
        Index.open(many.place)


def test_rows_beyond_the_last_in_a_cell_are_no_answer(many):
    many.optimize(Watcher())
    path = file_of(many, "lists")
    data = bytearray(path.read_bytes())
    size, (cells,) = 4 * DIM, (segment.cells for segment in many.contents.segments)
    at = size * int(cells.sizes[0])  # the rows of the first cell
    data[at : at + 8 * int(cells.sizes[0])] = np.full(cells.sizes[0], 2**40).tobytes()
    path.write_bytes(data)
    renote(many, path)
    with pytest.raises(LookalikeError, match="damaged"):
        Index.open(many.place).search(cells.centroids[0], 3)


def test_a_pipe_instead_of_a_file_is_refused(bare):
    bare.commit(records(0, 3), clustered(3))
    path = file_of(bare, "vectors")
    path.unlink()
    os.mkfifo(path)
    files = bare.contents.manifest.segments[0].files
    reseal_segment(bare, files={**files, path.name: FileNote(size=0, crc="")})
    with pytest.raises(BadInput, match=re.escape("vectors.npy does not have")):
        Index.open(bare.place)


def test_a_record_of_a_folder_that_the_index_does_not_name_has_no_file(bare):
    bare.commit([Record("x", root=7), Record("y", root=-1)], clustered(2))
    found = Index.open(bare.place)
    assert [found.find_file(record) for record in found.records] == [None, None]


def test_numbers_beyond_the_end_are_refused_before_they_are_followed(many):
    many.optimize(Watcher())
    path = file_of(many, "cells")
    numbers = np.load(path)
    numbers[::7] = 2**31 + 5
    np.save(path, numbers)
    renote(many, path)
    with pytest.raises(BadInput, match="names cells that there are not"):
        Index.open(many.place)


@pytest.mark.parametrize("gone", [[1, 3_000], [-1, 1], [1, 1], [2, 1]], ids=str)
def test_tombstones_of_pictures_that_there_are_not(many, gone):
    many.commit([], np.empty((0, DIM), np.float32), [1, 2])
    path = file_of(many, "removed")
    np.save(path, np.array(gone))
    renote(many, path)
    with pytest.raises(BadInput, match="names pictures that there are not"):
        Index.open(many.place)


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": -1},
        {"next_id": 2**62},
        {"generation": -1},
        {"count": -1},
        {"removed": 2**62},
        {"removed": 2**40},
        {"tombstones": -1},
        {"nprobe": 0},
        {"cells": 0},
        {"cells": 2**40},
    ],
    ids=str,
)
def test_a_manifest_of_impossible_numbers_is_refused(many, changes):
    many.optimize(Watcher())
    many.commit([], np.empty((0, DIM), np.float32), [1])
    if changes.keys() & {"dim", "next_id", "generation"}:
        reseal(many, **changes)
    elif changes.keys() & {"nprobe", "cells"}:
        note = many.contents.manifest.segments[0].cells
        reseal_segment(many, cells=note.model_copy(update=changes))
    else:
        reseal_segment(many, **changes)
    with pytest.raises(BadInput, match="damaged"):
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
    path = file_of(bare, "vectors")
    if header is None:
        np.savez(path.with_suffix(".npz"), clustered(3))
        path.with_suffix(".npz").rename(path)
    else:
        text = FORGED_HEADERS[header].encode()
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    renote(bare, path)
    with pytest.raises(BadInput, match=r"damaged: vectors\.npy (cannot be read|is an archive)"):
        Index.open(bare.place)
