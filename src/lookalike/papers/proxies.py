"""The drawing of the thesis: one batch, and which pairs three losses with proxies compare."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lookalike import losses
from lookalike.papers.drawing import ProxyGraph, proxy_graph
from lookalike.papers.selection import Row

__all__ = ["Drawing", "proxy_drawings"]

CLASSES = 3
PROXIES = (90, 205, 325)
"""Angles of the proxies on the unit circle, in degrees."""
SAMPLES = ((68, 100, 128), (150, 190, 232), (285, 318, 12))
"""Angles of the samples of each class: near their proxy, on the way, and near another."""
THINNEST, THICKEST = 0.6, 7.0
SIDE = 320
RADIUS = 124


@dataclass(frozen=True)
class DrawnEdge:
    """A line of the drawing; its width grows with its gradient."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    association: str
    title: str


@dataclass(frozen=True)
class DrawnNode:
    """A proxy or a sample of the drawing."""

    x: float
    y: float
    kind: str
    label: int


@dataclass(frozen=True)
class Drawing:
    """The graph of one loss in a square of ``side``."""

    name: str
    side: int
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]


def proxy_drawings(rows: Sequence[Row]) -> list[Drawing]:
    """The same proxies and samples under each loss of the rows that has proxies as anchors.

    The batch is fixed and two-dimensional, so that it can be drawn; the losses have the arguments
    of the rows.

    Args:
        rows: The rows, which need not be trained.

    Returns:
        One drawing for each loss.
    """
    found = []
    for row in rows:
        given = row.config.loss
        loss = losses.create(given.name, **given.arguments, num_classes=CLASSES, embedding_size=2)
        if isinstance(loss, losses.ProxyLoss) and loss.proxies_are_anchors:
            with torch.no_grad():
                loss.proxies.copy_(_on_circle(PROXIES))
            angles = [angle for of_class in SAMPLES for angle in of_class]
            labels = [c for c, of_class in enumerate(SAMPLES) for _ in of_class]
            graph = proxy_graph(loss, _on_circle(angles), torch.tensor(labels))
            found.append(_drawn(row.label, graph))
    return found


def _on_circle(angles: Sequence[float]) -> torch.Tensor:
    turns = torch.tensor(angles, dtype=torch.float32) * math.pi / 180
    return torch.stack([turns.cos(), turns.sin()], 1)


def _drawn(name: str, graph: ProxyGraph) -> Drawing:
    """The square of a width is relative to the strongest edge of the same association."""
    nodes = tuple(
        DrawnNode(
            round(SIDE / 2 + RADIUS * node.x, 1),
            round(SIDE / 2 - RADIUS * node.y, 1),
            node.kind,
            node.label,
        )
        for node in graph.nodes
    )
    strongest = {
        kind: max((e.weight for e in graph.edges if e.association == kind), default=0.0)
        for kind in ("positive", "negative")
    }
    edges = []
    for edge in graph.edges:
        a, b = nodes[edge.first], nodes[edge.second]
        most = strongest[edge.association]
        share = math.sqrt(edge.weight / most) if most else 0.0
        title = f"{edge.association}, gradient {edge.weight:.3g}"
        width = round(THINNEST + (THICKEST - THINNEST) * share, 2)
        edges.append(DrawnEdge(a.x, a.y, b.x, b.y, width, edge.association, title))
    return Drawing(name, SIDE, nodes, tuple(sorted(edges, key=lambda one: one.width)))
