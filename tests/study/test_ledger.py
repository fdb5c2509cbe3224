"""The records of a study: one file, one process, and a sentence for whatever is wrong with it."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from random import Random

import numpy as np
import pytest

from lookalike.errors import LookalikeError
from lookalike.evaluation.class_table import ClassTable
from lookalike.files import checksum
from lookalike.study import ledger
from lookalike.study.classes import RowClasses
from lookalike.study.ledger import open_ledger

HOLD = """
import sys, time
from pathlib import Path
from lookalike.study.ledger import open_ledger
with open_ledger(Path(sys.argv[1])) as ledger:
    ledger.add("a/1", {"score": 1})
    print("open", flush=True)
    time.sleep(60)
"""


def test_a_record_is_written_once_and_read_by_its_beginning(tmp_path):
    with open_ledger(tmp_path) as one:
        one.add("a/1", {"score": 1})
        one.add("a_/1", {"score": 2})
        one.add("a/1", {"score": 3})
        one.add("a/2", {"score": 4})
    with open_ledger(tmp_path) as two:
        assert two.records(["a/"]) == {"a/1": {"score": 1}, "a/2": {"score": 4}}
        assert two.records(["b/"]) == two.records([]) == {}
        two.remove("a/")
        assert two.records(["a"]) == {"a_/1": {"score": 2}}


def test_scores_per_class_come_back_with_their_record(tmp_path):
    table = ClassTable(("a", "b"), np.array([3, 4]), ("map@r",), np.array([[0.5], [0.25]]))
    with open_ledger(tmp_path) as one:
        one.add("a/1", {"score": 1, "classes": {"pca": RowClasses({(0, 0): table})}})
    with open_ledger(tmp_path) as two:
        (record,) = two.records(["a/"]).values()
    assert record.pop("classes")["pca"].separate[0, 0].values.tolist() == [[0.5], [0.25]]
    assert record == {"score": 1}
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE classes SET tables = ?", (b"PK nothing",))
    noticed = pytest.raises(LookalikeError, match=r"study\.db.*the scores per class of a/1")
    with noticed, open_ledger(tmp_path) as two:
        two.records(["a/"])


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "BUSY_SECONDS", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "open\n"
    refused = pytest.raises(LookalikeError, match="another process runs the study in")
    with refused, open_ledger(tmp_path):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    with open_ledger(tmp_path) as mine:
        assert mine.records(["a/"]) == {"a/1": {"score": 1}}


def test_a_record_that_was_changed_is_a_sentence(tmp_path):
    with open_ledger(tmp_path) as mine:
        mine.add("a/1", {"score": 0.25})
    for text in ('{"score": 0.35}', "[" * 100_000):
        with sqlite3.connect(tmp_path / "study.db") as connection:
            connection.execute("UPDATE records SET record = ?", (text,))
        noticed = pytest.raises(
            LookalikeError, match=r"study\.db.*the record of a/1.*remove the file"
        )
        with noticed, open_ledger(tmp_path) as mine:
            mine.records(["a/"])


@pytest.mark.parametrize(
    ("key", "record", "sealed"),
    [
        (b"a/1", "[1]", True),
        ("a/1", "[]", True),
        ("a/1", '"text"', True),
        ("a/1", "{", True),
        ("a/1", "[" * 100_000, True),
        ("a/1", '{"classes": 5}', True),
        ("a/1", None, False),
        ("a/1", 5, False),
        ("a/1", b"{}", False),
    ],
)
def test_a_record_of_another_type_is_a_sentence(tmp_path, key, record, sealed):
    with open_ledger(tmp_path):
        pass
    mark = checksum(record) if sealed else "00000000"
    with sqlite3.connect(tmp_path / "study.db") as connection:
        insert = "INSERT INTO records VALUES (?, ?, ?)"
        connection.execute(insert, (None, "{}", checksum("{}")))  # of no task
        connection.execute(insert, (key, record, mark))
    noticed = pytest.raises(LookalikeError, match=r"study\.db.*the record of a/1")
    with noticed, open_ledger(tmp_path) as mine:
        mine.records(["a/"])


def test_a_damaged_database_is_a_sentence(tmp_path):
    with open_ledger(tmp_path) as mine:
        for number in range(300):
            mine.add(f"a/{number}", {"score": number})
    content = bytearray((tmp_path / "study.db").read_bytes())
    content[2000:-100] = bytes(len(content) - 2100)
    (tmp_path / "study.db").write_bytes(content)
    noticed = pytest.raises(LookalikeError, match=r"study\.db.*cannot be used")
    with noticed, open_ledger(tmp_path) as mine:
        mine.records(["a/"])


def test_any_flipped_bit_of_a_database_is_noticed_or_harmless(tmp_path):
    path = tmp_path / "study.db"
    written = {"a/1": {"score": 0.5}, "a/2": {"score": 0.25}}
    with open_ledger(tmp_path) as mine:
        for key, record in written.items():
            mine.add(key, record)
    content = path.read_bytes()
    used = [place for place, byte in enumerate(content) if byte]
    random = Random(0)
    for place in random.sample(used, min(len(used), 500)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.randrange(8)
        path.write_bytes(flipped)
        with suppress(LookalikeError), open_ledger(tmp_path) as mine:
            assert mine.records(["a/"]) == written, place


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "study.db").mkdir()
    refused = pytest.raises(LookalikeError, match=r"study\.db.*cannot be used: unable to open")
    with refused, open_ledger(tmp_path):
        pass
