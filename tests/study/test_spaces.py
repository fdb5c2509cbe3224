"""Shipped search spaces: published values lie inside, and a row is the loss that it names."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from lookalike import losses
from lookalike.config.loading import nested
from lookalike.published import Hyperparameter, hyperparameters
from lookalike.study.config import MethodConfig, shipped_methods
from lookalike.study.tuning import Choices
from lookalike.training.objective import fill_loss_sizes

THESIS = {
    "triplet": "triplet-semi-hard",
    "generalized-lifted-structure": "generalized-lifted-structure-cosine",
    "margin": "margin-distance-weighted",
    "multi-similarity": "multi-similarity-miner",
}
"""Spaces that are not called as the thesis's methods are."""

DIRECTION = {
    "dr-triplet": "triplet",
    "dr-proxy-nca": "proxy-nca",
    "dr-multi-similarity": "multi-similarity-miner",
}
"""Direction regularisation has no spaces; these are of the losses that it is added to."""


def spaces_of(row: Hyperparameter) -> list[str]:
    if not row.method:
        return []
    if row.paper == "reality-check":
        return [row.method]
    if row.paper == "dr":
        return [DIRECTION[row.method]]
    plain = row.method.removesuffix("-fixed")
    ours = THESIS.get(plain, plain)
    return [ours] if plain == row.method else [ours, f"grid/{plain}"]


def search_of(name: str) -> dict:
    return MethodConfig.model_validate(shipped_methods()[name] | {"name": name}).search


def published() -> list:
    """Every published number of a hyper-parameter that one of our spaces searches."""
    found = []
    for row in hyperparameters():
        for space in spaces_of(row):
            for setting in row.settings:
                key, _, given = setting.partition("=")
                if key in search_of(space):
                    found.append((space, key, float(given)))
    return found


@pytest.mark.parametrize(("space", "key", "value"), sorted(set(published())))
def test_published_values_lie_inside_the_ranges(space, key, value):
    searched = search_of(space)[key]
    ends = searched.choices if isinstance(searched, Choices) else (searched.low, searched.high)
    assert min(ends) < value < max(ends)


def test_every_tuned_value_is_searched_for():
    """Of Reality Check every printed parameter; the only one without a setting is a weight of 0."""
    for row in hyperparameters():
        if row.paper != "reality-check" or not row.value:
            continue
        search = search_of(row.method)
        if row.settings:
            values = nested(row.settings)
            assert any(f"{part}.{key}" in search for part in values for key in values[part]), row
        else:
            assert (row.parameter, row.value) == ("regularizer_weight", "0")
            assert search["loss.embedding_reg_weight"].low == 0  # a penalty has no weight below 0


def test_proxy_to_proxy_2_is_the_published_loss():
    """``1/|W| sum_w log(1 + sum_(w' != w) e^(a (sum_x (w.x)(x.w') + m)))``, a sum over x."""
    space = shipped_methods()["proxy-to-proxy-2"]
    given = {key: value for key, value in space["loss"].items() if key != "name"}
    torch.manual_seed(0)
    number, dim, alpha, margin = 5, 8, 4.0, 0.1
    given |= {"alpha": alpha, "margin": margin}
    loss = losses.create(
        "proxy-to-proxy-2", **fill_loss_sizes("proxy-to-proxy-2", given, number, dim)
    )
    loss.double()
    x = normalize(torch.randn(12, dim, dtype=torch.float64))
    labels = torch.arange(12) % 4  # the last class is not in the batch
    w = normalize(loss.proxies.detach())
    pull = push = 0.0
    for c in range(number):
        own = [math.exp(-alpha * (float(w[c] @ v) - margin)) for v in x[labels == c]]
        pull += math.log(1 + sum(own)) / 4
        others = [
            math.exp(alpha * (sum(float(w[c] @ v) * float(v @ w[k]) for v in x) + margin))
            for k in range(number)
            if k != c
        ]
        push += math.log(1 + sum(others)) / number
    assert loss(x, labels).item() == pytest.approx(pull + push, rel=1e-9)
