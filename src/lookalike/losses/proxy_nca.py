"""ProxyNCA: neighbourhood components analysis against learned proxies."""

from functools import partial
from typing import Literal, Unpack

from torch import Tensor, nn

from lookalike.errors import BadInput, did_you_mean
from lookalike.labels import Labels
from lookalike.losses.base import ProxyLoss, ProxyOptions, Terms
from lookalike.losses.direction import direction_cosine
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.softmax import softmax_kernel
from lookalike.losses.nca import squared_l2
from lookalike.losses.softmax import soft_cross_entropy
from lookalike.ops.rows import in_full_precision
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["ProxyNCALoss", "ProxyNCAPlusPlusLoss"]


@LOSSES.register("proxy-nca", paper="Movshovitz-Attias et al., ICCV 2017")
class ProxyNCALoss(ProxyLoss):
    """Each image near the proxy of its class, and far from the others.

    ``-log(e^(-softmax_scale D(x, w_y)) / sum_c e^(-softmax_scale D(x, w_c)))``, D the squared
    distance of unit vectors, mean over images. ``denominator="all"`` (default, as PML) sums over
    all classes, ``"others"`` over those other than y, as the paper has it. ``direction``:
    direction regularisation; ``direction * cos(w_y - x, w_c - x)`` is taken off the exponent of
    each other class (Mohan et al., CVPR 2020).

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        softmax_scale: Multiplies the distances.
        denominator: Whether the sum is over all classes or only over the others.
        direction: The weight of direction regularisation.
        options: Those of every loss with proxies, see ``ProxyOptions``.
    """

    additive = True
    anchors_only = True
    default_distance = squared_l2

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        softmax_scale: float = 1,
        denominator: Literal["all", "others"] = "all",
        direction: float = 0,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, **options)
        if denominator not in ("all", "others"):
            raise BadInput(
                f"there is no denominator '{denominator}'; "
                + did_you_mean(denominator, ("all", "others"))
            )
        self.softmax_scale = softmax_scale
        self.denominator = denominator
        self.direction = direction
        self.proxies = self.learned(num_classes, embedding_size, start=nn.init.normal_)

    def class_vectors(self) -> Tensor:
        """The proxies."""
        return self.proxies

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
            logits = logits - self.direction * self._direction(relations)
        if self.denominator == "all":
            return Terms(soft_cross_entropy(logits, relations))
        right = relations.positives
        others = log_sum_exp(logits, relations.negatives)
        return Terms(others * right.sum(1) - (logits * right).sum(1))

    def kernel(self, relations: Relations) -> Kernel | None:
        """The plain form is a softmax; value and gradient in one pass."""
        plain = self.denominator == "all" and not self.direction
        whole = relations.class_indices is not None and relations.all_valid
        return partial(softmax_kernel, scale=self.softmax_scale) if plain and whole else None

    def _direction(self, relations: Relations) -> Tensor:
        similarity = relations.similarity
        right = relations.same.argmax(1)
        squared = self.distance.squared_euclidean
        cosine = direction_cosine(
            squared(similarity.gather(1, right.unsqueeze(1))),
            squared(similarity),
            squared(relations.between_candidates().index_select(0, right)),
        )
        return cosine * (1 - relations.same)


@LOSSES.register("proxy-nca++", paper="Teh et al., ECCV 2020")
class ProxyNCAPlusPlusLoss(ProxyNCALoss):
    """ProxyNCA as a softmax over all classes with a temperature.

    ``-log(e^(-D(x, w_y)/t) / sum_c e^(-D(x, w_c)/t))``. The paper also balances the classes of a
    batch, pools by maximum, and gives the proxies a faster learning rate: settings of the run.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        temperature: Divides the distances.
        options: Those of every loss with proxies, see ``ProxyOptions``.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        temperature: float = 1 / 9,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, **options)
        self.temperature = temperature

    @property
    def softmax_scale(self) -> float:
        """``1 / temperature``."""
        return 1 / self.temperature

    @softmax_scale.setter
    def softmax_scale(self, scale: float) -> None:
        self.temperature = 1 / scale
