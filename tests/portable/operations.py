"""Print, as JSON, what this machine computes: sums over the results of a few operations.

The operands are the same everywhere, and each sum is exact before it is rounded once, so that two
that differ come from results that differ.
"""

import json
import math
import os
import sys

import numpy as np
import torch


def sums() -> dict[str, float]:
    """The sum of the results of each operation."""
    random = np.random.default_rng(0)
    rows, images, kernels = (
        random.normal(size=size).astype(np.float32)
        for size in ((512, 256), (8, 16, 32, 32), (32, 16, 3, 3))
    )
    matrix = torch.from_numpy(rows)
    results = {
        "matrix product": matrix @ matrix.T,
        "softmax": matrix.softmax(1),
        "convolution": torch.conv2d(torch.from_numpy(images), torch.from_numpy(kernels)),
        "sum": matrix.sum(),
        "product of numpy": rows @ rows.T,
    }
    return {name: math.fsum(np.ravel(found).tolist()) for name, found in results.items()}


def main() -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if "one_ulp" in sys.argv:
        import one_ulp

        one_ulp.pytest_configure()
    described = {
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "mkl": torch.backends.mkl.is_available(),
        "onednn": torch.backends.mkldnn.is_available(),
        "sums": sums(),
    }
    print(json.dumps(described))


if __name__ == "__main__":
    main()
