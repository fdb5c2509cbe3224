"""An index of a million vectors: adding, opening, searching, filtering; each figure a ratio.

    python benchmarks/search.py             # 1,000,000 x 128
    python benchmarks/search.py --number 60000

The vectors are synthetic: a hierarchy of clusters on the unit sphere, as embeddings of a trained
network are. Queries are drawn from the same clusters and are not in the index. What is compared
runs in turns, in one process, on one thread:

- adding 1,000 pictures to half of the collection, against writing all of it anew as the former
  version of the index did (CPU time);
- opening, against reading the same files;
- search, against a bare FAISS index with the same cells, visited cells and vectors, held in memory.
  ``ids`` is what FAISS answers too (ids and similarities), ``hits`` adds path, label and metadata;
- recall of the ten nearest, against comparing with every vector;
- importing all vectors, against writing them by NumPy and building a bare FAISS index
  (``benchmarks/importing.py``);
- filters that leave 50 %, 5 % and 0.1 % of the pictures, against the same search without one, and
  against comparing with every picture that is left.
"""

import argparse
import json
import platform
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import faiss
import numpy as np
import torch

import importing
from lookalike.progress import Watcher
from lookalike.search import Index, Record

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "search.md"
K = 10
ADDED = 1_000
BATCH = 32
FILTERS = {"50 %": "price < 500", "5 %": "price < 50", "0.1 %": "price < 1"}


class Printer(Watcher):
    def note(self, text):
        print(text, flush=True)


def clustered(number, dim, seed):
    """1,000 families of 20 classes; cosines are 0.6 within a class, 0.3 within a family."""
    fixed = np.random.default_rng(0)
    families = fixed.normal(size=(1_000, dim))
    classes = families.repeat(20, 0) + fixed.normal(size=(20_000, dim))
    random = np.random.default_rng(seed)
    rows = np.empty((number, dim), np.float32)
    for start in range(0, number, 100_000):
        size = min(100_000, number - start)
        part = classes[random.integers(0, len(classes), size)]
        part = part + 1.2 * random.normal(size=(size, dim))
        rows[start : start + size] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def records(start, stop):
    random = np.random.default_rng(start)
    prices = random.integers(0, 1_000, stop - start).tolist()
    return [
        Record(f"{i % 1000:03d}/{i}.jpg", f"label {i % 500}", {"price": str(price)})
        for i, price in zip(range(start, stop), prices, strict=True)
    ]


def written_anew(folder, rows, known):
    """What the former version of the index wrote with every commit."""
    np.save(folder / "vectors.npy", rows)
    np.save(folder / "ids.npy", np.arange(len(rows)))
    starts = [0]
    with (folder / "items.jsonl").open("wb") as lines:
        for record in known:
            line = json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":")) + "\n"
            starts.append(starts[-1] + lines.write(line.encode()))
    np.save(folder / "starts.npy", np.array(starts, np.int64))


def cpu_seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def medians(works, arguments, rounds=3):
    """The median time of each function, in turns, in microseconds a call."""
    times = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            for argument in arguments:
                start = time.perf_counter()
                work(argument)
                if turn:  # the first round brings pages into memory
                    times[name].append(time.perf_counter() - start)
    return {name: 1e6 * float(np.median(one)) for name, one in times.items()}


def recall(found, truth):
    shares = [
        len({hit.id for hit in one} & {hit.id for hit in right}) / max(1, len(right))
        for one, right in zip(found, truth, strict=True)
    ]
    return float(np.mean(shares))


def measure_adding(folder, rows):
    """CPU seconds of adding to half of the vectors, and of writing them anew."""
    half = len(rows) // 2
    index = Index.create(folder / "half.index", None, dim=rows.shape[1])
    index.commit(records(0, half), rows[:half])
    extra = records(half, half + ADDED)
    added = cpu_seconds(lambda: index.commit(extra, rows[half : half + ADDED]))
    known = [*records(0, half), *extra]
    (folder / "anew").mkdir()
    anew = cpu_seconds(lambda: written_anew(folder / "anew", rows[: half + ADDED], known))
    return half, added, anew


def measure_opening(place):
    def read():
        for path in Path(place).rglob("*"):
            if path.is_file():
                path.read_bytes()

    times = medians({"open": lambda _: Index.open(place), "read": lambda _: read()}, [0], rounds=4)
    return times["open"] / 1e6, times["read"] / 1e6


def bare_index(index):
    """The same cells and vectors as an ordinary FAISS index in memory."""
    (segment,) = index.contents.segments
    centroids, rows = segment.cells.centroids, segment.rows.vectors
    coarse = faiss.IndexFlatIP(rows.shape[1])
    coarse.add(np.ascontiguousarray(centroids))
    bare = faiss.IndexIVFFlat(coarse, rows.shape[1], len(centroids), faiss.METRIC_INNER_PRODUCT)
    bare.add(np.ascontiguousarray(rows))
    bare.nprobe = segment.note.cells.nprobe
    return bare


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=480)
    options = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    lines = ["| what | time | against | time | ratio |", "|---|---:|---|---:|---:|"]

    def tell(what, mine, other, theirs, unit, good=None):
        ratio = theirs / mine
        pair = (mine, theirs)
        shown = [f"{one:,.0f} {unit}" if one > 10 else f"{one:.2g} {unit}" for one in pair]
        lines.append(f"| {what} | {shown[0]} | {other} | {shown[1]} | {ratio:.2f} |")
        print(lines[-1], flush=True)
        if good is not None and options.number >= 1_000_000 and ratio < good:
            broken.append(f"{what}: {ratio:.2f}, not {good}")

    broken = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = clustered(options.number, options.dim, seed=1)
        queries = clustered(options.queries, options.dim, seed=2)
        half, added, anew = measure_adding(folder, rows)
        tell(f"add {ADDED:,} to {half:,}", added, "writing all anew", anew, "CPU s", 10)

        (folder / "import").mkdir()
        parts = importing.measure(rows, folder / "import")
        plain = parts.written + parts.built
        tell(f"import {options.number:,}", parts.imported, "NumPy and bare FAISS", plain, "s")

        index = Index.create(folder / "i", None, dim=options.dim)
        index.commit(records(0, options.number), rows)
        index.optimize(Printer())
        opened, read = measure_opening(index.place)
        tell(f"open {options.number:,}", opened, "reading its files", read, "s")
        if opened > 1 and options.number <= 1_000_000:
            broken.append(f"opening takes {opened:.2f} s")

        index, bare = Index.open(index.place), bare_index(index)
        works = {
            "bare": lambda x: bare.search(x, K),
            "ids": lambda x: index.contents.nearest(x, K, None, False),
            "hits": lambda x: index.search(x, K),
            "exact": lambda x: index.contents.nearest(x, K, None, True),
        }
        single = [query[None].copy() for query in queries]
        several = [queries[at : at + BATCH].copy() for at in range(0, len(queries), BATCH)]
        for what, arguments in (("one query", single), (f"{BATCH} queries", several)):
            exact = works.pop("exact", None)
            times = medians(works, arguments)
            tell(f"{what}, ids", times["ids"], "bare FAISS", times["bare"], "us", 0.9)
            tell(f"{what}, hits", times["hits"], "bare FAISS", times["bare"], "us")
            if exact is not None:
                slow = medians({"exact": exact}, arguments[:20])["exact"]
                tell(f"{what}, hits", times["hits"], "every vector", slow, "us", 10)
        truth = index.search(queries, K, exact=True)
        quality = [recall(index.search(queries, K), truth)]
        for share, where in FILTERS.items():
            times = medians(
                {
                    "with": lambda x, where=where: index.search(x, K, where=where),
                    "without": lambda x: index.search(x, K),
                },
                single[:200],
            )
            tell(f"filter, {share} left", times["with"], "no filter", times["without"], "us")
            left = index.search(queries[:100], K, where=where, exact=True)
            quality.append(recall(index.search(queries[:100], K, where=where), left))
        if min(quality) < 0.95 and options.number >= 1_000_000:
            broken.append(f"recall {min(quality):.3f}")
        about = (
            f"{options.number:,} x {options.dim} clustered vectors, {options.queries} queries, one "
            f"thread of {platform.machine()}, FAISS {faiss.__version__}, torch {torch.__version__}."
            f"\n\nThe index chose by itself: {index.approximation}. Recall@10 on the queries: "
            f"{quality[0]:.3f}; with the filters "
            + ", ".join(
                f"{one:.3f} ({share})" for share, one in zip(FILTERS, quality[1:], strict=True)
            )
            + "."
        )
        print(about)
        if options.number == 1_000_000 and options.dim == 128:
            TABLE.write_text(
                "# Search in a million vectors\n\n"
                "Written by `make bench-search`; `benchmarks/search.py` says how. A ratio above 1: "
                "the index is faster.\n\n"
                f"{about}\n\n" + "\n".join(lines) + "\n"
            )
    if broken:
        raise SystemExit("a promise is broken: " + "; ".join(broken))


if __name__ == "__main__":
    main()
