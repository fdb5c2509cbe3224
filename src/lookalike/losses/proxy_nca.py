"""ProxyNCA: neighbourhood components analysis against learned proxies."""

from typing import Literal, Unpack

from torch import Tensor, nn

from lookalike.errors import BadInput, nearest
from lookalike.geometry import Relations, in_full_precision, log_sum_exp
from lookalike.labels import Labels
from lookalike.losses.base import ProxyLoss, ProxyOptions
from lookalike.losses.direction import among_candidates, direction_cosine
from lookalike.losses.nca import squared_l2
from lookalike.losses.softmax import class_cross_entropy, soft_cross_entropy
from lookalike.registry import LOSSES

__all__ = ["ProxyNCALoss", "ProxyNCAPlusPlusLoss"]


@LOSSES.register("proxy-nca", paper="Movshovitz-Attias et al., ICCV 2017")
class ProxyNCALoss(ProxyLoss):
    """Each image near the proxy of its class, and far from the others.

    ``-log(e^(-softmax_scale D(x, w_y)) / sum_c e^(-softmax_scale D(x, w_c)))``, D the squared
    distance of unit vectors, mean over images. ``denominator="all"`` (default, as PML) sums over
    all classes, ``"others"`` over those other than y, as the paper has it. ``direction``:
    direction regularisation; ``direction * cos(w_y - x, w_c - x)`` is taken off the exponent of
    each other class (Mohan et al., CVPR 2020).
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
                + nearest(denominator, ("all", "others"))
            )
        self.softmax_scale = softmax_scale
        self.denominator = denominator
        self.direction = direction
        self.proxies = self.learned(num_classes, embedding_size, start=nn.init.normal_)

    def class_vectors(self) -> Tensor:
        """The proxies."""
        return self.proxies

    def relations(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Images x proxies, with the similarities among proxies where direction needs them."""
        relations = super().relations(embeddings, labels)
        if not self.direction:
            return relations
        rows = self.proxies.to(in_full_precision(embeddings).dtype)
        return relations._replace(among=self.distance.similarity(rows))

    def per_image(self, relations: Relations) -> Tensor:
        """Minus the log of the chance of the right class."""
        logits = relations.similarity * self.softmax_scale
        if self.direction:
            logits = logits - self.direction * self._direction(relations)
        if self.denominator == "all":
            return soft_cross_entropy(logits, relations)
        right = relations.positives
        others = log_sum_exp(logits, relations.negatives)
        return others * right.sum(1) - (logits * right).sum(1)

    def compute_batch(self, embeddings: Tensor, labels: Labels) -> Tensor:
        """The loss of a batch; the plain form is a softmax, and class numbers are enough."""
        classes = self.class_indices(embeddings, labels)
        if classes is None or self.direction or self.denominator != "all":
            return super().compute_batch(embeddings, labels)
        return class_cross_entropy(self.similarities(embeddings), classes, self.softmax_scale)

    def _direction(self, relations: Relations) -> Tensor:
        similarity = relations.similarity
        right = relations.same.argmax(1)
        squared = self.distance.squared_euclidean
        cosine = direction_cosine(
            squared(similarity.gather(1, right.unsqueeze(1))),
            squared(similarity),
            squared(among_candidates(relations).index_select(0, right)),
        )
        return cosine * (1 - relations.same)


@LOSSES.register("proxy-nca++", paper="Teh et al., ECCV 2020")
class ProxyNCAPlusPlusLoss(ProxyNCALoss):
    """ProxyNCA as a softmax over all classes with a temperature.

    ``-log(e^(-D(x, w_y)/t) / sum_c e^(-D(x, w_c)/t))``. The paper also balances the classes of a
    batch, pools by maximum, and gives the proxies a faster learning rate: settings of the run.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        temperature: float = 1 / 9,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, 1 / temperature, **options)
        self.temperature = temperature
