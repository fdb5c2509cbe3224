"""Search in a million vectors: time a query and recall, fast and exact, through the index itself.

    python benchmarks/search.py             # 1,000,000 x 128
    python benchmarks/search.py --number 200000

The vectors are synthetic: a hierarchy of clusters on the unit sphere, as embeddings of a trained
network are. Queries are drawn from the same clusters and are not in the index. Time is of one query
after another through ``Index.search``, which includes reading what is known of each hit.
"""

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
import torch

from lookalike.progress import Watcher
from lookalike.search import Blueprint, Embedder, Index, Record

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "search.md"
K = 10


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


def tiny_embedder(dim):
    """Any model with embeddings of the right size; it embeds nothing here."""
    blueprint = Blueprint(network="small-cnn", dim=dim)
    torch.manual_seed(0)
    return Embedder(blueprint.build(), blueprint)


def milliseconds(index, queries, exact):
    found, times = [], []
    for query in queries:
        start = time.perf_counter()
        hits = index.search(query, K, exact=exact)[0]
        times.append(1000 * (time.perf_counter() - start))
        found.append([hit.id for hit in hits])
    return np.array(times), found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)

    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(Path(folder) / "i", tiny_embedder(options.dim))
        index.root_number(Path(folder))
        rows = clustered(options.number, options.dim, seed=1)
        queries = clustered(options.queries, options.dim, seed=2)
        start = time.perf_counter()
        index.commit([Record(f"{i % 1000:03d}/{i}.jpg") for i in range(options.number)], rows)
        written = time.perf_counter() - start
        del rows
        start = time.perf_counter()
        index.optimize(Printer())
        built = time.perf_counter() - start
        start = time.perf_counter()
        index = Index.open(index.place)
        opened = time.perf_counter() - start
        milliseconds(index, queries[:20], exact=True)  # pages of the file come into memory
        slow, truth = milliseconds(index, queries[:100], exact=True)
        milliseconds(index, queries[:50], exact=False)
        fast, found = milliseconds(index, queries, exact=False)
        exact = index.search(queries, K, exact=True)
        truth = [[hit.id for hit in hits] for hits in exact]
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth, strict=True)])
        lines = [
            "| search | ms a query (median) | 95th percentile | recall@10 | times exact |",
            "|---|---:|---:|---:|---:|",
            f"| exact | {np.median(slow):.1f} | {np.percentile(slow, 95):.1f} | 1.000 | 1.0 |",
            f"| fast | {np.median(fast):.2f} | {np.percentile(fast, 95):.2f} | {recall:.3f} | "
            f"{np.median(slow) / np.median(fast):.1f} |",
        ]
        about = (
            f"{options.number:,} x {options.dim} clustered vectors, {options.queries} queries one "
            f"by one, {options.threads} threads of {platform.machine()}, "
            f"FAISS {faiss.__version__}, torch {torch.__version__}.\n\n"
            f"The index chose by itself: {index.approximation}. "
            f"Writing it took {written:.0f} s, building the fast search {built:.0f} s, opening it "
            f"{opened:.2f} s."
        )
        print("\n".join([about, "", *lines]))
        if options.number == 1_000_000 and options.dim == 128:
            TABLE.write_text(
                "# Search in a million vectors\n\n"
                "Written by `make bench-search`; `benchmarks/search.py` says how.\n\n"
                f"{about}\n\n" + "\n".join(lines) + "\n"
            )
        met = np.median(fast) <= 10 and recall >= 0.95 and np.median(slow) >= 10 * np.median(fast)
        if options.number >= 1_000_000 and not met:
            raise SystemExit("the promise is broken: 10 ms, recall@10 0.95, 10 times exact")


if __name__ == "__main__":
    main()
