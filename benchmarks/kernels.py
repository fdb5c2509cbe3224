"""What each hand-written gradient of ``losses/kernels`` buys.

Each loss with a kernel runs with it and by its formula, in one process and in turns: in a whole
training step of a small network on 28 x 28 images, in one of a head on frozen features (1,280
numbers, AdamW), and alone at N = 512 and 2,048. A kernel that changes no whole step and little
alone is deleted. The kernels of smooth-ap and of the triplet loss with swap stay for their memory:
the formula writes an array over all triplets.

    python benchmarks/kernels.py            # writes docs/benchmarks/kernels.md
    python benchmarks/kernels.py --quick    # fewer repeats, nothing written
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lookalike import losses, models
from losses import PLACE, medians

PER_CLASS, BATCH, DIMENSIONS, ALONE = 4, 128, 128, (512, 2048)

KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "angular": ("angular", {}),
    "arcface": ("arcface", {}),
    "contrastive": ("contrastive", {}),
    "fast_ap": ("fast-ap", {}),
    "lifted_structure": ("generalized-lifted-structure", {}),
    "margin": ("margin", {}),
    "multi_similarity": ("multi-similarity", {}),
    "ntxent": ("ntxent", {}),
    "proxy_anchor": ("proxy-anchor", {}),
    "quadruplet": ("quadruplet", {}),
    "smooth_ap": ("smooth-ap", {}),
    "softmax": ("normalized-softmax", {}),
    "supcon": ("supcon", {}),
    "triplet (all)": ("triplet", {}),
    "triplet (blocks: swap)": ("triplet", {"swap": True}),
}
TOO_LARGE = {"quadruplet", "triplet (blocks: swap)", "triplet (all)", "smooth_ap"}
"""By the formula these write an array over all triplets: not at N = 2,048."""


def built(name: str, settings: dict[str, Any], size: int, *, kernel: bool) -> nn.Module:
    """A loss with or without its kernel."""
    torch.manual_seed(0)
    if "embedding_size" in losses.LOSSES.arguments(name):
        settings = {"num_classes": size // PER_CLASS, "embedding_size": DIMENSIONS} | settings
    loss: Any = losses.create(name, **settings)
    if not kernel:
        loss.kernel = lambda relations: None  # noqa: ARG005
    return loss  # type: ignore[no-any-return]


def step(model: nn.Module | None, inputs: Tensor, loss: nn.Module) -> Callable[[], None]:
    """Forward, backward and, with a model, the optimiser."""
    labels = torch.arange(len(inputs)) // PER_CLASS
    if model is None:

        def alone() -> None:
            inputs.grad = None
            loss(inputs, labels).backward()

        return alone
    optimizer = torch.optim.AdamW([*model.parameters(), *loss.parameters()], lr=1e-9, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()
        optimizer.step()

    return run


def ratio(make: Callable[[bool], Callable[[], None]], seconds: float) -> float:
    """How many times faster it is with the kernel."""
    fast, plain = medians([make(True), make(False)], seconds)
    return plain / fast


def row(kernel: str, seconds: float) -> list[str]:
    """The ratios of one kernel."""
    name, settings = KERNELS[kernel]
    torch.manual_seed(1)
    network = models.build("small-cnn", dim=DIMENSIONS, channels=1).train()
    images, features = torch.randn(BATCH, 1, 28, 28), torch.randn(BATCH, 1280)
    head = nn.Linear(1280, DIMENSIONS)

    def with_model(model: nn.Module, inputs: Tensor) -> Callable[[bool], Callable[[], None]]:
        return lambda fast: step(model, inputs, built(name, dict(settings), BATCH, kernel=fast))

    cells = [
        f"{ratio(with_model(model, inputs), seconds):.2f}x"
        for model, inputs in ((network, images), (head, features))
    ]
    for size in ALONE:
        if kernel in TOO_LARGE and size > 512:
            cells.append("")
            continue
        rows = torch.randn(size, DIMENSIONS, requires_grad=True)

        def alone(fast: bool, size: int = size, rows: Tensor = rows) -> Callable[[], None]:
            return step(None, rows, built(name, dict(settings), size, kernel=fast))

        cells.append(f"{ratio(alone, seconds):.2f}x")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, write nothing")
    given = parser.parse_args()
    torch.set_num_threads(2)
    lines = [
        "# What hand-written gradients buy",
        "",
        "Written by `python benchmarks/kernels.py`. Time by the formula over time with the kernel,",
        f"medians of turns in one process; batches of {BATCH} ({PER_CLASS} images per class), "
        f"{DIMENSIONS} dimensions.",
        "",
        "| kernel | step, small-cnn | step, frozen head | loss alone, N = 512 | N = 2048 |",
        "|---|---:|---:|---:|---:|",
    ]
    for kernel in KERNELS:
        lines.append(f"| {kernel} | " + " | ".join(row(kernel, 0.5 if given.quick else 3.0)) + " |")
        print(lines[-1], flush=True)
    if not given.quick:
        (PLACE / "kernels.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
