"""Pictures a second of ``lookalike embed``, against a plain loop that decodes, then computes.

    python benchmarks/embedding.py                    # 2,000 JPEGs of 500 x 375, EfficientNet-Lite0
    python benchmarks/embedding.py --number 100

Both are measured in turn, in the same run, and the best of the rounds counts. The plain loop is
what one writes first: read a batch of pictures, compute it, read the next.
"""

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lookalike.inference.embedder import Embedder
from lookalike.inference.job import Options
from lookalike.inference.pictures import read_picture
from lookalike.inference.source import open_source
from lookalike.search import Index
from lookalike.search.ingest import embed_into

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "embedding.md"


def write_photos(folder, number):
    """JPEGs of soft noise, about as large as photographs of their size."""
    random = np.random.default_rng(0)
    for place in range(number):
        rough = random.integers(0, 256, (47, 63, 3), np.uint8)
        image = Image.fromarray(rough).resize((500, 375), Image.Resampling.BICUBIC)
        image.save(folder / f"{place:06d}.jpg", quality=88)


def plain(embedder, paths, batch):
    """Decode, then compute, in turn."""
    found = []
    for start in range(0, len(paths), batch):
        pixels = [embedder.prepare(read_picture(path)) for path in paths[start : start + batch]]
        found.append(embedder.embed_prepared(pixels, batch))
    return np.concatenate(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=2_000)
    parser.add_argument("--network", default="efficientnet-lite0")
    parser.add_argument("--weights", default="imagenet")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    embedder = Embedder.from_network(options.network, weights=options.weights)
    how = Options(device=options.device, batch=options.batch)
    with tempfile.TemporaryDirectory() as place:
        photos = Path(place) / "photos"
        photos.mkdir()
        write_photos(photos, options.number)
        paths = sorted(photos.iterdir())
        plain(embedder, paths[: options.batch], options.batch)  # files and code come into memory
        times = {"plain": [], "embed": []}
        for number in range(options.rounds):
            start = time.perf_counter()
            plain(embedder, paths, options.batch)
            times["plain"].append(time.perf_counter() - start)
            start = time.perf_counter()
            index = Index.create(Path(place) / f"vectors-{number}", embedder)
            embed_into(index, open_source(photos), how)
            times["embed"].append(time.perf_counter() - start)
    speed = {name: options.number / min(seconds) for name, seconds in times.items()}
    lines = [
        f"{options.number:,} JPEGs of 500 x 375 pixels, {options.network}, batches of "
        f"{options.batch}, {options.threads} threads of {platform.machine()}, "
        f"torch {torch.__version__}, best of {options.rounds}.",
        "",
        "| way | pictures a second | ratio |",
        "|---|---:|---:|",
        f"| a plain loop: decode, then compute | {speed['plain']:.1f} | 1.00 |",
        f"| `lookalike embed` | {speed['embed']:.1f} | {speed['embed'] / speed['plain']:.2f} |",
    ]
    print("\n".join(lines))
    if options.number == 2_000 and options.network == "efficientnet-lite0":
        TABLE.write_text(
            "# Embedding pictures\n\n"
            f"Written by `python benchmarks/embedding.py --rounds {options.rounds}`, "
            "which says how. "
            "Both ways run in one process, so the plain loop keeps freed memory too.\n\n"
            + "\n".join(lines)
            + "\n"
        )


if __name__ == "__main__":
    main()
