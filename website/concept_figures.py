"""The figures of the pages on concepts, each computed from the library or from stored data."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import lookalike as la
from lookalike import published
from lookalike.study.table import load_results
from website.figures import BLUE, GREY, RED, new_figure, save

ROOT = Path(__file__).parents[1]
STUDY = "laptop-reality-check-cub"
COLOURS = (BLUE, RED, "#3a9a6b", "#b58a1f", GREY, "#9b6dd6")


def metric_learning(path: Path) -> None:
    """Six classes on a circle, before and after training on four of them."""
    torch.manual_seed(3)
    centres = 2 * torch.randn(6, 8)
    labels = torch.arange(6).repeat_interleave(30)
    points = centres[labels] + 0.8 * torch.randn(len(labels), 8)
    network = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    loss = la.losses.create("multi-similarity")
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    seen = labels < 4
    figure, axes = new_figure(columns=2, height=3.6)
    for axis, title, steps in zip(
        axes, ("before training", "after training"), (0, 150), strict=True
    ):
        for _ in range(steps):
            optimizer.zero_grad()
            loss(network(points[seen]), labels[seen]).backward()
            optimizer.step()
        with torch.no_grad():
            unit = torch.nn.functional.normalize(network(points))
        spread = 1 + 0.12 * torch.randn(len(labels), 1)  # else points hide one another
        for number, colour in enumerate(COLOURS):
            x, y = (unit * spread)[labels == number].T
            faces = colour if number < 4 else "none"
            axis.scatter(x, y, s=22, facecolors=faces, edgecolors=colour, alpha=0.8)
        axis.set(
            title=title, aspect="equal", xticks=[], yticks=[], xlim=(-1.6, 1.6), ylim=(-1.6, 1.6)
        )
        axis.title.set_color(GREY)
    save(figure, path)


def _characters(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The pixels of the first characters of the built-in data set, 16 x 16, and their classes."""
    images = la.data.load("glyphs")
    chosen = np.flatnonzero(images.labels < count)
    pixels = np.stack([images.decode(int(i))[::2, ::2].ravel() for i in chosen])
    return (pixels / 255).astype(np.float32), images.labels[chosen]


def seen_and_unseen(path: Path) -> None:
    """Recall@1 over the epochs, on characters that train and on others."""
    pixels, labels = _characters(128)
    order = np.arange(len(labels))
    train, tested = (labels < 64) & (order % 2 == 0), order % 2 == 1
    parts = {
        "classes that were trained": (labels < 64) & tested,
        "other classes": (labels >= 64) & tested,
    }
    epochs = [0, 5, 10, 20, 40, 80]
    scores: dict[str, list[float]] = {name: [] for name in parts}
    for count in epochs:
        learner = la.MetricLearner(
            "multi-similarity", 16, start="random", epochs=count, lr=1e-2, random_state=0
        ).fit(pixels[train], labels[train])
        for name, part in parts.items():
            scores[name].append(100 * learner.score(pixels[part], labels[part]))
    figure, (axis,) = new_figure()
    for (name, values), style, colour in zip(
        scores.items(), ("o-", "o--"), (BLUE, RED), strict=True
    ):
        axis.plot(epochs, values, style, color=colour, label=name)
    axis.set(xlabel="epochs", ylabel="Recall@1, per cent")
    axis.legend(frameon=False, labelcolor=GREY)
    save(figure, path)


def protocols(path: Path) -> None:
    """How many classes train, validate and test under each protocol."""
    images = la.data.load("glyphs")
    rows: dict[str, list[int]] = {}
    for name in ("fixed-validation", "cross-validation", "paper", "all"):
        splits = la.data.make_splits(images, name, folds=4, ratio=0.75)
        train = splits[0].train.class_count
        validation = 0 if splits[0].validation is None else splits[0].validation.class_count
        title = f"{name}, fold 1 of 4" if len(splits) > 1 else name
        rows[title] = [train, validation, len(images.class_names) - train - validation]
    counts = np.array(list(rows.values()))
    before = counts.cumsum(1) - counts
    figure, (axis,) = new_figure(width=5.2, height=2.4)
    for number, (kind, colour) in enumerate(
        {"train": BLUE, "validate": "#b58a1f", "test": RED}.items()
    ):
        bars = axis.barh(
            list(rows), counts[:, number], left=before[:, number], color=colour, label=kind
        )
        shown = [f"{count:,}" if count else "" for count in counts[:, number]]
        axis.bar_label(bars, shown, label_type="center", color="white")
    axis.legend(frameon=False, labelcolor=GREY, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    axis.set_xlabel("classes")
    axis.invert_yaxis()
    save(figure, path)


def uncertainty(path: Path) -> None:
    """The methods of a stored study with their intervals over trainings."""
    study = load_results(ROOT / "results" / STUDY)
    found = {
        row.label: row.interval("map@r", "separate") for row in study.rows if len(row.repeats) > 1
    }
    ordered = sorted(found.items(), key=lambda item: item[1].mean)
    figure, (axis,) = new_figure(width=5.2, height=0.6 + 0.26 * max(4, len(ordered)))
    for row, (_, one) in enumerate(ordered):
        half = one.half or 0
        axis.errorbar(100 * one.mean, row, xerr=100 * half, fmt="o", color=BLUE, capsize=3)
    axis.set(yticks=range(len(ordered)), yticklabels=[name for name, _ in ordered])
    axis.set_xlabel(f"MAP@R, per cent, results/{STUDY}")
    save(figure, path)


def reported(path: Path) -> None:
    """What papers report for two old losses on CUB, by year."""
    figure, (axis,) = new_figure(width=5.2, height=3)
    for method, colour, marker in (("contrastive", BLUE, "o"), ("triplet", RED, "^")):
        found = [
            (row.year, row.value)
            for row in published.load("reality-check", "cub", "recall@1")
            if row.method == method and row.reported_by and row.value and row.year
        ]
        shift = -0.06 if method == "contrastive" else 0.06  # so that none hides another
        years, values = [year + shift for year, _ in found], [value for _, value in found]
        axis.scatter(years, values, color=colour, marker=marker, label=method)
    axis.set(xlabel="year of the paper", ylabel="reported Recall@1", ylim=(0, 70))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(frameon=False, labelcolor=GREY, loc="lower right")
    save(figure, path)


FIGURES: dict[str, Callable[[Path], None]] = {
    "metric-learning": metric_learning,
    "seen-and-unseen": seen_and_unseen,
    "protocols": protocols,
    "uncertainty": uncertainty,
    "reported": reported,
}


def draw_all(folder: Path) -> None:
    """Write every figure of the pages on concepts."""
    for name, draw in FIGURES.items():
        draw(folder / f"{name}.svg")
