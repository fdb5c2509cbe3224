import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lookalike.errors import LookalikeError
from lookalike.files import (
    FAULT,
    atomically,
    naming,
    one_at_a_time,
    parse_json,
    read_json,
    write_json,
    write_texts,
)


def test_a_failed_write_leaves_the_former_file(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomically(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    monkeypatch.setenv(FAULT, "written:*:full")
    with pytest.raises(OSError, match=r"No space left on device: '.*value\.json'"):
        write_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "full"),
        RuntimeError("I/O error (os error 28)"),
        RuntimeError("Error: write error in a: 0 != 1 (No space left on device)"),
        OSError("1024 requested and 0 written"),
    ],
    ids=["python", "safetensors", "faiss", "numpy"],
)
def test_a_writer_that_finds_the_disk_full_names_the_file(tmp_path, error):
    named = r"\[Errno 28\] No space left on device: '.*a\.safetensors'"
    with pytest.raises(OSError, match=named), atomically(tmp_path / "a.safetensors"):
        raise error


@pytest.mark.parametrize(("point", "found"), [("rename:2", 1), ("renamed:2", 2), ("rename:3", 2)])
def test_a_kill_between_write_and_rename_leaves_a_whole_file(tmp_path, point, found):
    write = "import sys; from pathlib import Path; from lookalike.files import write_json\n"
    write += "for number in (1, 2): write_json(Path(sys.argv[1]), {'a': number})"
    path = tmp_path / "value.json"
    command = [sys.executable, "-c", write, path]
    environment = {"PYTHONPATH": ":".join(sys.path), FAULT: f"{point}:kill"}
    ended = subprocess.run(command, env=environment).returncode
    assert ended == (0 if point == "rename:3" else -signal.SIGKILL)
    assert read_json(path) == {"a": found}


def test_a_sealed_file_that_was_changed_is_a_sentence(tmp_path):
    path = tmp_path / "value.json"
    value = {"scores": {"recall@1": 0.75, "ü": [1, None, "x"]}}
    write_json(path, value, sealed=True)
    assert read_json(path) == value
    path.write_text(json.dumps(json.loads(path.read_text())))  # other spaces are no change
    assert read_json(path) == value
    path.write_text(path.read_text().replace("0.75", "0.85"))
    with pytest.raises(LookalikeError, match=r"value\.json' is damaged.*restore it, or remove it"):
        read_json(path)
    path.write_text("{")
    with pytest.raises(LookalikeError, match=r"cannot read '.*value\.json'"):
        read_json(path)


def test_any_flipped_bit_of_a_sealed_file_is_noticed(tmp_path):
    path = tmp_path / "value.json"
    value = {"scores": {"recall@1": 0.75}, "name": "a"}
    write_json(path, value, sealed=True)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with suppress(LookalikeError):
            assert read_json(path) == value  # spaces may change
    path.write_text('{"checked": 1, "check": 2}')
    assert read_json(path) == {"checked": 1, "check": 2}


@pytest.mark.parametrize("text", ["[" * 100_000, f"[{2**64}]", "-" + "9" * 400, "9" * 5000, "{"])
def test_json_of_anybody_is_a_value_or_a_value_error(text, tmp_path):
    with pytest.raises(ValueError, match=r"deep|bits|Expecting"):
        parse_json(text)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(LookalikeError, match=r"cannot read '.*a\.json'"):
        read_json(tmp_path / "a.json")
    assert parse_json(f'{{"a": [{2**63}, -1, 1e400]}}') == {"a": [2**63, -1, float("inf")]}


def test_a_text_that_cannot_be_encoded_has_a_question_mark(tmp_path):
    (path,) = write_texts(tmp_path / "a", {".txt": "caf\udce9"})
    assert path.read_text() == "caf?"


def test_only_errors_of_disks_get_a_name(tmp_path):
    with pytest.raises(ConnectionResetError) as found, naming(tmp_path):
        raise ConnectionResetError(104, "reset")
    assert found.value.filename is None
    with pytest.raises(FileNotFoundError, match="other"), naming(tmp_path):
        Path("other").read_text()


def test_faiss_and_numpy_tell_of_a_full_disk():
    """``/dev/full`` is one: what their errors say is what is looked for."""
    import faiss
    import numpy as np

    index = faiss.IndexFlatIP(4)
    index.add(np.ones((10_000, 4), np.float32))
    full = r"No space left on device: 'x'"
    with pytest.raises(OSError, match=full), naming(Path("x")):
        faiss.write_index(index, "/dev/full")
    with pytest.raises(OSError, match=full), naming(Path("x")), open("/dev/full", "wb") as file:
        np.ones(10_000).tofile(file)


def count_up(path):
    """Add one to the number in a file, which is lost where two do so together."""
    with one_at_a_time(path):
        number = int(path.read_text())
        time.sleep(0.002)
        path.write_text(str(number + 1))


def test_one_process_at_a_time_and_no_lock_is_left(tmp_path, monkeypatch):
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(locks))
    path = tmp_path / "number"
    path.write_text("0")
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=lambda: [count_up(path) for _ in range(25)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert path.read_text() == "100"
    assert not list(locks.iterdir())
