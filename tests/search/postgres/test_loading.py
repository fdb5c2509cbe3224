"""Adding, replacing and dropping pictures, with and without a model."""

import threading

import numpy as np
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from lookalike.addresses import parse_address
from lookalike.errors import BadInput, LookalikeError
from lookalike.search import Index, Record
from lookalike.search.filters import Filter
from lookalike.search.postgres.store import LOCK

DIM = 6


@pytest.fixture
def index(place, tmp_path):
    made = Index.create(place, None, dim=DIM)
    made.root_number(tmp_path)
    return made


def test_the_same_path_replaces(index, unit_rows):
    rows = unit_rows(6, DIM)
    index.commit([Record("a", "x", {"n": "1"}), Record("b", "y")], rows[:2])
    before = index.ids.tolist()
    again = [Record("a", "z", {"m": "2"}), Record("c"), Record("c", "last")]
    index.commit(again, rows[2:5])
    assert list(zip(index.paths, index.labels, strict=True)) == [
        ("b", "y"),
        ("a", "z"),
        ("c", "last"),
    ]
    assert len(index) == index.contents.tables.all("SELECT count(*) FROM {schema}.item")[0][0] == 3
    np.testing.assert_array_equal(index.vectors, rows[[1, 2, 4]])
    assert before[0] not in index.ids
    assert index.ids[0] == before[1]
    assert index.columns == ["m", "n"]
    index.commit([], rows[:0], [before[1], 12345])
    assert len(index) == 2


def test_what_is_asked_of_some(index, unit_rows, records):
    rows = unit_rows(30, DIM)
    index.commit(records(30), rows)
    ids = index.ids.tolist()
    np.testing.assert_array_equal(index.vectors_of([ids[5], ids[2], ids[5]]), rows[[5, 2, 5]])
    np.testing.assert_array_equal(index.vector_of(ids[7]), rows[7])
    assert index.vectors_of([]).shape == (0, DIM)
    assert index.label_counts() == {"0": 10, "1": 10, "2": 10}
    assert index.label_names == ["0", "1", "2"]
    assert index.count(Filter.parse("price < 5")) == 5
    assert index.ids_where(Filter.parse("price < 5")).tolist() == ids[:5]
    assert index.ids_where(None).tolist() == ids
    with pytest.raises(BadInput, match="no picture 77777"):
        index.vectors_of([ids[0], 77777])
    with pytest.raises(BadInput, match=f"no picture {2**70}"):
        index.vectors_of([ids[0], 2**70])
    assert index.select(["3.png", "4.png"]) == ids[3:5]
    for path in ("a\0b", "a\udcffb", "5.pmg"):
        with pytest.raises(BadInput, match="the index has no"):
            index.select([path])


def test_pictures_are_found_by_folder_and_path(index, tmp_path, unit_rows, records):
    index.commit(records(5), unit_rows(5, DIM))
    other = index.root_number(tmp_path / "other")
    asked = [Record("3.png"), Record("9.png"), Record("3.png", root=other), Record("0.png")]
    ids = index.ids.tolist()
    assert index.ids_of(asked).tolist() == [ids[3], -1, -1, ids[0]]
    assert index.ids_of([]).tolist() == []


def test_a_label_that_no_picture_has_names_the_nearest(index, unit_rows):
    index.commit([Record("a", "green"), Record("b", "red")], unit_rows(2, DIM))
    for label in ("grean", "gr\0een", "gree\udcffn"):
        with pytest.raises(BadInput, match=r"no picture has the label .*'green'"):
            index.search(unit_rows(1, DIM), 1, label=label)
    assert index.search(unit_rows(1, DIM), 5, label="red")[0][0].path == "b"


def test_pictures_that_go_meanwhile_are_left_out(index, place, unit_rows, records):
    rows = unit_rows(5, DIM)
    index.commit(records(5), rows)
    assert len(index.ids) == 5
    Index.open(place).remove(index.ids[:2].tolist())
    assert [len(hits) for hits in index.search(rows[:2], 5)] == [3, 3]
    with pytest.raises(BadInput, match="no picture"):
        index.item(int(index.ids[0]))


def test_a_model_is_not_needed(index, place, unit_rows):
    index.commit([Record("a"), Record("b")], unit_rows(2, DIM))
    opened = Index.open(place)
    assert (opened.fingerprint, opened.dim) == ("", DIM)
    assert opened.search(unit_rows(2, DIM)[1], 1)[0][0].path == "b"
    with pytest.raises(BadInput, match="has no model"):
        _ = opened.embedder
    with pytest.raises(BadInput, match="needs the length"):
        Index.create(f"{place}2", None)


def test_half_precision(place, tmp_path, unit_rows):
    index = Index.create(place, None, dim=DIM, vectors="float16")
    index.root_number(tmp_path)
    rows = unit_rows(50, DIM)
    index.commit([Record(f"{i}") for i in range(50)], rows)
    np.testing.assert_array_equal(index.vectors, rows.astype(np.float16).astype(np.float32))
    found = index.search(rows[:5], 1)
    assert [hits[0].path for hits in found] == [f"{i}" for i in range(5)]


def test_a_state_stays_until_the_next_is_asked_for(index, place, unit_rows, records):
    index.commit(records(4), unit_rows(4, DIM))
    other = Index.open(place)
    assert other.generation == index.generation == 1
    assert other.latest() is other
    assert len(other.ids) == 4
    index.commit(records(2, start=4), unit_rows(2, DIM))
    now = other.latest()
    assert (len(other), len(now)) == (4, 6)
    assert now.generation == 2
    assert now.updated > other.updated
    assert now.store.tables.database is other.store.tables.database
    assert list(other.records) == records(4)
    assert list(now.records) == records(6)
    late = index.latest()
    now.remove([int(now.ids[0])])
    with pytest.raises(LookalikeError, match="another process has changed"):
        _ = late.ids
    with pytest.raises(BadInput, match="there is no picture"):
        _ = list(other.records)


def test_two_processes_add_folders_of_their_own(index, place, tmp_path, unit_rows):
    one, other = Index.open(place), Index.open(place)
    for made, name in ((one, "one"), (other, "other")):
        number = made.root_number(tmp_path / name)
        made.commit([Record("same.png", root=number)], unit_rows(1, DIM))
    now = index.latest()
    assert [now.roots[record.root].name for record in now.records] == ["one", "other"]


def test_texts_that_are_hard_to_copy(index, unit_rows):
    metadata = {"a\tb": 'x\n\\N"', "ü": "😀", "": "\\.", "null": "null"}
    index.commit([Record("\\N", "\\.\n", metadata), Record("", "", {})], unit_rows(2, DIM))
    assert index.records[0] == Record("\\N", "\\.\n", metadata)
    assert index.records[1].label == ""


@pytest.mark.parametrize("path", ["a\0b", "a\udcffb"])
def test_what_is_not_text_is_said(index, path, unit_rows):
    with pytest.raises(LookalikeError) as caught:
        index.commit([Record("fine"), Record(path)], unit_rows(2, DIM))
    assert "\n" not in str(caught.value)
    assert len(index.latest()) == 0


def test_bad_vectors_are_refused(index, unit_rows):
    for vectors, sentence in (
        (unit_rows(1, 3), r"an array \[1, 6\], not \[1, 3\]"),
        (unit_rows(2, DIM), r"an array \[1, 6\], not \[2, 6\]"),
        (np.full((1, DIM), np.inf, np.float32), "not finite"),
    ):
        with pytest.raises(BadInput, match=sentence):
            index.commit([Record("a")], vectors)
    assert len(index.latest()) == 0


def test_two_processes_create_one_index(postgres, place):
    """The slower one waits, and is told that there is an index, as in a folder."""
    address = parse_address(place)
    url, schema = address.url, address.schema
    with psycopg.connect(url) as faster:
        faster.execute(LOCK, [schema])
        faster.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        threading.Timer(0.5, faster.commit).start()
        with pytest.raises(BadInput, match="there is a schema"):
            Index.create(place, None, dim=DIM)


def test_a_long_name_is_refused(postgres):
    with pytest.raises(BadInput, match="63 bytes"):
        Index.open(f"{postgres}#{'x' * 64}")


def test_many_are_streamed(index, unit_rows, records):
    rows = unit_rows(12_000, DIM)
    index.commit(records(12_000), rows)
    np.testing.assert_array_equal(index.vectors, rows)
    assert index.ids_where(Filter.parse("odd = 'yes'")).tolist() == index.ids[1::2].tolist()


def test_the_tables_hold_no_half_of_a_model(index):
    with (
        psycopg.connect(index.store.url, autocommit=True) as connection,
        pytest.raises(psycopg.errors.CheckViolation),
    ):
        connection.execute(f"UPDATE {index.store.schema}.model SET fingerprint = 'x'")
