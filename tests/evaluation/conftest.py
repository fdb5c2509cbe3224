"""The slow, plain way to rank and score: one query at a time, sorting the whole gallery."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch


def exact_similarity(queries, gallery, distance="cosine"):
    """Double precision on what the library ranks: float32 rows, of unit length for the cosine."""
    queries, gallery = (np.asarray(x, np.float64) for x in (queries, gallery))
    if distance == "cosine":
        queries, gallery = (
            (x / np.maximum(np.sqrt((x**2).sum(1, keepdims=True)), 1e-300))
            for x in (queries, gallery)
        )
    queries, gallery = (x.astype(np.float32).astype(np.float64) for x in (queries, gallery))
    rows = []
    for query in queries:
        if distance == "cosine":
            rows.append([math.fsum(query * item) for item in gallery])
        else:
            rows.append([-math.fsum((query - item) ** 2) for item in gallery])
    return np.array(rows)


def related(a, b):
    return bool(np.any(np.logical_and(a, b))) if np.ndim(a) else a == b


@dataclass
class Plain:
    """Ranks of the relevant items of each query, by sorting."""

    ranks: list

    def score(self, name):
        values = [self.one(name, ranks) for ranks in self.ranks if len(ranks)]
        return sum(values) / len(values)

    @staticmethod
    def one(name, ranks):
        stem, _, k = name.partition("@")
        R = len(ranks)
        if name == "map@r":
            return sum(j / r for j, r in enumerate(ranks, 1) if r <= R) / R
        if name == "map":
            return sum(j / r for j, r in enumerate(ranks, 1)) / R
        if name == "r-precision":
            return sum(r <= R for r in ranks) / R
        if name == "mrr":
            return 1 / ranks[0]
        k = int(k)
        if stem == "recall":
            return float(any(r <= k for r in ranks))
        if stem == "precision":
            return sum(r <= k for r in ranks) / k
        if stem == "map":
            return sum(j / r for j, r in enumerate(ranks, 1) if r <= k) / min(R, k)
        if stem == "ndcg":
            ideal = sum(1 / math.log2(1 + i) for i in range(1, min(R, k) + 1))
            return sum(1 / math.log2(1 + r) for r in ranks if r <= k) / ideal
        raise AssertionError(name)


def plain_ranks(
    embeddings,
    labels,
    gallery=None,
    gallery_labels=None,
    distance="cosine",
    ties="worst",
    ignore=None,
    gallery_ignore=None,
    agree=related,
):
    itself = gallery is None
    gallery = embeddings if itself else gallery
    gallery_labels = labels if itself else gallery_labels
    gallery_ignore = ignore if itself else gallery_ignore
    similarity = exact_similarity(embeddings, gallery, distance)
    everything = []
    for q in range(len(labels)):
        kept = []
        for g in range(len(gallery_labels)):
            same = agree(labels[q], gallery_labels[g])
            ignored = itself and q == g
            if np.ndim(ignore) == 2:
                ignored |= ignore[q][g]
            elif ignore is not None:
                ignored |= same and ignore[q] == gallery_ignore[g]
            if not ignored:
                kept.append((similarity[q, g], same))
        ranks = []
        for order in (lambda x: (-x[0], x[1]), lambda x: (-x[0], not x[1])):  # worst, best
            ordered = sorted(kept, key=order)
            ranks.append([place for place, (_, same) in enumerate(ordered, 1) if same])
        worst, best = ranks
        middle = [(a + b) / 2 for a, b in zip(worst, best, strict=True)]
        everything.append({"worst": worst, "best": best, "average": middle}[ties])
    return Plain(everything)


@pytest.fixture(name="plain_ranks")
def _plain_ranks():
    return plain_ranks


@pytest.fixture
def rank_metrics():
    return (
        "recall@1",
        "recall@10",
        "recall@1000",
        "precision@1",
        "precision@7",
        "r-precision",
        "map@r",
        "map",
        "map@5",
        "mrr",
        "ndcg@3",
        "ndcg@50",
    )


@pytest.fixture
def clusters():
    """Make ``number`` noisy points of ``classes`` classes."""

    def make(number, dim, classes, noise=1.0, seed=0):
        random = np.random.default_rng(seed)
        labels = random.integers(0, classes, number)
        centres = random.normal(size=(classes, dim))
        points = centres[labels] + noise * random.normal(size=(number, dim))
        return points.astype(np.float32), labels

    return make


@pytest.fixture(autouse=True)
def _same_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
