"""Losses and miners against pytorch-metric-learning (PML): speed and memory.

Forward and backward, with the miner where the case has one, 128 dimensions, 4 images a class. Both
libraries run in one process, in turns of ten steps, so that the ratio of the medians does not
depend on what else the machine does. Peak memory is the largest sum of live tensors that the step
allocates, as torch's profiler records every allocation and release.

    python benchmarks/losses.py            # everything; writes docs/benchmarks/losses.md and .png
    python benchmarks/losses.py --quick    # fewer repeats, nothing written
"""

import argparse
import math
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import pytorch_metric_learning
import pytorch_metric_learning.losses as their_losses
import pytorch_metric_learning.miners as their_miners
import torch

import lookalike.losses as our_losses
import lookalike.miners as our_miners

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DIMENSIONS, PER_CLASS, SIZES, ALONE = 128, 4, (32, 128, 512), 2048
PLACE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"


@dataclass(frozen=True)
class Case:
    """A loss, perhaps with a miner, by the names that both libraries share."""

    name: str
    loss: str
    miner: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    proxies: bool = False

    def step(self, library: str, size: int) -> Callable[[], None]:
        """One forward and backward pass."""
        losses, miners = (
            (their_losses, their_miners) if library == "theirs" else (our_losses, our_miners)
        )
        torch.manual_seed(0)
        embeddings = torch.randn(size, DIMENSIONS, requires_grad=True)
        labels = torch.arange(size) // PER_CLASS
        shape = {"num_classes": size // PER_CLASS, "embedding_size": DIMENSIONS}
        loss = getattr(losses, self.loss)(**(shape if self.proxies else {}))
        miner = getattr(miners, self.miner)(**self.settings) if self.miner else None

        def run() -> None:
            embeddings.grad = None
            for weight in loss.parameters():
                weight.grad = None
            mined = miner(embeddings, labels) if miner is not None else None
            loss(embeddings, labels, mined).backward()

        return run


CASES = (
    Case("contrastive", "ContrastiveLoss"),
    Case("triplet (all)", "TripletMarginLoss"),
    Case(
        "triplet + semi-hard",
        "TripletMarginLoss",
        "TripletMarginMiner",
        {"type_of_triplets": "semihard"},
    ),
    Case("margin + distance-weighted", "MarginLoss", "DistanceWeightedMiner"),
    Case("generalised lifted", "GeneralizedLiftedStructureLoss"),
    Case("NTXent", "NTXentLoss"),
    Case("SupCon", "SupConLoss"),
    Case("multi-similarity", "MultiSimilarityLoss"),
    Case("multi-similarity + miner", "MultiSimilarityLoss", "MultiSimilarityMiner"),
    Case("FastAP", "FastAPLoss"),
    Case("SNR contrastive", "SignalToNoiseRatioContrastiveLoss"),
    Case("ProxyNCA", "ProxyNCALoss", proxies=True),
    Case("ProxyAnchor", "ProxyAnchorLoss", proxies=True),
    Case("SoftTriple", "SoftTripleLoss", proxies=True),
    Case("ArcFace", "ArcFaceLoss", proxies=True),
    Case("NormalizedSoftmax", "NormalizedSoftmaxLoss", proxies=True),
    Case("Angular", "AngularLoss"),
)


def medians(steps: list[Callable[[], None]], seconds: float) -> list[float]:
    """The median time of each, taking turns for about so many seconds, at least 3 turns.

    A turn is ten steps in a row (one, of the slow ones), as a timer repeats a statement: the first
    finds the processor's caches full of the other library's, the others find their own.
    """
    times: list[list[float]] = [[] for _ in steps]
    in_a_row = [10 if timed(step) < seconds / 50 else 1 for step in steps]
    end = time.perf_counter() + seconds
    while len(times[0]) < 3 or (time.perf_counter() < end and len(times[0]) < 1000):
        for step, kept, number in zip(steps, times, in_a_row, strict=True):
            kept += [timed(step) for _ in range(number)]
    return [statistics.median(kept) for kept in times]


def timed(step: Callable[[], None]) -> float:
    """The time of one step, in seconds."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def peak_memory(step: Callable[[], None]) -> float:
    """The largest sum of memory that one step holds at a time, in MB."""
    step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak / 1e6


def geometric_mean(values: list[float]) -> float:
    """The mean of ratios."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def measure(cases: list[Case], seconds: float) -> list[dict[str, Any]]:
    """A row for each case."""
    rows = []
    for case in cases:
        row: dict[str, Any] = {"case": case.name}
        for size in SIZES:
            kinds = ("theirs", "ours")
            times = medians([case.step(kind, size) for kind in kinds], seconds)
            row |= {f"{kind} {size}": time for kind, time in zip(kinds, times, strict=True)}
            row[f"ratio {size}"] = row[f"theirs {size}"] / row[f"ours {size}"]
        row["memory theirs"] = peak_memory(case.step("theirs", SIZES[-1]))
        row["memory ours"] = peak_memory(case.step("ours", SIZES[-1]))
        row[f"ours {ALONE}"] = medians([case.step("ours", ALONE)], seconds)[0]
        row["growth"] = row[f"ours {ALONE}"] / row[f"ours {SIZES[-1]}"]
        rows.append(row)
        ratios = "  ".join(f"{size}: {row[f'ratio {size}']:7.2f}x" for size in SIZES)
        print(
            f"{case.name:28} {ratios}   memory {row['memory theirs']:8.1f} -> "
            f"{row['memory ours']:6.1f} MB   {SIZES[-1]} -> {ALONE}: {row['growth']:5.1f}x",
            flush=True,
        )
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[int, float]:
    """The geometric mean of the speed-ups at each size."""
    return {size: geometric_mean([row[f"ratio {size}"] for row in rows]) for size in SIZES}


def write(rows: list[dict[str, Any]]) -> None:
    """The table and the plot in docs/benchmarks."""
    PLACE.mkdir(parents=True, exist_ok=True)
    means = summary(rows)
    lines = [
        "# Losses: speed and memory",
        "",
        "Written by `make bench-losses`. Forward and backward, with the miner where there is one;",
        f"{DIMENSIONS} dimensions, {PER_CLASS} images a class, float32, "
        f"{torch.get_num_threads()} threads of a {platform.machine()} CPU, "
        f"torch {torch.__version__.partition('+')[0]}, "
        f"pytorch-metric-learning (PML) {pytorch_metric_learning.__version__}.",
        "Both run in one process, in turns of ten steps; times are medians in milliseconds, so the",
        "processor's caches are warm for both. Memory is the largest sum of tensors that a step",
        "holds at a time (torch's profiler), at N = 512.",
        "",
        "| case | "
        + " | ".join(f"N={size}: PML | ours | faster" for size in SIZES)
        + f" | memory: PML, MB | ours, MB | ours at N={ALONE} | growth from {SIZES[-1]} |",
        "|---|" + "---:|" * (3 * len(SIZES) + 4),
    ]
    for row in rows:
        cells = [row["case"]]
        for size in SIZES:
            cells += [
                f"{row[f'theirs {size}'] * 1e3:.2f}",
                f"{row[f'ours {size}'] * 1e3:.2f}",
                f"{row[f'ratio {size}']:.1f}x",
            ]
        cells += [
            f"{row['memory theirs']:.1f}",
            f"{row['memory ours']:.1f}",
            f"{row[f'ours {ALONE}'] * 1e3:.1f}",
            f"{row['growth']:.1f}x",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    overall = ", ".join(f"{mean:.1f}x at N = {size}" for size, mean in means.items())
    lines += ["", f"Geometric mean of the speed-ups: {overall}.", "", "![speed-ups](losses.png)"]
    (PLACE / "losses.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    figure, axes = plt.subplots(figsize=(8, 6))
    height = 0.8 / len(SIZES)
    for number, size in enumerate(SIZES):
        places = [index + number * height for index in range(len(rows))]
        ratios = [row[f"ratio {size}"] for row in rows]
        axes.barh(places, ratios, height, label=f"N = {size}")
    axes.set_yticks([index + height for index in range(len(rows))], [row["case"] for row in rows])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("times faster than pytorch-metric-learning (forward + backward)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(PLACE / "losses.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, write nothing")
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--cases", default="", help="only cases whose name holds one of a,b,c")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    wanted = arguments.cases.split(",")
    cases = [case for case in CASES if any(part in case.name for part in wanted)]
    rows = measure(cases, 0.3 if arguments.quick else 2.0)
    for size, mean in summary(rows).items():
        print(f"geometric mean at N = {size}: {mean:.2f}x")
    if not arguments.quick and len(cases) == len(CASES):
        write(rows)
        print(f"written: {PLACE / 'losses.md'}")


if __name__ == "__main__":
    main()
