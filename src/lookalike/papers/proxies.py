"""Proxies and samples in the plane, joined by edges as thick as their gradients.

The drawing of the thesis: which pairs three losses with proxies compare. A green edge joins a
proxy with a sample of its class, a red one with what it is pushed from: a sample of another class
(proxy-anchor), or another proxy (proxy-to-proxy).
"""

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from lookalike import losses
from lookalike.losses.proxy_anchor import pull_to_proxies, push_apart
from lookalike.papers.selection import Row
from lookalike.report.charts import Chart, colour, draw

PROXIES = (90, 205, 325)
"""Angles of the proxies on the unit circle, in degrees."""
SAMPLES = ((68, 100, 128), (150, 190, 232), (285, 318, 12))
"""Angles of the samples of each class: near their proxy, on the way, and near another."""
THICKEST = 7.0

Edge = tuple[int, int, float]
"""A proxy, a sample (after the proxies) or another proxy, and |d loss / d similarity|."""


def proxy_edges(
    loss: losses.ProxyLoss, points: Tensor, labels: Tensor
) -> tuple[list[Edge], list[Edge]]:
    """The pairs that attract and those that repel each other under a loss with proxies as anchors.

    In the proxy-to-proxy losses, two proxies push each other in the terms of both, whose
    gradients add up.
    """
    relations = loss.relations(points, labels)
    to_samples = relations.similarity.detach().requires_grad_()
    relations = relations._replace(similarity=to_samples)
    count, same = loss.num_classes, relations.positives > 0
    if isinstance(loss, losses.ProxyToProxy1Loss | losses.ProxyToProxy2Loss):
        between = loss.between(relations).detach().requires_grad_()
        margin = loss.distance.to_similarity(loss.margin)
        pull = loss.reducer.reduce(pull_to_proxies(relations, loss.alpha, margin), relations)
        push = loss.reducer.reduce(push_apart(between, loss.alpha, margin), relations)
        by_proxy = torch.autograd.grad(push, between)[0]
        by_proxy = (by_proxy + by_proxy.T).abs()
        couples = torch.combinations(torch.arange(count)).tolist()
        apart = [(a, b, float(by_proxy[a, b])) for a, b in couples]
    else:
        pull = loss.total_loss(relations)
        apart = []
    weights = torch.autograd.grad(pull, to_samples)[0].abs()
    edges = [(p, count + s, float(weights[p, s])) for p, s in same.nonzero().tolist()]
    if not apart:
        apart = [(p, count + s, float(weights[p, s])) for p, s in (~same).nonzero().tolist()]
    return edges, apart


def proxy_charts(rows: Sequence[Row]) -> list[Chart]:
    """One fixed batch in two dimensions under each loss that has proxies as anchors."""
    angles = [angle for of_class in SAMPLES for angle in of_class]
    labels = torch.tensor([c for c, of_class in enumerate(SAMPLES) for _ in of_class])
    places = torch.cat([_on_circle(PROXIES), _on_circle(angles)])
    inks = [colour(f"c{c}") for c in (*range(len(PROXIES)), *labels.tolist())]
    kinds = ["square"] * len(PROXIES) + ["circle"] * len(labels)
    found = []
    for row in rows:
        given = row.config.loss
        arguments = given.arguments | {"num_classes": len(PROXIES), "embedding_size": 2}
        loss = losses.create(given.name, **arguments)
        if not isinstance(loss, losses.ProxyLoss) or not loss.proxies_are_anchors:
            continue
        with torch.no_grad():
            loss.proxies.copy_(_on_circle(PROXIES))
        traces = []
        signs = (("right", "solid"), ("wrong", "dash"))
        for (ink, dash), edges in zip(
            signs, proxy_edges(loss, places[len(PROXIES) :], labels), strict=True
        ):
            most = max(weight for _, _, weight in edges) or 1.0
            for a, b, weight in sorted(edges, key=lambda edge: edge[2]):
                x, y = places[[a, b]].T.tolist()
                width = 0.6 + (THICKEST - 0.6) * math.sqrt(weight / most)
                line = {"color": colour(ink), "width": width, "dash": dash}
                told = f"gradient {weight:.3g}"
                traces.append(go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.75,
                                         hovertext=told, hoverinfo="text"))  # fmt: skip
        x, y = places.T.tolist()
        marker = {"color": inks, "symbol": kinds, "size": 14}
        traces.append(go.Scatter(x=x, y=y, mode="markers", marker=marker, hoverinfo="skip"))
        bare = {"visible": False, "range": [-1.2, 1.2]}
        square = bare | {"scaleanchor": "x"}
        found.append(draw(row.label, traces, xaxis=bare, yaxis=square, height=360))
    return found


def _on_circle(angles: Sequence[float]) -> Tensor:
    turns = torch.tensor(angles, dtype=torch.float32) * math.pi / 180
    return torch.stack([turns.cos(), turns.sin()], 1)
