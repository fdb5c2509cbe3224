import errno
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

import lookalike
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.files import read_embeddings
from lookalike.files import (
    CHECKSUM,
    atomically,
    locked,
    naming,
    parse_json,
    read_json,
    refuse_links,
    write_json,
    write_new,
    write_texts,
)
from lookalike.models.weights import read_tensors
from lookalike.search.vector_files import open_vectors
from lookalike.training import checkpoint


def test_a_failed_write_leaves_the_former_file(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), atomically(path) as draft:
        draft.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    monkeypatch.setattr(os, "fsync", full)
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
    write += "from tests.chaos.commands import install_fault; install_fault(sys.argv[2])\n"
    write += "for number in (1, 2): write_json(Path(sys.argv[1]), {'a': number})"
    path = tmp_path / "value.json"
    command = [sys.executable, "-c", write, path, f"{point}:kill"]
    environment = {"PYTHONPATH": ":".join(sys.path)}
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
    name = content.index(CHECKSUM.encode())
    for bit in {*range(8 * len(content))} - {*range(8 * name, 8 * (name + len(CHECKSUM)))}:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with suppress(LookalikeError):
            assert read_json(path) == value  # spaces may change


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
    with locked(path.with_name("number.lock")):
        number = int(path.read_text())
        time.sleep(0.002)
        path.write_text(str(number + 1))


def test_one_process_at_a_time_has_a_lock(tmp_path):
    path = tmp_path / "number"
    path.write_text("0")
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=lambda: [count_up(path) for _ in range(25)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert path.read_text() == "100"


def test_a_lock_follows_no_link_and_changes_no_file(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock"):
        pass
    assert victim.read_text() == "precious"
    with locked(victim) as mine:  # whatever was put in its place is not changed
        assert mine
    assert victim.read_text() == "precious"
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "new").exists()


def test_no_lock_is_in_the_folder_that_all_users_share(tmp_path, monkeypatch):
    """There another user can put a link in its place before us."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with locked(tmp_path / "mine" / "x.lock"):
        assert not list(shared.iterdir())
    files = Path(lookalike.__file__).parent.rglob("*.py")
    hand_written = re.compile(r"\bflock\b|\bfcntl\b|\bFileLock\(")
    users = [path.name for path in files if hand_written.search(path.read_text())]
    assert users == ["files.py"]  # there is one implementation


def test_links_inside_a_folder_are_refused(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    refuse_links(tmp_path / "link")  # the folder itself may be one: the user named it
    (tmp_path / "real" / "deep" / "x").symlink_to("/nowhere")
    with pytest.raises(BadInput, match=r"deep/x' is a symbolic link"):
        refuse_links(tmp_path / "link")


def test_others_may_read_a_file_as_far_as_the_umask_lets_them(tmp_path):
    for umask, mode in ((0o077, 0o600), (0o027, 0o640), (0o022, 0o644)):
        former = os.umask(umask)
        try:
            write_json(tmp_path / "a.json", {"a": 1})
            write_new(tmp_path / f"new-{mode}.txt", "text")
        finally:
            os.umask(former)
        for path in (tmp_path / "a.json", tmp_path / f"new-{mode}.txt"):
            assert path.stat().st_mode & 0o777 == mode
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["torch", "checkpoint", "npz", "vectors"])
def test_files_that_become_far_larger_are_refused_before_they_do(tmp_path, kind):
    """Deflate makes a megabyte of a gigabyte of zeros; torch and NumPy would reserve it all."""
    archive = tmp_path / f"bomb.{'npz' if kind in ('npz', 'vectors') else 'pt'}"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("embeddings.npy", bytes(120_000_000))
    if kind == "torch":
        with pytest.raises(BadInput, match="far larger than the file"):
            read_tensors(archive)
    elif kind == "checkpoint":
        with pytest.raises(LookalikeError, match="far larger than the file"):
            checkpoint.read(archive)
    elif kind == "npz":
        with pytest.raises(BadInput, match="far larger than the file"):
            read_embeddings(archive)
    else:
        with pytest.raises(BadInput, match="far larger than the file"):
            open_vectors(archive, None)


@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_a_lock_where_there_can_be_no_folder_is_an_error(tmp_path, kind):
    place = tmp_path / "folder"
    place.touch() if kind == "file" else place.symlink_to(tmp_path / "nothing")
    with pytest.raises(OSError, match="File exists"), locked(place / ".lock"):
        pass


def test_a_folder_that_is_removed_while_it_is_created_is_created_again(tmp_path, monkeypatch):
    """``mkdir`` says that it is there, and then it is gone."""
    failures = [FileExistsError(17, "File exists"), FileNotFoundError(2, "gone")]
    mkdir = Path.mkdir

    def flicker(path, *args, **options):
        if failures:
            raise failures.pop()
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", flicker)
    with locked(tmp_path / "folder" / ".lock") as mine:
        assert mine
    assert not failures
