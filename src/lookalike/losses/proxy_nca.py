"""ProxyNCA: neighbourhood components analysis against learned proxies."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import Terms
from lookalike.losses.direction import candidate_directions
from lookalike.losses.kernels import Kernel
from lookalike.losses.nca import squared_l2
from lookalike.losses.softmax import SoftmaxLoss, soft_cross_entropy
from lookalike.ops.rows import in_full_precision
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyNCALoss", "ProxyNCAPlusPlusLoss"]


class _ProxySoftmaxLoss(SoftmaxLoss):
    """A softmax over squared distances to one proxy per class."""

    anchors_only = True
    default_distance = squared_l2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proxies = self.learned(self.num_classes, self.embedding_size, start=nn.init.normal_)

    def class_vectors(self) -> Tensor:
        """The proxies."""
        return self.proxies


@LOSSES.register("proxy-nca", paper="Movshovitz-Attias et al., ICCV 2017")
class ProxyNCALoss(_ProxySoftmaxLoss):
    """Each image near the proxy of its class, and far from the others.

    ``-log(e^(-softmax_scale D(x, w_y)) / sum_c e^(-softmax_scale D(x, w_c)))``, D the squared
    distance of unit vectors, mean over images. ``denominator="all"`` (default, as PML) sums over
    all classes, ``"others"`` over those other than y, as the paper has it. ``direction``:
    direction regularisation; ``direction * cos(w_y - x, w_c - x)`` is taken off the exponent of
    each other class (Mohan et al., CVPR 2020).

    Args:
        softmax_scale: Multiplies the distances.
        denominator: Whether the sum is over all classes or only over the others.
        direction: The weight of direction regularisation.
    """

    softmax_scale: float = 1
    denominator: Literal["all", "others"] = "all"
    direction: float = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction and self.sample != 1:
            raise BadInput("direction regularisation compares all proxies; sample must be 1")

    def factor(self) -> float:
        """``softmax_scale``."""
        return self.softmax_scale

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Images x classes: the distances D, before any scale.

        By ``torch.cdist`` as PML's, whose squares near 0 are mostly rounding: both packages then
        give the same numbers there too.

        Args:
            embeddings: [N, D].

        Returns:
            [N, classes].
        """
        if self.distance != squared_l2():
            return super().get_logits(embeddings)
        rows = self.rows(embeddings)
        return torch.cdist(normalize(rows), normalize(self.proxies.to(rows.dtype))).square()

    def kernel(self, relations: Relations) -> Kernel | None:
        """That of cross-entropy, where this is one."""
        plain = self.denominator == "all" and not self.direction
        return super().kernel(relations) if plain else None

    def to_proxies(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Images x proxies, with the similarities among proxies where direction needs them."""
        relations = super().to_proxies(embeddings, labels)
        if not self.direction:
            return relations
        rows = self.proxies.to(in_full_precision(embeddings).dtype)
        return relations._replace(candidate_similarity=self.distance.similarity(rows))

    def terms(self, relations: Relations) -> Terms:
        """Minus the log of the chance of the right class, one value per image."""
        logits = relations.similarity * self.softmax_scale
        if self.direction:
            directions = candidate_directions(relations, self.distance, relations.same.argmax(1))
            logits = logits - self.direction * directions * (1 - relations.same)
        if self.denominator == "all":
            return Terms(soft_cross_entropy(logits, relations))
        right = relations.positives
        others = log_sum_exp(logits, relations.negatives)
        return Terms(others * right.sum(1) - (logits * right).sum(1))


@LOSSES.register("proxy-nca++", paper="Teh et al., ECCV 2020")
class ProxyNCAPlusPlusLoss(_ProxySoftmaxLoss):
    """ProxyNCA as a softmax over all classes with a temperature.

    ``-log(e^(-D(x, w_y)/t) / sum_c e^(-D(x, w_c)/t))``. The paper also balances the classes of a
    batch, pools by maximum, and gives the proxies a faster learning rate: settings of the run.

    Args:
        temperature: Divides the distances.
    """

    temperature: float = 1 / 9

    def factor(self) -> float:
        """``1 / temperature``."""
        return 1 / self.temperature

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """``-D / temperature``."""
        return self.similarities(embeddings) * self.factor()
