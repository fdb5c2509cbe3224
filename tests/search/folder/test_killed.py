"""Whatever kills a writer, at whatever moment: nothing is lost, nothing twice, and it opens."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index
from tests.search.folder.writers import DIM, Writer, record_for, vector_for


def assert_whole(index):
    paths = list(index.paths)
    assert len(set(paths)) == len(paths) == len(index) == len(index.ids) == len(index.vectors)
    assert len(set(index.ids.tolist())) == len(paths)
    assert list(index.records) == [record_for(path) for path in paths]
    if paths:
        np.testing.assert_array_equal(index.vectors, np.stack(list(map(vector_for, paths))))


def run_kills(place, kills, seed):
    print(f"seed {seed}")
    chance = random.Random(seed)
    Index.create(place, None, dim=DIM)
    there, gone = set(), set()
    works = ["add", "remove", "compact"]
    for turn in range(kills):
        work = works[turn % 3]
        writers = [Writer(place, work, f"{work[0]}{turn}")]
        if work == "compact":
            writers.append(Writer(place, "add", f"x{turn}"))
        time.sleep(chance.uniform(0, 0.4))
        doubtful = set()
        for writer in writers:
            added, removed, perhaps = writer.kill()
            there |= added
            there -= removed
            gone |= removed
            doubtful |= perhaps
        index = Index.open(place)
        assert_whole(index)
        found = set(index.paths)
        assert there - doubtful <= found, "a committed picture is lost"
        assert not (gone - doubtful) & found, "a removed picture is back"
        there = found
    index.commit([], np.empty((0, DIM), np.float32))  # the next writer tidies up
    used = {note.name for note in index.contents.manifest.segments}
    assert {path.name for path in (place / "segments").iterdir()} == used
    assert not list(place.glob(".index.json.*"))
    named = {name.partition("/")[2] for name in index.contents.manifest.files}
    files = {path.relative_to(place / "segments").as_posix() for path in place.glob("segments/*/*")}
    assert files == named


def test_killed_at_any_time_it_stays_whole(tmp_path):
    run_kills(tmp_path / "i", 9, seed=1)


@pytest.mark.slow
def test_killed_very_often_it_stays_whole(tmp_path):
    run_kills(tmp_path / "i", 48, seed=random.SystemRandom().randrange(10**6))


def test_two_adders_and_a_compactor_get_along(tmp_path):
    place = tmp_path / "i"
    Index.create(place, None, dim=DIM)
    writers = [
        Writer(place, "add", "a"),
        Writer(place, "remove", "b"),
        Writer(place, "compact", "c"),
    ]
    try:
        seen, reader = set(), Index.open(place)
        deadline = time.monotonic() + 60
        kinds = set()
        while (len(seen) < 12 or kinds != {"a", "b"}) and time.monotonic() < deadline:
            reader = reader.latest()
            seen.add(reader.generation)
            assert_whole(reader)  # also after its files were removed
            kinds |= {path[0] for path in reader.paths}
            if len(reader):
                (hits,) = reader.search(reader.vector_of(int(reader.ids[0])), 3)
                assert hits[0].id == reader.ids[0]
    finally:
        ended = [writer.kill() for writer in writers]
    index = Index.open(place)
    assert_whole(index)
    found = set(index.paths)
    for there, gone, _ in ended:
        assert there <= found
        assert not gone & found
    assert {path[0] for path in found} == {"a", "b"}


def test_create_goes_over_what_a_killed_create_left(tmp_path, embedder):
    place = tmp_path / "i"
    embedder.save(place / "model")
    (place / "segments").mkdir()
    (place / ".lock").touch()
    assert len(Index.create(place, embedder)) == 0


@pytest.mark.slow
def test_the_command_killed_half_way_leaves_an_index_that_add_completes(tmp_path):
    photos = tmp_path / "photos" / "grey"
    photos.mkdir(parents=True)
    for number in range(600):
        Image.new("L", (160, 160), number % 256).save(photos / f"{number}.png")
    program = (
        "from lookalike.search import ingest; ingest.SECONDS_BETWEEN_COMMITS = 0\n"
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
