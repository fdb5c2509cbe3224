"""Importing vectors into an index, against what cannot be avoided.

    python benchmarks/importing.py --number 1000000

That is: writing the same bytes by NumPy, and building a bare FAISS index of the kind that the index
builds, with as many cells, all in the same run.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import torch

from lookalike.search.ingest import import_vectors
from lookalike.search.vector_files import open_vectors


@dataclass(frozen=True)
class Importing:
    """Seconds of an import, and of its parts that cannot be avoided."""

    number: int
    imported: float
    written: float
    built: float
    search: str

    @property
    def ratio(self):
        return self.imported / (self.written + self.built)

    def lines(self):
        """A table in Markdown."""
        return [
            "| import | seconds |",
            "|---|---:|",
            f"| `index import` of {self.number:,} vectors | {self.imported:.1f} |",
            f"| NumPy writes the same bytes | {self.written:.1f} |",
            f"| bare FAISS builds an index of the same kind | {self.built:.1f} |",
            f"| ratio | {self.ratio:.2f} |",
        ]


def bare_faiss(vectors, path):
    """IVF over all vectors with as many cells as an index of so many chooses, written to a file."""
    cells = max(1, int(2 * len(vectors) ** 0.5))
    quantiser = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(quantiser, vectors.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    shown = np.random.default_rng(0).choice(
        len(vectors), min(len(vectors), 64 * cells), replace=False
    )
    index.train(vectors[np.sort(shown)])
    index.add(vectors)
    faiss.write_index(index, str(path))


def measure(vectors, folder):
    """Import vectors [n, dim] from an .npy file, and do its parts by hand.

    Args:
        vectors: Unit vectors, float32.
        folder: An empty folder for all files.

    Returns:
        The seconds.
    """
    folder = Path(folder)
    start = time.perf_counter()
    with (folder / "given.npy").open("wb") as file:
        np.save(file, vectors)
        os.fsync(file.fileno())
    written = time.perf_counter() - start
    start = time.perf_counter()
    bare_faiss(vectors, folder / "bare.faiss")
    built = time.perf_counter() - start
    start = time.perf_counter()
    index, _ = import_vectors(str(folder / "imported"), open_vectors(folder / "given.npy"))
    imported = time.perf_counter() - start
    return Importing(len(vectors), imported, written, built, index.approximation or "exact")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    random = np.random.default_rng(1)
    vectors = random.normal(size=(options.number, options.dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(vectors, folder)
    print("\n".join([*found.lines(), "", f"search: {found.search}"]))


if __name__ == "__main__":
    main()
