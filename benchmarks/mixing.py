"""What mixing adds to a step: time and memory of the mixed term, forward and backward.

Embeddings of 512 dimensions, 5 images per class, feature maps as those of a ResNet-50 at 224 pixels
(2048 x 7 x 7). Memory is the highest resident set of a process that does nothing else, less that
of the same process before the term. Times are those of one thread on the processor, so that they
do not depend on what else the machine does.

    python benchmarks/mixing.py              # batches of 32 and 100
    python benchmarks/mixing.py --sizes 64
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch

from lookalike import losses, models
from lookalike.mixing import Mixing
from lookalike.training.distributed.launch import keep_freed_memory

WIDTH, PLACES, DIMENSIONS, PER_CLASS, REPEATS = 2048, 7, 512, 5, 3
CASES = {
    "clean loss": (None, "avg", None),
    "embed, all": ("embed", "avg", None),
    "feature, all, avg pooling": ("feature", "avg", None),
    "feature, all, max pooling": ("feature", "max", None),
    "feature, all, avg+max pooling": ("feature", "avg+max", None),
    "feature, all, gem pooling": ("feature", "gem", None),
    "feature, 3, avg+max pooling": ("feature", "avg+max", 3),
}


def measure(case: str, size: int, loss_name: str) -> None:
    """Print milliseconds and megabytes of one case."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as a run does
    torch.manual_seed(0)
    where, pooling, negatives = CASES[case]
    labels = torch.arange(size) // PER_CLASS
    sizes = {"num_classes": int(labels.max()) + 1, "embedding_size": DIMENSIONS}
    loss = losses.create(loss_name, **(sizes if loss_name == "proxy-anchor" else {}))
    head = models.Head(WIDTH, dim=DIMENSIONS, pooling=pooling)
    maps = torch.rand(size, WIDTH, PLACES, PLACES, requires_grad=True)

    def step() -> None:
        embeddings = head(maps)
        if where is None:
            loss(embeddings, labels).backward()
            return
        mixing = Mixing(where, pairs="positive-negative", negatives=negatives)
        given = (maps, head) if where == "feature" else ()
        pool = head.pool if where == "feature" else None
        mixing(loss, embeddings, labels, *given, pool=pool).backward()

    head(maps).sum().backward()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"| {case} | {size} | {1000 * statistics.median(times):.0f} | {kilobytes / 1024:.0f} |")


def main() -> None:
    """Each case in a process of its own, so that its memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 100])
    parser.add_argument("--loss", default="multi-similarity")
    parser.add_argument("--case", choices=CASES)
    options = parser.parse_args()
    if options.case:
        measure(options.case, options.sizes[0], options.loss)
        return
    print("| what | batch | ms of processor time | MB more |\n|---|---|---|---|", flush=True)
    for size in options.sizes:
        for case in CASES:
            own = ["--case", case, "--sizes", str(size), "--loss", options.loss]
            subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
