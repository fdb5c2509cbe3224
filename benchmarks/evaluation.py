"""Evaluation against the bare similarity product and against pytorch-metric-learning (PML).

One process; what is compared runs in turns, and the ratio of the best of each is what counts.
Writes docs/benchmarks/evaluation.md. ``--without-pml`` leaves the peer out at the large size.
"""

import argparse
import gc
import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from lookalike.evaluation import Evaluation, score

METRICS = (
    *("recall@1", "recall@10", "recall@100", "recall@1000"),
    *("precision@1", "precision@10", "r-precision", "map@r", "map", "map@10", "mrr", "ndcg@10"),
)
PEER = {
    "recall@1": "precision_at_1",
    "r-precision": "r_precision",
    "map@r": "mean_average_precision_at_r",
}
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "evaluation.md"


@dataclass(frozen=True)
class Target:
    """One line of the table: what was measured, what was asked, and whether it holds."""

    what: str
    measured: str
    asked: str
    holds: bool


def points(
    number: int, dim: int, per_class: int, noise: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy points round unit centres, as a middling network gives them."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(number) // per_class
    centres = torch.randn(int(labels[-1]) + 1, dim, generator=generator)
    rows = torch.randn(number, dim, generator=generator).mul_(noise)
    rows += centres[labels]
    return torch.nn.functional.normalize(rows), labels


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def bare_product(rows: torch.Tensor) -> None:
    """The whole similarity matrix, in blocks, nothing done with it."""
    block = torch.empty(1024, len(rows))
    for start in range(0, len(rows), 1024):
        part = rows[start : start + 1024]
        torch.mm(part, rows.T, out=block[: len(part)])


def peer_scores(
    rows: torch.Tensor, labels: torch.Tensor, k: str | None = "max_bin_count"
) -> dict[str, float]:
    """PML's three; "max_bin_count" takes as many neighbours as the largest class needs.

    Its default, None, takes all of them, and would need 29 GB at the large size.
    """
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    calculator = AccuracyCalculator(include=tuple(PEER.values()), k=k)
    found: dict[str, float] = calculator.get_accuracy(rows, labels)
    return found


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def extra_memory(function: Callable[[], object]) -> float:
    """The greatest growth of the resident memory while ``function`` runs, in MB."""
    gc.collect()
    before = most = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        function()
    finally:
        done.set()
        watcher.join()
    return (max(most, resident()) - before) / 2**20


def check_same(found: Evaluation, theirs: dict[str, float]) -> None:
    for ours, name in PEER.items():
        # PML takes neighbours in single precision: one near-tie may fall the other way.
        assert abs(found.scores[ours] - theirs[name]) < 1e-4, (ours, found.scores[ours], theirs)


def large(with_pml: bool, rounds: int) -> list[Target]:
    rows, labels = points(60_500, 512, 5, noise=2.2)
    kept: list[Evaluation] = []

    def ours() -> None:
        kept[:] = [score(rows, labels, METRICS)]

    memory = extra_memory(ours)
    show_scores(kept[0])
    own, bare = [], []
    for _ in range(rounds):
        bare.append(timed(lambda: bare_product(rows)))
        own.append(timed(ours))
        print(f"  bare product {bare[-1]:.1f} s, all rank metrics {own[-1]:.1f} s", flush=True)
    share = min(own) / min(bare)
    size = "60,500 x 512, 5 a class"
    targets = [
        Target(f"{size}: time / bare full product", f"{share:.2f}", "<= 0.6", share <= 0.6),
        Target(f"{size}: extra memory", f"{memory:.0f} MB", "<= 600 MB", memory <= 600),
    ]
    if with_pml:
        theirs: dict[str, float] = {}
        peer = timed(lambda: theirs.update(peer_scores(rows, labels)))
        own.append(timed(ours))  # in the same conditions as the peer just had
        check_same(kept[0], theirs)
        ratio = peer / own[-1]
        print(f"  PML {peer:.1f} s, all rank metrics {own[-1]:.1f} s", flush=True)
        what = f'{size}: speed against PML\'s three metrics, k="max_bin_count"'
        targets.append(Target(what, f"{ratio:.1f} x", ">= 5 x", ratio >= 5))
    return targets


def small(rounds: int) -> list[Target]:
    rows, labels = points(5_900, 128, 59, noise=2.3)
    kept: list[Evaluation] = []
    theirs: dict[str, float] = {}
    own, lean, usual = [], [], []
    for _ in range(rounds):
        lean.append(timed(lambda: theirs.update(peer_scores(rows, labels))))
        own.append(timed(lambda: kept.append(score(rows, labels, METRICS))))
        usual.append(timed(lambda: peer_scores(rows, labels, None)))
        own.append(timed(lambda: kept.append(score(rows, labels, METRICS))))
        print(
            f"  PML as it comes {usual[-1]:.2f} s, with few neighbours {lean[-1]:.2f} s, "
            f"all rank metrics {own[-2]:.2f} and {own[-1]:.2f} s",
            flush=True,
        )
    show_scores(kept[0])
    check_same(kept[0], theirs)
    bare = min(timed(lambda: bare_product(rows)) for _ in range(20))
    few = f'k="max_bin_count" ({min(lean):.2f} s; the bare product alone takes {bare:.3f} s)'
    what = "5,900 x 128, 59 a class: speed against PML's three metrics"
    return [
        Target(f"{what}, {how}", f"{ratio:.1f} x", f">= {asked} x", ratio >= asked)
        for how, ratio, asked in (
            ("as it comes (k=None)", min(usual) / min(own), 8),
            (few, min(lean) / min(own), 1),
        )
    ]


def huge() -> list[Target]:
    rows, labels = points(250_000, 128, 5, noise=1.5)
    kept: list[Evaluation] = []
    memory = 0.0

    def ours() -> None:
        kept.append(score(rows, labels, METRICS))

    def watched() -> None:
        nonlocal memory
        memory = extra_memory(ours)

    seconds = timed(watched)
    show_scores(kept[0])
    print(f"  {seconds:.0f} s", flush=True)
    what = "250,000 x 128, 5 a class: completes, extra memory"
    return [Target(what, f"{memory:.0f} MB", "<= 600 MB", memory <= 600)]


def show_scores(found: Evaluation) -> None:
    print("  " + ", ".join(f"{name} {value:.3f}" for name, value in found.scores.items()))


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def write(targets: list[Target]) -> None:
    lines = [
        "# Evaluation: speed and memory",
        "",
        "Written by `make bench-eval`. What is compared runs in turns in one process; ratios",
        'are of the best run of each. "All rank metrics" are ' + ", ".join(METRICS) + ",",
        "from one pass; PML computes precision@1, R-precision and MAP@R with FAISS. It takes all",
        'neighbours by default (29 GB at 60,500 items), with k="max_bin_count" only those that',
        "these three need. The bare product is the full matrix of similarities in blocks of 1,024",
        "rows, with nothing done to",
        "it. The points are noisy class centres with Recall@1 between 0.4 and 0.8.",
        "",
        f"{processor()}, {torch.get_num_threads()} threads; torch {torch.__version__}, "
        f"numba {version('numba')}, faiss {version('faiss-cpu')}, "
        f"PML {version('pytorch-metric-learning')}.",
        "",
        "| what | measured | asked | |",
        "|---|---|---|---|",
        *(
            f"| {t.what} | {t.measured} | {t.asked} | {'holds' if t.holds else 'missed'} |"
            for t in targets
        ),
        "",
        "The first figure depends on the embeddings: the more wrong answers stand above the",
        "relevant items, the more there is to count. Much noisier points (Recall@1 0.05) may miss",
        "it.",
        "",
    ]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-pml", action="store_true", help="no peer at the large size")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["large", "small", "huge"], help="one part, no page")
    arguments = parser.parse_args()
    print(f"compiling: {timed(lambda: score(*points(500, 16, 5, 1.0), METRICS)):.1f} s")
    parts: dict[str, Callable[[], list[Target]]] = {
        "large": lambda: large(not arguments.without_pml, arguments.rounds),
        "small": lambda: small(arguments.rounds),
        "huge": huge,
    }
    targets: list[Target] = []
    for name, part in parts.items():
        if arguments.only in (None, name):
            print(name, flush=True)
            targets += part()
    for t in targets:
        print(f"{'holds ' if t.holds else 'MISSED'}  {t.what}: {t.measured} (asked {t.asked})")
    if arguments.only is None and not arguments.without_pml:
        write(targets)


if __name__ == "__main__":
    main()
