"""Samplers: seconds to plan an epoch, and to choose one batch by stored embeddings.

    python benchmarks/samplers.py

SPC is planned for an epoch of the size of Stanford Online Products (59,551 images of 11,318
classes, batch 112). GC, D2, DDM and FRD choose batches of 90 from a store of the size of CUB's
training half (5,864 images of 100 classes, 128-d); compare with a training step of a network, which
``benchmarks/training.py`` times.
"""

import statistics
import time

import numpy as np
import torch

from lookalike import samplers


def planning() -> float:
    """Seconds for one epoch of SPC."""
    labels = np.random.default_rng(0).permutation(np.resize(np.arange(11_318), 59_551))
    sampler = samplers.create("spc", labels, batch_size=112, per_class=4)
    start = time.perf_counter()
    count = sum(1 for _ in sampler)
    seconds = time.perf_counter() - start
    print(f"spc: an epoch of {count} batches, 11,318 classes: {seconds:.2f} s")
    return seconds


def choosing(name: str, batches: int = 20) -> float:
    """Median seconds to choose one batch and to take in its embeddings."""
    labels = np.resize(np.arange(100), 5_864)
    sampler = samplers.create(name, labels, batch_size=90, per_class=2)
    sampler.fill(torch.randn(5_864, 128))
    taken = []
    stream = iter(sampler)
    for _ in range(batches):
        start = time.perf_counter()
        batch = next(stream)
        sampler.observe(torch.as_tensor(batch), torch.randn(len(batch), 128))
        taken.append(time.perf_counter() - start)
    seconds = statistics.median(taken)
    print(f"{name}: a batch of 90: {1e3 * seconds:.1f} ms")
    return seconds


def main() -> None:
    planning()
    for name in ("gc", "d2", "ddm", "frd"):
        choosing(name)


if __name__ == "__main__":
    main()
