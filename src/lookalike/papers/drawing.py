"""Proxies and samples in the plane, joined by edges as thick as their gradients.

The drawing of the thesis that compares proxy-anchor with the two proxy-to-proxy losses: a positive
association joins a sample with the proxy of its class; a negative one joins a sample with a proxy
of another class (proxy-anchor), or two proxies (proxy-to-proxy).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.labels import Labels, as_tensor
from lookalike.losses import ProxyAnchorLoss, ProxyLoss, ProxyToProxy1Loss, ProxyToProxy2Loss
from lookalike.losses.proxy_anchor import pull_to_proxies, push_apart
from lookalike.ops.rows import normalize_rows
from lookalike.relations import Relations

__all__ = ["Edge", "Node", "ProxyGraph", "proxy_graph"]

Association = Literal["positive", "negative"]
ProxyToProxyLoss: TypeAlias = ProxyToProxy1Loss | ProxyToProxy2Loss


@dataclass(frozen=True)
class Node:
    """A proxy or a sample on the unit circle.

    Attributes:
        kind: What it is.
        label: Its class.
        x: Its horizontal coordinate.
        y: Its vertical coordinate.
    """

    kind: Literal["proxy", "sample"]
    label: int
    x: float
    y: float


@dataclass(frozen=True)
class Edge:
    """Two nodes that attract or repel each other.

    Attributes:
        first: The number of a proxy's node.
        second: The number of the node of a sample or of another proxy.
        association: Whether they attract (positive) or repel each other.
        weight: |d loss / d similarity of the two|.
    """

    first: int
    second: int
    association: Association
    weight: float


@dataclass(frozen=True)
class ProxyGraph:
    """What the drawing shows.

    Attributes:
        nodes: The proxies in order of their classes, then the samples.
        edges: Every pair that the loss compares.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def proxy_graph(loss: ProxyLoss, embeddings: Tensor, labels: Labels) -> ProxyGraph:
    """The graph of a loss with proxies on a batch.

    The weight of an edge is the magnitude of the loss's gradient by the similarity of the pair. In
    the second proxy-to-proxy loss the similarity of two proxies is the one it reads,
    ``sum_x (w.x)(x.w')``. Two proxies push each other in the terms of both, whose gradients add up.

    Args:
        loss: ``proxy-anchor``, ``proxy-to-proxy-1`` or ``proxy-to-proxy-2``, of two dimensions.
        embeddings: [N, 2], the samples.
        labels: One class index per sample.

    Returns:
        Nodes and edges.

    Raises:
        BadInput: The embeddings have another number of dimensions than two, or the loss has no
            proxies as anchors.

    >>> loss = ProxyAnchorLoss(num_classes=2, embedding_size=2)
    >>> graph = proxy_graph(loss, torch.eye(2), torch.tensor([0, 1]))
    >>> len(graph.nodes), [edge.association for edge in graph.edges]
    (4, ['positive', 'negative', 'negative', 'positive'])
    """
    if not isinstance(loss, ProxyAnchorLoss | ProxyToProxyLoss):
        raise BadInput(f"{type(loss).__name__} has no proxies that are anchors to draw")
    if embeddings.ndim != 2 or embeddings.shape[1] != 2 or loss.embedding_size != 2:
        raise BadInput("a drawing in the plane needs a loss and embeddings of two dimensions")
    embeddings = embeddings.detach()
    relations = loss.relations(embeddings, labels)
    to_samples = relations.similarity.detach().requires_grad_()
    relations = relations._replace(similarity=to_samples)
    if isinstance(loss, ProxyToProxyLoss):
        between = loss.between(relations).detach().requires_grad_()
        pull, push = proxy_to_proxy_parts(loss, relations, between)
        by_sample = torch.autograd.grad(pull, to_samples)[0].abs()
        by_proxy = torch.autograd.grad(push, between)[0]
        by_proxy = (by_proxy + by_proxy.T).abs()
        pairs = torch.combinations(torch.arange(loss.num_classes))
        shown = relations.positives > 0
    else:
        by_sample = torch.autograd.grad(loss.total_loss(relations), to_samples)[0].abs()
        by_proxy, pairs = by_sample, torch.empty(0, 2, dtype=torch.int64)
        shown = torch.ones_like(relations.positives, dtype=torch.bool)
    edges = [
        Edge(
            proxy,
            loss.num_classes + sample,
            "positive" if relations.positives[proxy, sample] > 0 else "negative",
            float(by_sample[proxy, sample]),
        )
        for proxy, sample in shown.nonzero().tolist()
    ]
    edges += [Edge(a, b, "negative", float(by_proxy[a, b])) for a, b in pairs.tolist()]
    return ProxyGraph(_nodes(loss, embeddings, labels), tuple(edges))


def proxy_to_proxy_parts(
    loss: ProxyToProxyLoss, relations: Relations, between: Tensor
) -> tuple[Tensor, Tensor]:
    """The two parts of a proxy-to-proxy loss: the samples' pull, the proxies' push.

    Args:
        loss: Either variant.
        relations: Proxies x samples.
        between: The similarities of the proxies, as the loss reads them.

    Returns:
        Two scalars whose sum is the loss.
    """
    margin = loss.distance.to_similarity(loss.margin)
    pull = pull_to_proxies(relations, loss.alpha, margin)
    push = push_apart(between, loss.alpha, margin)
    return loss.reducer.reduce(pull, relations), loss.reducer.reduce(push, relations)


def _nodes(loss: ProxyLoss, embeddings: Tensor, labels: Labels) -> tuple[Node, ...]:
    """The proxies, then the samples, at unit length."""
    proxies = normalize_rows(loss.proxies.detach()).tolist()
    samples = normalize_rows(embeddings).tolist()
    classes = as_tensor(labels, len(embeddings)).tolist()
    return (
        *(Node("proxy", number, *place) for number, place in enumerate(proxies)),
        *(Node("sample", label, *place) for label, place in zip(classes, samples, strict=True)),
    )
