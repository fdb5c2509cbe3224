"""The shape of the embedding space: how dense, how spread, how many directions.

pi-intra, pi-inter, pi-ratio and rho: Roth et al., "Revisiting Training Strategies and
Generalization Performance in Deep Metric Learning", ICML 2020. Alignment and uniformity: Wang and
Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
Hypersphere", ICML 2020. With the cosine all of them see unit vectors; with "l2" the rows as given.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["structure_scores"]

BLOCK = 2048
SMALLEST = 1e-7
"""Singular values below this share of the greatest count as this share: rho stays finite."""


def structure_scores(names: tuple[str, ...], embeddings: Tensor, codes: Tensor) -> dict[str, float]:
    """The scores called ``names``; ``codes`` are the classes as whole numbers from 0."""
    compute: dict[str, Callable[[], float]] = {
        "pi-intra": lambda: pi_intra(embeddings, codes),
        "pi-inter": lambda: pi_inter(embeddings, codes),
        "rho": lambda: spectral_decay(embeddings),
        "alignment": lambda: alignment(embeddings, codes),
        "uniformity": lambda: uniformity(embeddings),
    }
    parts = {"pi-intra", "pi-inter"} if "pi-ratio" in names else set()
    scores = {name: compute[name]() for name in sorted((set(names) | parts) - {"pi-ratio"})}
    if "pi-ratio" in names:
        inter = scores["pi-inter"]
        scores["pi-ratio"] = scores["pi-intra"] / inter if inter > 0 else math.nan
    return {name: scores[name] for name in names}


def pi_intra(embeddings: Tensor, codes: Tensor) -> float:
    """Mean over classes of the mean distance of two of its items; NaN if no class has two."""
    order = codes.argsort()
    sizes = torch.bincount(codes)
    means = [
        _mean_distance(embeddings[members].double())
        for members in torch.split(order, sizes.tolist())
        if len(members) > 1
    ]
    return math.fsum(means) / len(means) if means else math.nan


def pi_inter(embeddings: Tensor, codes: Tensor) -> float:
    """Mean distance of two class means; NaN with a single class."""
    sums, sizes = _class_sums(embeddings, codes)
    return _mean_distance(sums / sizes) if len(sums) > 1 else math.nan


def spectral_decay(embeddings: Tensor) -> float:
    """KL(uniform || normalised singular values): 0 where every direction is used alike."""
    exact = torch.zeros(embeddings.shape[1], embeddings.shape[1], dtype=torch.float64)
    exact = exact.to(embeddings.device)
    for part in torch.split(embeddings, BLOCK):
        exact += part.double().T @ part.double()
    values = torch.linalg.eigvalsh(exact).clamp_min(0).sqrt()
    values = values[-min(embeddings.shape) :]
    if values.max() == 0:
        return math.nan
    shares = values.clamp_min(SMALLEST * float(values.max()))
    shares = shares / shares.sum()
    return max(0.0, float(-math.log(len(shares)) - shares.log().mean()))


def alignment(embeddings: Tensor, codes: Tensor) -> float:
    """Mean squared distance of two items of one class, over all such pairs; NaN without any."""
    sums, sizes = _class_sums(embeddings, codes)
    squares = torch.zeros(len(sums), dtype=torch.float64, device=embeddings.device)
    for part, own in zip(torch.split(embeddings, BLOCK), torch.split(codes, BLOCK), strict=True):
        squares.index_add_(0, own, part.double().square().sum(1))
    # sum over pairs of |a - b|^2 = n sum |a|^2 - |sum a|^2, for each class of n items
    total = (sizes[:, 0] * squares - sums.square().sum(1)).sum()
    pairs = (sizes * (sizes - 1) / 2).sum()
    return max(0.0, float(total / pairs)) if pairs > 0 else math.nan


def uniformity(embeddings: Tensor) -> float:
    """Logarithm of the mean e^(-2 |a - b|^2) over all pairs; NaN with fewer than two items."""
    number = len(embeddings)
    if number < 2:
        return math.nan
    total = 0.0
    for start in range(0, number, BLOCK):
        rows = embeddings[start : start + BLOCK]
        own = torch.cdist(rows.double(), rows.double()).square_().mul_(-2).exp_()
        total += float(own.tril_(-1).sum())
        for other in torch.split(embeddings[start + BLOCK :], BLOCK):
            exponent = torch.cdist(rows, other).square_().mul_(-2)
            total += float(exponent.exp_().sum(dtype=torch.float64))
    return math.log(total / (number * (number - 1) / 2)) if total > 0 else -math.inf


def _class_sums(embeddings: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    sizes = torch.bincount(codes).double()[:, None]
    sums = torch.zeros(
        len(sizes), embeddings.shape[1], dtype=torch.float64, device=embeddings.device
    )
    for part, own in zip(torch.split(embeddings, BLOCK), torch.split(codes, BLOCK), strict=True):
        sums.index_add_(0, own, part.double())
    return sums, sizes


def _mean_distance(points: Tensor) -> float:
    """Mean Euclidean distance of two different points."""
    if len(points) <= BLOCK:
        return float(torch.nn.functional.pdist(points).mean())
    total = 0.0
    for start in range(0, len(points), BLOCK):
        rows = points[start : start + BLOCK]
        total += float(torch.nn.functional.pdist(rows).sum())
        for other in torch.split(points[start + BLOCK :], BLOCK):
            total += float(torch.cdist(rows, other).sum())
    return total / (len(points) * (len(points) - 1) / 2)
