"""Vectors from files into an index: formats, refusals, resuming."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from lookalike.errors import BadInput
from lookalike.inference.job import Options
from lookalike.inference.source import open_source
from lookalike.search import Index
from lookalike.search.ingest import embed_into, import_vectors, open_or_create
from lookalike.search.vector_files import open_vectors

ROWS, DIM = 57, 12


@pytest.fixture
def numbers():
    return np.random.default_rng(4).normal(size=(ROWS, DIM))


@pytest.fixture
def unit(numbers):
    return (numbers / np.linalg.norm(numbers, axis=1, keepdims=True)).astype(np.float32)


def imported(tmp_path, given, name="i", **options):
    return import_vectors(str(tmp_path / name), given, **options)


def counts(done):
    return done.new, done.changed, done.unchanged


def in_order(index):
    """The vectors by the number that is their path."""
    paths = [int(path) for path in index.paths]
    return np.asarray(index.vectors)[np.argsort(paths)]


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "lists", "folder"])
def test_own_vectors(tmp_path, numbers, unit, kind):
    place = tmp_path / f"mine.{kind}"
    labels = [f"label {row % 4}" for row in range(ROWS)]
    columns = {"id": list(range(ROWS)), "label": labels, "price": [row / 2 for row in range(ROWS)]}
    if kind == "npy":
        np.save(place, numbers)
    elif kind == "npz":
        np.savez(place, embeddings=numbers, ids=np.arange(ROWS), labels=np.array(labels))
    else:
        fixed = pyarrow.FixedSizeListArray.from_arrays(numbers.reshape(-1), DIM)
        vectors = pyarrow.array(numbers.tolist()) if kind == "lists" else fixed
        place = place.with_suffix(".parquet") if kind != "folder" else place
        table = pyarrow.table(columns | {"embedding": vectors})
        if kind == "folder":
            place.mkdir()
            pyarrow.parquet.write_table(table[:20], place / "a.parquet", row_group_size=7)
            pyarrow.parquet.write_table(table[20:], place / "b.parquet")
        else:
            pyarrow.parquet.write_table(table, place)
    index, done = imported(tmp_path, open_vectors(place), block=20)
    assert counts(done) == (ROWS, 0, 0)
    np.testing.assert_allclose(in_order(index), unit, atol=1e-6)
    record = next(record for record in index.records if record.path == "5")
    assert record.label == (None if kind == "npy" else "label 1")
    assert record.metadata == ({"price": "2.5"} if kind in ("parquet", "lists", "folder") else {})
    with pytest.raises(BadInput, match="model"):
        index.embedder  # noqa: B018
    assert index.fingerprint == ""
    assert index.search(unit[5], 1)[0][0].path == "5"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_beside_the_vectors(tmp_path, numbers, suffix):
    np.save(tmp_path / "v.npy", numbers)
    columns = {
        "path": [f"p/{row}.jpg" for row in range(ROWS)],
        "label": ["a"] * ROWS,
        "size": [str(row) for row in range(ROWS)],
    }
    table = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        rows = zip(*columns.values(), strict=True)
        table.write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), table)
    index, _ = imported(tmp_path, open_vectors(tmp_path / "v.npy", table))
    assert index.records[3].path == "p/3.jpg"
    assert index.records[3].metadata == {"size": "3"}
    table.write_text("path\na\n") if suffix == "csv" else pyarrow.parquet.write_table(
        pyarrow.table({"path": ["a"]}), table
    )
    with pytest.raises(BadInput, match=r"1 rows, and .* 57 vectors"):
        open_vectors(tmp_path / "v.npy", table)


@pytest.mark.parametrize(
    ("row", "value", "words"),
    [
        (0, np.nan, "row 0 .* not finite"),
        (41, np.inf, "row 41 .* not finite"),
        (41, 0, "row 41 .* zero"),
    ],
)
def test_vectors_that_cannot_be_compared(tmp_path, numbers, row, value, words):
    numbers[row] = value
    np.save(tmp_path / "v.npy", numbers)
    given = open_vectors(tmp_path / "v.npy")
    with pytest.raises(BadInput, match=words):
        import_vectors(str(tmp_path / "new"), given)
    assert not (tmp_path / "new").exists()
    open_or_create(str(tmp_path / "i"), None, DIM)
    with pytest.raises(BadInput, match=words):
        import_vectors(str(tmp_path / "i"), given, block=10)
    assert len(Index.open(tmp_path / "i")) == 0


def test_what_holds_no_vectors(tmp_path, numbers):
    def refuse(words, place, table=None):
        with pytest.raises(BadInput, match=words):
            open_vectors(place, table)

    refuse("there is no file", tmp_path / "none.npy")
    np.save(tmp_path / "flat.npy", numbers[0])
    refuse(r"must be floating-point numbers \[n, dim\]", tmp_path / "flat.npy")
    np.save(tmp_path / "ints.npy", numbers.astype(int))
    refuse("must be floating-point", tmp_path / "ints.npy")
    np.savez(tmp_path / "other.npz", vectorz=numbers)
    refuse("has no 'vectors'; did you mean 'vectorz'", tmp_path / "other.npz")
    np.savez(tmp_path / "number.npz", vectors=np.float32(3), labels=["a"])
    refuse("one of 'labels' for each vector", tmp_path / "number.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:-200])
    refuse("cannot read", tmp_path / "cut.npz")
    for header, rest in (
        ("(((((", b""),  # no end
        (f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**47}, 1), }}", bytes(64)),
        ("{'descr': '<U1', 'fortran_order': False, 'shape': (2, 1), }", b"\xff" * 8),  # no text
    ):
        start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
        with zipfile.ZipFile(tmp_path / "forged.npz", "w") as archive:
            archive.writestr("vectors.npy", start + rest)
            archive.writestr("labels.npy", start.replace(b"(2, 1)", b"(2,)  ") + rest)
        refuse("cannot read", tmp_path / "forged.npz")
    holes = pyarrow.table({"vector": [[1.0]] * 70_000 + [None]})
    pyarrow.parquet.write_table(holes, tmp_path / "holes.parquet")
    with pytest.raises(BadInput, match="row 70000, counted from 0, has no vector"):
        list(open_vectors(tmp_path / "holes.parquet").blocks(100_000))
    (tmp_path / "text.npy").write_text("no")
    refuse("cannot read", tmp_path / "text.npy")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "a.parquet")
    refuse("no column 'vector'", tmp_path / "a.parquet")
    ragged = pyarrow.table({"vector": [[1.0, 2.0], [1.0]]})
    pyarrow.parquet.write_table(ragged, tmp_path / "ragged.parquet")
    given = open_vectors(tmp_path / "ragged.parquet")
    with pytest.raises(BadInput, match="as many numbers each"):
        list(given.blocks(10))
    (tmp_path / "empty").mkdir()
    refuse("neither", tmp_path / "empty")
    np.savez(tmp_path / "twice.npz", vectors=numbers[:3], ids=["a", "b", "a"])
    refuse(r"'a' is there twice .* rows 0 and 2", tmp_path / "twice.npz")


@pytest.mark.parametrize(
    "kind", [pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.float32(), 0)]
)
def test_vectors_without_numbers_are_refused(tmp_path, kind):
    columns = {"path": ["a"], "vector": pyarrow.array([[]], kind)}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"as many numbers each|cannot read|no vector"):
        open_vectors(tmp_path / "a.parquet")


def test_labels_that_are_bytes_or_empty(tmp_path, numbers):
    np.savez(tmp_path / "v.npz", vectors=numbers[:3], labels=np.array([b"cat", b"", b"dog"]))
    index, _ = imported(tmp_path, open_vectors(tmp_path / "v.npz"))
    assert list(index.labels) == ["cat", None, "dog"]
    assert index.label_names == ["cat", "dog"]


def test_the_same_again_and_changes(tmp_path, numbers):
    np.savez(tmp_path / "v.npz", vectors=numbers, ids=np.arange(ROWS))
    index, _ = imported(tmp_path, open_vectors(tmp_path / "v.npz"), block=20)
    _, again = imported(tmp_path, open_vectors(tmp_path / "v.npz"), block=20)
    assert counts(again) == (0, 0, ROWS)
    numbers[7] = -numbers[7]
    more = np.concatenate([numbers, numbers[:1]])
    np.savez(tmp_path / "v.npz", vectors=more, ids=np.arange(ROWS + 1))
    _, third = imported(tmp_path, open_vectors(tmp_path / "v.npz"), block=20)
    assert counts(third) == (1, 1, ROWS - 1)
    assert len(Index.open(index.place)) == ROWS + 1
    np.save(tmp_path / "wide.npy", np.ones((2, DIM + 1)))
    with pytest.raises(BadInput, match="vectors of 12 numbers, not 13"):
        imported(tmp_path, open_vectors(tmp_path / "wide.npy"))


def test_fewer_bits(tmp_path, numbers, unit):
    np.save(tmp_path / "v.npy", numbers)
    given = open_vectors(tmp_path / "v.npy")
    index, _ = imported(tmp_path, given, dtype="float16")
    np.testing.assert_allclose(in_order(index), unit, atol=2e-2)
    assert imported(tmp_path, given)[1].unchanged == ROWS
    with pytest.raises(BadInput, match="stores float16, not float32"):
        open_or_create(str(tmp_path / "i"), None, DIM, "float32")


def test_what_embed_wrote(tmp_path, embedder, photos):
    (photos / "red" / "cut.png").write_bytes(b"cut")
    options = Options(per_shard=5, batch=4, device="cpu")
    made = open_or_create(str(tmp_path / "v"), embedder, embedder.dim)
    embed_into(made, open_source(photos), options)
    index, done = imported(tmp_path, open_vectors(tmp_path / "v"), block=6)
    assert done.new == len(index) == 12
    assert index.embedder.fingerprint == embedder.fingerprint
    usual = Index.create(tmp_path / "usual", embedder, photos)
    assert list(index.records) == list(usual.records)
    np.testing.assert_allclose(index.vectors, usual.vectors, atol=2e-6)
    assert index.file_of(int(index.ids[0])) == photos / index.paths[0]
    assert index.add(photos).unchanged == 12
    other = type(embedder).from_network("small-cnn", weights="none")
    with pytest.raises(BadInput, match="another model"):
        open_or_create(index.place, other, other.dim)


def test_straight_into_an_index(tmp_path, embedder, photos):
    index = Index.create(tmp_path / "i", embedder)
    (photos / "red" / "cut.png").write_bytes(b"cut")
    options = Options(batch=5, device="cpu")
    added = embed_into(index, open_source(photos), options)
    assert (added.new, [one.path for one in added.skipped]) == (12, ["red/cut.png"])
    usual = Index.create(tmp_path / "usual", embedder, photos)
    assert list(index.records) == list(usual.records)
    np.testing.assert_allclose(index.vectors, usual.vectors, atol=2e-6)
    os.utime(photos / "red" / "0.png", (5, 5))
    again = embed_into(index, open_source(photos), options)
    assert (again.new, again.changed, again.unchanged) == (0, 1, 11)


def test_postgres(tmp_path, embedder, photos, postgres):
    place = f"{postgres}#bulk"
    index = open_or_create(place, embedder, embedder.dim)
    embed_into(index, open_source(photos), Options(device="cpu"))
    assert len(Index.open(place)) == 12
    Index.create(tmp_path / "v", embedder, photos)
    _, done = import_vectors(place, open_vectors(tmp_path / "v"))
    assert done.unchanged == 12


def test_killed_and_continued(tmp_path):
    """Killed between commits: the same command completes it, and nothing is there twice."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", random.normal(size=(4_000, DIM)))
    place = tmp_path / "i"
    program = f"""
from pathlib import Path
from lookalike.search.ingest import import_vectors
from lookalike.search.vector_files import open_vectors

import_vectors({str(place)!r}, open_vectors(Path({str(tmp_path / "v.npy")!r})), block=50)
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    while not ((place / "index.json").exists() and len(Index.open(place))):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    index = Index.open(place)
    before = len(index)
    assert 0 < before < 4_000
    assert before % 50 == 0
    _, done = imported(tmp_path, open_vectors(tmp_path / "v.npy"))
    assert (done.new, done.changed, done.unchanged) == (4_000 - before, 0, before)
    assert sorted(map(int, Index.open(place).paths)) == list(range(4_000))


def test_damaged_parquet_is_read_or_refused(tmp_path):
    path = tmp_path / "vectors.parquet"
    table = pyarrow.table({"path": ["a", "b"], "vector": [[1.0, 0.0], [0.0, 1.0]]})
    pyarrow.parquet.write_table(table, path, compression="none")
    whole = path.read_bytes()
    for place in range(4, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x81
        path.write_bytes(damaged)
        with suppress(BadInput):
            list(open_vectors(path).blocks(10))
