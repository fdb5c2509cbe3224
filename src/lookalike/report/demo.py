"""The demonstration: four losses under one protocol on glyphs, and a page about them."""

from pathlib import Path
from typing import Any

from lookalike import training
from lookalike.compare.contenders import ResultSet, gather
from lookalike.config import parse, recipes
from lookalike.config.loading import merge
from lookalike.progress import Watcher
from lookalike.report.page import write_page

# Each loss with the batches its paper uses: proxy-anchor random ones. Its loss_lr and sampler were
# chosen on validation classes, out of seven settings.
METHODS: dict[str, dict[str, Any]] = {
    "untrained network": {"train": {"epochs": 0}},
    "contrastive": {"loss": {"name": "contrastive"}},
    "triplet, semi-hard": {"loss": {"name": "triplet"}, "miner": {"name": "semi-hard"}},
    "multi-similarity": {"loss": {"name": "multi-similarity"}},
    "proxy-anchor": {
        "loss": {"name": "proxy-anchor"},
        "sampler": {"name": "random", "batch_size": 128},
        "optim": {"loss_lr": 1e-3},
    },
}


def run_demo(folder: Path, watcher: Watcher) -> tuple[ResultSet, Path]:
    """Train and test every method; returns the methods and the page."""
    base = recipes.read("recipe:glyphs") | {"runs_dir": str(folder / "runs")}
    base["train"] = base["train"] | {"epochs": 4}
    base["protocol"] = base.get("protocol", {}) | {"test_untrained": False}  # has its own row
    names = {}
    for name, changes in METHODS.items():
        values = merge(base, changes)
        watcher.note(f"{name}:")
        names[training.train(parse(values), watcher).folder] = name
    gathered = gather(list(names), names)
    page, *_ = write_page(
        folder / "index.html",
        gathered,
        title="Lookalike: the demonstration",
        lead="Four losses learn, with equal budgets, which renderings show the same character; "
        "they are tested on characters that none of them has seen.",
        commands=["lookalike demo"],
    )
    return gathered, page
