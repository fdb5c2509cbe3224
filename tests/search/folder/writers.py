"""Processes that write to an index until they are killed, and say what they have done."""

import hashlib
import multiprocessing
import time
from pathlib import Path

import numpy as np

from lookalike.progress import Watcher
from lookalike.search import Index, Record
from lookalike.search.folder import segment

DIM = 8

# Forked from a process that has imported all this and done nothing: quick to start, no threads.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "faiss", "pyarrow", "lookalike.search.folder.store"])


def vector_for(path):
    """A vector that belongs to one path only."""
    seed = int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "little")
    row = np.random.default_rng(seed).normal(size=DIM)
    return (row / np.linalg.norm(row)).astype(np.float32)


def record_for(path):
    """What is stored about a path."""
    return Record(path, path[:1], {"hash": hashlib.sha256(path.encode()).hexdigest()[:6]})


def write_for_ever(place, work, name, log):
    """Write; say in the file ``log`` what is begun ("+", "-") and what is committed ("=")."""
    segment.EXACT_BELOW = 150
    index = Index.open(place)
    with open(log, "a", buffering=1) as said:
        print("ready", file=said)
        for turn in range(10**9):
            if work == "compact":
                index.compact(Watcher())
                continue
            paths = [f"{name}-{turn}-{number}" for number in range(5)]
            print("+", *paths, file=said)
            index.commit([record_for(p) for p in paths], np.stack([vector_for(p) for p in paths]))
            print("=", file=said)
            if work == "remove":
                ids = index.ids_of([record_for(path) for path in paths[:3]])
                print("-", *paths[:3], file=said)
                index.remove(ids.tolist())
                print("=", file=said)
            elif turn % 4 == 3:
                index.optimize(Watcher())


class Writer:
    """A process that writes until it is killed."""

    def __init__(self, place, work, name):
        self.log = Path(f"{place}.{name}.log")
        self.log.touch()
        arguments = (str(place), work, name, str(self.log))
        self.process = PROCESSES.Process(target=write_for_ever, args=arguments, daemon=True)
        self.process.start()
        while self.process.is_alive() and not self.log.stat().st_size:
            time.sleep(0.001)

    def kill(self):
        """Kill it; return what it has surely added, surely removed, and perhaps."""
        assert self.process.is_alive(), "the writer failed by itself"
        self.process.kill()
        self.process.join()
        there, gone = set(), set()
        kind, paths = "", []
        for line in self.log.read_text().splitlines(keepends=True):
            word, *named = line.split() or [""]
            if not line.endswith("\n") or word == "ready":
                continue
            if word != "=":
                kind, paths = word, named
                continue
            if kind == "+":
                there |= set(paths)
            else:
                there -= set(paths)
                gone |= set(paths)
            paths = []
        return there - set(paths), gone - set(paths), set(paths)
