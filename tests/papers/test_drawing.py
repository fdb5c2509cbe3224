"""The weights of the edges are the gradients of the formulas, worked out by hand."""

import math

import pytest
import torch

from lookalike import losses
from lookalike.papers.proxies import proxy_edges

ALPHA, MARGIN = 4.0, 0.1
NAMES = ("proxy-anchor", "proxy-to-proxy-1", "proxy-to-proxy-2")
LABELS = torch.tensor([0, 0, 1, 2, 2, 2])  # class 3 has no sample


def made(name, **options):
    torch.manual_seed(0)
    loss = losses.create(
        name, num_classes=4, embedding_size=2, alpha=ALPHA, margin=MARGIN, **options
    ).double()
    return loss, torch.randn(6, 2, dtype=torch.float64)


def cosines(loss, embeddings):
    proxies = torch.nn.functional.normalize(loss.proxies.detach())
    samples = torch.nn.functional.normalize(embeddings)
    return (proxies @ samples.T).tolist(), (proxies @ proxies.T).tolist()


def pull(s, w, x):
    """d/ds of 1/|W+| log(1 + sum e^(-a(s - m))): the farther, the greater."""
    terms = {k: math.exp(-ALPHA * (s[w][k] - MARGIN)) for k in range(6) if LABELS[k] == w}
    return ALPHA * terms[x] / (1 + sum(terms.values())) / 3


def push(values, other):
    """d/ds of 1/|W| log(1 + sum e^(a(s + m))): the closer, the greater."""
    terms = {k: math.exp(ALPHA * (value + MARGIN)) for k, value in values.items()}
    return ALPHA * terms[other] / (1 + sum(terms.values())) / 4


def by_pair(loss, embeddings):
    """The sign and the weight of each pair."""
    pulled, pushed = proxy_edges(loss, embeddings, LABELS)
    found = {(a, b): ("positive", weight) for a, b, weight in pulled}
    return found | {(a, b): ("negative", weight) for a, b, weight in pushed}


def test_proxy_anchor():
    loss, embeddings = made("proxy-anchor")
    s, _ = cosines(loss, embeddings)
    edges = by_pair(loss, embeddings)
    assert len(edges) == 24
    for w in range(4):
        negatives = {x: s[w][x] for x in range(6) if LABELS[x] != w}
        for x in range(6):
            sign, weight = edges[w, 4 + x]
            positive = bool(LABELS[x] == w)
            assert sign == ("positive" if positive else "negative")
            expected = pull(s, w, x) if positive else push(negatives, x)
            assert weight == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("proxy-to-proxy-1", {}),
        ("proxy-to-proxy-2", {}),
        ("proxy-to-proxy-2", {"average": True}),
    ],
)
def test_proxy_to_proxy(name, options):
    loss, embeddings = made(name, **options)
    s, between = cosines(loss, embeddings)
    if name == "proxy-to-proxy-2":
        share = 1 / 6 if options else 1
        between = [
            [share * sum(s[w][x] * s[v][x] for x in range(6)) for v in range(4)] for w in range(4)
        ]
    edges = by_pair(loss, embeddings)
    assert len(edges) == 6 + 6  # each sample with its proxy, each two proxies once
    for x in range(6):
        sign, weight = edges[int(LABELS[x]), 4 + x]
        assert sign == "positive"
        assert weight == pytest.approx(pull(s, int(LABELS[x]), x))
    others = [{v: between[w][v] for v in range(4) if v != w} for w in range(4)]
    for w in range(4):
        for v in range(w + 1, 4):
            sign, weight = edges[w, v]
            assert sign == "negative"
            assert weight == pytest.approx(push(others[w], v) + push(others[v], w))


@pytest.mark.parametrize("name", NAMES)
def test_drawing_changes_no_loss(name):
    loss, embeddings = made(name)
    before = loss.proxies.detach().clone()
    proxy_edges(loss, embeddings, LABELS)
    assert torch.equal(loss.proxies, before)
    assert loss.proxies.grad is None
