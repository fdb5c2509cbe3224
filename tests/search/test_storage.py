"""Whatever kills a writer, at whatever moment, the index opens and is whole."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index, Record


def vector_for(path, dim):
    """A vector that belongs to one path only."""
    seed = int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "little")
    row = np.random.default_rng(seed).normal(size=dim)
    return (row / np.linalg.norm(row)).astype(np.float32)


def write_for_ever(index):
    """Add some, remove some, again and again, until somebody ends it."""
    random = np.random.default_rng(os.getpid())
    while True:
        paths = [f"{random.integers(1 << 60)}.png" for _ in range(50)]
        rows = np.stack([vector_for(path, index.embedder.dim) for path in paths])
        dropped = random.choice(index.ids, min(len(index), 40), replace=False).tolist()
        index.commit([Record(path, path[:1]) for path in paths], rows, dropped)


def assert_whole(index):
    paths, labels = list(index.paths), list(index.labels)
    assert len(paths) == len(labels) == len(index.ids) == len(index.vectors)
    assert len(set(paths)) == len(paths)
    for path, label, row in zip(paths, labels, index.vectors, strict=True):
        assert label == path[:1]
        np.testing.assert_array_equal(row, vector_for(path, len(row)))


def test_killed_at_any_time_it_stays_whole(tmp_path, embedder):
    place = tmp_path / "i"
    index = Index.create(place, embedder)
    states = set()
    for round in range(12):
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(Index.open(place))
            finally:
                os._exit(1)
        before = index.manifest.state
        deadline = time.monotonic() + 20
        while Index.open(place).manifest.state == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.0027 * round)  # another moment of the writing each time
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        index = Index.open(place)
        states.add(index.manifest.state)
        assert_whole(index)
    assert len(states) == 12
    index.commit([], np.empty((0, embedder.dim), np.float32))  # the next writer tidies up
    assert len(list(place.glob("state-*"))) == 1
    assert not list(place.glob(".index.json.*"))


def test_readers_see_whole_states_while_another_process_writes(tmp_path, embedder):
    place = tmp_path / "i"
    Index.create(place, embedder)
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(Index.open(place))
        finally:
            os._exit(1)
    try:
        seen = set()
        while len(seen) < 10:
            index = Index.open(place)
            seen.add(index.manifest.state)
            assert_whole(index)  # also after the writer has removed these files
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_create_goes_over_what_a_killed_create_left(tmp_path, embedder):
    place = tmp_path / "i"
    embedder.save(place / "model")
    (place / "state-000000").mkdir()
    assert len(Index.create(place, embedder)) == 0


@pytest.mark.slow
def test_the_command_killed_half_way_leaves_an_index_that_add_completes(tmp_path):
    photos = tmp_path / "photos" / "grey"
    photos.mkdir(parents=True)
    for number in range(600):
        Image.new("L", (160, 160), number % 256).save(photos / f"{number}.png")
    program = (
        "from lookalike.search import sources; sources.SECONDS_BETWEEN_COMMITS = 0\n"
        "from lookalike.cli import main; main()"
    )
    arguments = ["index", "--network", "efficientnet-lite0", photos.parent, "-o", tmp_path / "i"]
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (tmp_path / "i" / "index.json").exists() and len(Index.open(tmp_path / "i")) > 100:
            break
        time.sleep(0.05)
    process.kill()
    process.wait()
    half = Index.open(tmp_path / "i")
    done = len(half)
    assert 100 < done < 600
    added = half.add(photos.parent)
    assert (added.new, added.unchanged) == (600 - done, done)
    assert len(Index.open(tmp_path / "i")) == 600
