"""HIST: a hypergraph of images and class distributions."""

from functools import partial

from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear, relu6

from lookalike.losses.proxies import ProxyLoss, soft_cross_entropy
from lookalike.ops.rows import normalize_rows
from lookalike.reducers import Terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["HISTLoss"]


@LOSSES.register(
    "hist",
    paper="Lim et al., CVPR 2022",
    url="https://openaccess.thecvf.com/content/CVPR2022/html/"
    "Lim_Hypergraph-Induced_Semantic_Tuplet_Loss_for_Deep_Metric_Learning_CVPR_2022_paper.html",
)
class HISTLoss(ProxyLoss):
    """Images find their class by its distribution, and by a graph network over the whole batch.

    ``-log softmax_c(-tau D)_y + lambda_s * -log softmax_c(G f(G x Theta_1) Theta_2)_y``, mean over
    images. ``D_ic = sum_k (x_k - mu_ck)^2 / var_ck`` of unit vectors, with a learned mean and
    diagonal variance per class. A class of the batch is an edge of a hypergraph, that holds image i
    by ``H_ic`` = 1 if it is of the class, else ``e^(-alpha D_ic)``;
    ``G = V^(-1/2) H E^(-1) H' V^(-1/2)``, V and E the sums of H over edges and over images; f is
    batch normalisation and a leaky ReLU. Relations are images x classes, ``-D``.

    Args:
        tau: The scale of the distances.
        alpha: How fast an image of another class leaves an edge.
        lambda_s: The weight of the part by the graph.
        hidden: The width of the graph network.
    """

    additive = False
    default_init = partial(nn.init.kaiming_normal_, mode="fan_out")
    needs = "unit vectors (cosine or l2)"

    tau: float = 32
    alpha: float = 0.9
    lambda_s: float = 1
    hidden: int = 512

    def __post_init__(self) -> None:
        self.need_all_classes()
        size = self.num_classes, self.embedding_size
        self.means = self.make_parameter(*size)
        self.log_vars = self.make_parameter(*size)
        self.theta1 = nn.Linear(self.embedding_size, self.hidden)
        self.bn1 = nn.BatchNorm1d(self.hidden, track_running_stats=False)
        self.theta2 = nn.Linear(self.hidden, self.num_classes)

    def class_vectors(self) -> Tensor:
        """The means of the classes."""
        return self.means

    def similarities(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """``-D``, images x classes."""
        return -distribution_distances(embeddings, self.means, self.log_vars)

    def logit_scale(self) -> float:
        """``tau``: the first softmax is of ``-tau D``."""
        return self.tau

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per image from the distributions and one from the graph."""
        r, graph = relations, hypergraph(relations, self.alpha)
        assert r.embeddings is not None
        hidden = _normalised(graph @ _through(self.theta1, r.embeddings), self.bn1)
        logits = graph @ _through(self.theta2, leaky_relu(hidden, 0.1))
        of_graph = self.lambda_s * soft_cross_entropy(r, logits)
        of_distributions = soft_cross_entropy(r, self.tau * r.similarity)
        return Terms(of_distributions), Terms(of_graph, name="graph_loss")


def distribution_distances(embeddings: Tensor, means: Tensor, log_vars: Tensor) -> Tensor:
    """``D_ic = sum_k (x_k - mu_ck)^2 / var_ck`` of unit vectors; nothing of size N x C x D."""
    x, mean = normalize_rows(embeddings), normalize_rows(means.to(embeddings.dtype))
    precision = (-relu6(log_vars.to(x.dtype))).exp()
    scaled = mean * precision
    squared = x.square() @ precision.T - 2 * x @ scaled.T + (mean * scaled).sum(1)
    return squared.relu()


def hypergraph(r: Relations, alpha: float) -> Tensor:
    """``G = V^(-1/2) H E^(-1) H' V^(-1/2)``, images x images; -D are the similarities."""
    present = (r.positives > 0).any(0)
    edges = (r.positives + r.negatives * (alpha * r.similarity).exp()) * present
    degree, size = (edges.sum(dim).clamp_min(1e-30) for dim in (1, 0))
    scaled = edges / degree.sqrt().unsqueeze(1)
    return (scaled / size) @ scaled.T


def _normalised(rows: Tensor, layer: nn.BatchNorm1d) -> Tensor:
    """Batch normalisation by this batch, which may be a single image."""
    centred = rows - rows.mean(0)
    deviation = (centred.square().mean(0) + layer.eps).sqrt()
    return centred / deviation * layer.weight.to(rows) + layer.bias.to(rows)


def _through(layer: nn.Linear, rows: Tensor) -> Tensor:
    """The layer in the type of the rows."""
    return linear(rows, layer.weight.to(rows.dtype), layer.bias.to(rows.dtype))
