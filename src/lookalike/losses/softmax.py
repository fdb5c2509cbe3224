"""Classification losses: softmax over learned class vectors, with and without a margin."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lookalike.distances import DotProductSimilarity
from lookalike.errors import BadInput
from lookalike.geometry import (
    NOTHING,
    Relations,
    at_places,
    attach,
    first_order_only,
    listed_pairs,
    log_sum_exp,
    unit,
)
from lookalike.labels import Labels
from lookalike.losses.base import ProxyLoss, ProxyOptions
from lookalike.registry import LOSSES

__all__ = [
    "ArcFaceLoss",
    "CosFaceLoss",
    "NormalizedSoftmaxLoss",
    "SoftmaxLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "class_cross_entropy",
    "lowered",
    "soft_cross_entropy",
]


def soft_cross_entropy(logits: Tensor, relations: Relations) -> Tensor:
    """``-sum_c same_c log softmax(logits)_c`` of each row, over the valid classes."""
    if relations.whole:
        return cross_entropy(logits, relations.same, reduction="none")
    total = log_sum_exp(logits, relations.valid)
    return ((total.unsqueeze(1) - logits) * relations.same * relations.valid).sum(1)


Harder: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""What stands for the similarity to the right class, and its slope."""


def class_cross_entropy(
    similarity: Tensor, classes: Tensor, scale: float, harder: Harder | None = None
) -> Tensor:
    """Mean of ``-log softmax(scale * s)_y``, s_y made harder; value and gradient in one pass."""
    right = classes.to(similarity.device, torch.long).unsqueeze(1)
    with torch.no_grad():
        logits = similarity.detach() * scale
        slope = None
        if harder is not None:
            value, slope = harder(similarity.detach().gather(1, right))
            logits.scatter_(1, right, value.mul_(scale))
        log_chance = logits.log_softmax(1)
        of_right = log_chance.gather(1, right)
        pull = of_right.expm1()
        if slope is not None:
            pull.mul_(slope)
        chance = log_chance.clamp_min_(NOTHING).exp_().scatter_(1, right, pull)
    return attach(similarity, of_right.mean().neg_(), chance.mul_(scale / len(chance)))


def lowered(similarity: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """``s - margin``, and its slope, 1."""
    return similarity - margin, torch.ones_like(similarity)


class SoftmaxLoss(ProxyLoss):
    """Cross-entropy over classes of ``scale * s``; subclasses may make the right class harder."""

    additive = True
    scale: float
    harder: Harder | None = None

    def logits(self, similarity: Tensor, places: Tensor, weights: Tensor | None) -> Tensor:
        """What the softmax is taken of: ``scale * s``, for the right class ``scale * harder(s)``.

        ``places`` (in the flattened matrix) are those of the right classes; ``weights`` says how
        right, None is entirely.
        """
        if self.harder is None:
            return similarity * self.scale
        return made_harder(similarity, places, weights, self.scale, self.harder)

    def per_image(self, relations: Relations) -> Tensor:
        """The cross-entropy of each image."""
        pairs = listed_pairs(relations.same)
        logits = self.logits(relations.similarity, pairs.places, pairs.weights)
        return soft_cross_entropy(logits, relations)

    def compute_batch(self, embeddings: Tensor, labels: Labels) -> Tensor:
        """The loss of a batch; class numbers need no ``same``."""
        similarity = self.similarities(embeddings)
        classes = self.class_indices(embeddings, labels)
        if classes is None:
            return super().compute_batch(embeddings, labels)
        return class_cross_entropy(similarity, classes, self.scale, self.harder)


class _ColumnLoss(SoftmaxLoss):
    """Learned vectors as the columns of ``W``, as a linear layer has them."""

    def __init__(
        self, num_classes: int, embedding_size: int, vectors: int, **options: Unpack[ProxyOptions]
    ) -> None:
        super().__init__(num_classes, embedding_size, **options)
        self.W = self.learned(embedding_size, vectors, start=nn.init.normal_)

    def class_vectors(self) -> Tensor:
        """The columns of ``W``."""
        return self.W.T


class _Harder(torch.autograd.Function):
    """``scale * s``, some of it changed by known amounts with known slopes."""

    @staticmethod
    def forward(
        ctx: Any, similarity: Tensor, places: Tensor, change: Tensor, slope: Tensor, scale: float
    ) -> Tensor:
        ctx.scale = scale
        ctx.save_for_backward(places, slope)
        return (similarity.reshape(-1) * scale).index_add_(0, places, change).view_as(similarity)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        first_order_only()
        places, slope = ctx.saved_tensors
        moved = (gradient * ctx.scale).view(-1)
        moved.index_add_(0, places, moved.index_select(0, places).mul_(slope))
        return moved.view(gradient.shape), None, None, None, None


def made_harder(
    similarity: Tensor,
    places: Tensor,
    weights: Tensor | None,
    scale: float,
    harder: Harder,
) -> Tensor:
    """``scale * s``, at the places of the right classes ``scale * harder(s)``."""
    with torch.no_grad():
        right = at_places(similarity.detach(), places)
        value, slope = harder(right)
        change, slope = (value - right).mul_(scale), slope - 1
        if weights is not None:
            change, slope = change * weights, slope * weights
    logits: Tensor = _Harder.apply(similarity, places, change, slope, scale)
    return logits


@LOSSES.register("normalized-softmax", paper="Zhai and Wu, BMVC 2019")
class NormalizedSoftmaxLoss(_ColumnLoss):
    """Cross-entropy of the cosines to learned class vectors, over a temperature.

    ``-log(e^(s_y/t) / sum_c e^(s_c/t))``, mean over images.
    """

    default_distance = DotProductSimilarity

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        temperature: float = 0.05,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, num_classes, **options)
        self.temperature = temperature
        self.scale = 1 / temperature

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Images x classes; the class vectors have unit length whatever the distance."""
        if self.distance.normalize_embeddings:
            return super().similarities(embeddings)
        rows = self.rows(embeddings)
        return self.distance.similarity(rows, unit(self.class_vectors().to(rows.dtype)))


class _MarginSoftmaxLoss(_ColumnLoss):
    """Cross-entropy of scaled cosines, that of the right class made harder."""

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float,
        scale: float,
        vectors: int | None = None,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, vectors or num_classes, **options)
        if not (self.distance.is_inverted and self.distance.ordered_by_cosine):
            raise BadInput(f"{type(self).__name__} needs the cosine")
        self.margin = margin
        self.scale = scale


@LOSSES.register("cosface", paper="Wang et al., CVPR 2018")
class CosFaceLoss(_MarginSoftmaxLoss):
    """Softmax over scaled cosines, that of the right class less a margin.

    Cross-entropy of ``scale * (s_c - margin [c = y])``.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 0.35,
        scale: float = 64,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, margin, scale, **options)

    def harder(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """``s - margin``."""
        return lowered(cosine, self.margin)


@LOSSES.register("arcface", paper="Deng et al., CVPR 2019")
class ArcFaceLoss(_MarginSoftmaxLoss):
    """Softmax over scaled cosines, the angle to the right class plus a margin.

    Cross-entropy of ``scale * cos(theta_c + margin [c = y])``; ``margin`` in degrees. Beyond 180
    degrees ``cos theta - m sin m`` keeps the loss monotone.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 28.6,
        scale: float = 64,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, margin, scale, **options)

    def harder(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """``cos(theta + margin)``: ``cos theta cos m - sin theta sin m``."""
        margin = math.radians(self.margin)
        cos, sin = math.cos(margin), math.sin(margin)
        inside = cosine.clamp(-1 + 1e-7, 1 - 1e-7)  # at its ends the sine has no slope
        sine = torch.addcmul(torch.ones_like(inside), inside, inside, value=-1).sqrt_()
        within = cosine >= -cos
        value = torch.where(within, inside * cos - sine * sin, cosine - margin * sin)
        return value, torch.where(within, (inside / sine).mul_(sin).add_(cos), 1)


@LOSSES.register("subcenter-arcface", paper="Deng et al., ECCV 2020")
class SubCenterArcFaceLoss(ArcFaceLoss):
    """ArcFace with several centres a class, of which the nearest counts.

    Cross-entropy of ``scale cos(t_c + margin [c = y])``, where ``cos t_c = max_k s_ck``.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 28.6,
        scale: float = 64,
        sub_centers: int = 3,
        **options: Unpack[ProxyOptions],
    ) -> None:
        _MarginSoftmaxLoss.__init__(
            self,
            num_classes,
            embedding_size,
            margin,
            scale,
            vectors=num_classes * sub_centers,
            **options,
        )
        self.sub_centers = sub_centers

    def similarities(self, embeddings: Tensor) -> Tensor:
        """The largest over the centres of each class."""
        found = super().similarities(embeddings)
        return found.view(-1, self.num_classes, self.sub_centers).amax(2)


@LOSSES.register("sphereface", paper="Liu et al., CVPR 2017")
class SphereFaceLoss(_MarginSoftmaxLoss):
    """Softmax with the angle to the right class multiplied, and lengths kept.

    Cross-entropy of ``scale * |x| * psi(theta_c)``; ``psi = cos theta``, for the right class
    ``(-1)^k cos(margin theta) - 2k`` with k the number of whole ``180/margin`` degrees in theta.
    """

    additive = False

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        margin: float = 4,
        scale: float = 1,
        **options: Unpack[ProxyOptions],
    ) -> None:
        super().__init__(num_classes, embedding_size, int(margin), scale, **options)

    def compute_batch(self, embeddings: Tensor, labels: Labels) -> Tensor:
        """The loss of a batch; the scale is another one for each image."""
        return ProxyLoss.compute_batch(self, embeddings, labels)

    def relations(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Images x classes, with the lengths of the embeddings."""
        relations = super().relations(embeddings, labels)
        lengths = torch.linalg.vector_norm(self.rows(embeddings), dim=1, keepdim=True)
        return relations._replace(lengths=lengths)

    def per_image(self, relations: Relations) -> Tensor:
        """Cross-entropy of ``scale * |x| * psi``; without lengths those of unit vectors."""
        pairs = listed_pairs(relations.same)
        logits = self.logits(relations.similarity, pairs.places, pairs.weights)
        if relations.lengths is not None:
            logits = logits * relations.lengths
        return soft_cross_entropy(logits, relations)

    def harder(self, cosine: Tensor) -> tuple[Tensor, Tensor]:
        """``(-1)^k cos(margin theta) - 2k``."""
        angle = cosine.clamp(-1 + 1e-7, 1 - 1e-7).acos()
        turns = (angle * (self.margin / math.pi)).floor()
        sign = 1 - 2 * (turns % 2)
        wide = angle * self.margin
        return sign * wide.cos() - 2 * turns, sign * self.margin * wide.sin() / angle.sin()
