"""Distances of positive and negative pairs of a run's test images, clean and mixed (Metrix)."""

import torch

from lookalike.evaluation.histograms import Mixes, distance_histogram
from lookalike.mixing.pairs import random_pairs
from lookalike.ops.rows import normalize_rows
from lookalike.papers.charts import Chart, Series
from lookalike.report.charts import Method
from lookalike.runs.run import TestEmbeddings

__all__ = ["distance_charts"]

BINS = 60
MIXES = 20_000
ALPHA = 2.0
MOST_ITEMS = 4_000


def distance_charts(name: str, tested: TestEmbeddings, seed: int = 0) -> list[Chart]:
    """Two charts: distances of clean pairs, and of images to mixes that contain their class.

    Args:
        name: The row.
        tested: The embeddings of its test images.
        seed: Of the mixed pairs.

    Returns:
        Densities of positive and of negative distances.
    """
    step = -(-len(tested.labels) // MOST_ITEMS)
    embeddings = normalize_rows(tested.embeddings[::step].float())
    labels = torch.from_numpy(tested.labels[::step].copy())
    pairs = random_pairs(labels, min(MIXES, 10 * len(labels)), ALPHA, seed)
    mixes = Mixes(
        normalize_rows(pairs.of(embeddings)), labels[pairs.first], labels[pairs.second], pairs.share
    )
    found = []
    for kind, mixed in (("clean", None), ("mixed", mixes)):
        histogram = distance_histogram(embeddings, labels, mixed, bins=BINS)
        middles = (histogram.edges[:-1] + histogram.edges[1:]) / 2
        x: list[float | str] = [round(float(value), 4) for value in middles]
        series = [
            Series(
                sign,
                x,
                [round(float(value), 5) for value in density],
                [None] * len(x),
                [""] * len(x),
                Method(sign, at, 0),
            )
            for at, (sign, density) in enumerate(
                zip(("positive", "negative"), histogram.densities(), strict=True)
            )
        ]
        title = f"{name}: {kind} pairs"
        found.append(Chart(title, "areas", "distance", "density", series, "linear"))
    return found
