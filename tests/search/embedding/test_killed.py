"""Processes that die, and processes side by side: the vectors are those of an undisturbed run."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
import pytest
import torch

from lookalike.inference.cluster import on_ray
from lookalike.inference.job import Options
from lookalike.inference.source import open_source
from lookalike.search import Index, ingest
from lookalike.search.ingest import embed_into, open_or_create

ROWS = 200
OPTIONS = Options(per_shard=8, batch=4, device="cpu")
OFTEN = """
from lookalike.search import ingest
ingest.SECONDS_BETWEEN_COMMITS = 0
from lookalike.cli import main
main()
"""
"""The command, with a commit after every window."""
SAME = ["--per-shard", "8", "--batch", "4", "--device", "cpu"]


def vectors_of(folder):
    """The vectors by row of the source, to the last bit."""
    index = Index.open(folder)
    rows = [int(path.rpartition("/")[2]) for path in index.paths]
    assert sorted(rows) == list(range(ROWS))
    return np.asarray(index.vectors)[np.argsort(rows)]


def embed(embedder, source, folder, **how):
    index = open_or_create(str(folder), embedder, embedder.dim)
    return embed_into(index, source, OPTIONS, **how)


@pytest.fixture(scope="module")
def many(other_sources, tmp_path_factory):
    """A Parquet file of many rows."""
    read = [pyarrow.parquet.read_table(path) for path in sorted(other_sources.glob("parquet/*"))]
    few = pyarrow.concat_tables(read)
    rows = few.take(np.arange(ROWS) % len(few))
    path = tmp_path_factory.mktemp("many") / "many.parquet"
    pyarrow.parquet.write_table(rows, path, row_group_size=32)
    return path


@pytest.fixture(scope="module")
def model(embedder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    embedder.save(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(embedder, many, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "v"
    embed(embedder, open_source(many), folder)
    return vectors_of(folder)


def start(*arguments):
    """The command in a process of its own, with as many threads as this one."""
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.Popen(
        [sys.executable, "-c", OFTEN, "embed", *map(str, arguments), *SAME],
        env=os.environ | threads,
        stdout=subprocess.DEVNULL,
    )


def rows_in(folder):
    return len(Index.open(folder)) if (folder / "index.json").exists() else 0


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, "it ended too early"
        time.sleep(0.002)


def test_killed_and_continued(embedder, model, many, undisturbed, tmp_path):
    folder = tmp_path / "v"
    process = start(model, many, "-o", folder)
    wait_for(lambda: rows_in(folder) > 20, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = rows_in(folder)
    assert there < ROWS
    added = embed(embedder, open_source(many), folder)
    assert (added.new, added.unchanged) == (ROWS - there, there)
    assert np.array_equal(vectors_of(folder), undisturbed)


def test_two_at_once(model, many, undisturbed, tmp_path):
    folder = tmp_path / "v"
    both = [start(model, many, "-o", folder, "--shard", f"{part}/2") for part in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    assert np.array_equal(vectors_of(folder), undisturbed)


@pytest.mark.slow
def test_a_worker_of_ray_dies(embedder, many, undisturbed, tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr(ingest, "SECONDS_BETWEEN_COMMITS", 0)

    folder = tmp_path / "v"
    killed = []

    def kill_once_it_works():
        while not rows_in(folder):
            time.sleep(0.005)
        for process in psutil.Process().children(recursive=True):
            if "EmbedActor" in " ".join(process.cmdline()):
                killed.append(rows_in(folder))
                process.kill()
                return

    threading.Thread(target=kill_once_it_works, daemon=True).start()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        executor = on_ray(workers=2)
        added = embed(embedder, open_source(many), folder, executor=executor)
    finally:
        ray.shutdown()
    assert killed
    assert killed[0] < ROWS
    assert added.new == ROWS
    assert np.array_equal(vectors_of(folder), undisturbed)
