"""Classification losses: softmax over learned class vectors, with and without a margin."""

import math

import torch
from torch import Tensor

from lookalike.distances import DotProductSimilarity
from lookalike.errors import BadInput
from lookalike.labels import check_range
from lookalike.losses.proxies import ProxyLoss, soft_cross_entropy, with_target_margin
from lookalike.ops.rows import normalize_rows
from lookalike.reducers import Terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = [
    "ArcFaceLoss",
    "CosFaceLoss",
    "LargeMarginSoftmaxLoss",
    "NormalizedSoftmaxLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
]


def cosface(r: Relations, margin: float, scale: float) -> Tensor:
    """``-log softmax_y(scale (s_c - margin [c = y]))``, one value per image."""
    return soft_cross_entropy(r, scale * with_target_margin(r, lambda s: s - margin))


def arcface(r: Relations, degrees: float, scale: float) -> Tensor:
    """``-log softmax_y(scale cos(theta_c + margin [c = y]))``, one value per image."""
    cosines = with_target_margin(r, lambda s: additive_angular_margin(s, degrees))
    return soft_cross_entropy(r, scale * cosines)


def sphereface(r: Relations, margin: float, scale: float, lengths: Tensor) -> Tensor:
    """``-log softmax_y(scale lengths psi(theta_c))``, psi = cos for c != y, one value per image."""
    cosines = with_target_margin(r, lambda s: multiplied_angle(s, margin))
    return soft_cross_entropy(r, scale * lengths * cosines)


def additive_angular_margin(cosine: Tensor, degrees: float | Tensor) -> Tensor:
    """``cos(theta + margin)``; beyond 180 degrees ``cos theta - m sin m``."""
    margin = degrees * (math.pi / 180)
    angle = _angle(cosine) + margin
    sine = margin.sin() if isinstance(margin, Tensor) else math.sin(margin)
    return torch.where(angle <= math.pi, angle.cos(), cosine - margin * sine)


def multiplied_angle(cosine: Tensor, margin: float) -> Tensor:
    """``(-1)^k cos(margin theta) - 2k``, k the number of whole ``180/margin`` degrees in theta."""
    angle = _angle(cosine)
    turns = (angle * (margin / math.pi)).floor()
    sign = 1 - 2 * (turns % 2)
    return sign * (angle * margin).cos() - 2 * turns


def whole(margin: float) -> int:
    """The margin as a whole number."""
    if math.isinf(margin):
        raise BadInput("the margin must be a whole number, not infinite")
    return int(margin)


def _angle(cosine: Tensor) -> Tensor:
    """The angle; acos has no gradient at its ends, so a hair inside."""
    return cosine.clamp(-1 + 1e-7, 1 - 1e-7).acos()


def length(rows: Tensor) -> Tensor:
    """The length of each row [N, 1]."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return lengths


@LOSSES.register(
    "normalized-softmax", paper="Zhai and Wu, BMVC 2019", url="https://arxiv.org/abs/1811.12649"
)
class NormalizedSoftmaxLoss(ProxyLoss):
    """Cross-entropy of the cosines to learned class vectors, over a temperature.

    ``-log(e^(s_y/t) / sum_c e^(s_c/t))``, mean over images. The class vectors have unit length
    whatever the distance.

    Args:
        temperature: Divides the cosines.
    """

    columns = "W"
    default_distance = DotProductSimilarity

    temperature: float = 0.05

    def logit_scale(self) -> float:
        """``1 / temperature``."""
        return 1 / self.temperature

    def vectors_of(self, classes: Tensor | None) -> Tensor:
        """The class vectors at unit length."""
        return normalize_rows(super().vectors_of(classes))


@LOSSES.register("cosface", paper="Wang et al., CVPR 2018", url="https://arxiv.org/abs/1801.09414")
class CosFaceLoss(ProxyLoss):
    """Softmax over scaled cosines, that of the right class less a margin.

    Cross-entropy of ``scale * (s_c - margin [c = y])``.

    Args:
        margin: Taken off the cosine to the right class.
        scale: Of the cosines.
    """

    columns = "W"
    needs = "the cosine"

    margin: float = 0.35
    scale: float = 64

    def logit_scale(self) -> float:
        """``scale``."""
        return self.scale

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        return Terms(cosface(relations, self.margin, self.scale))


@LOSSES.register("arcface", paper="Deng et al., CVPR 2019", url="https://arxiv.org/abs/1801.07698")
class ArcFaceLoss(ProxyLoss):
    """Softmax over scaled cosines, the angle to the right class plus a margin.

    Cross-entropy of ``scale * cos(theta_c + margin [c = y])``; ``margin`` in degrees. Beyond 180
    degrees ``cos theta - m sin m`` keeps the loss monotone.

    Args:
        margin: Added to the angle to the right class, in degrees.
        scale: Of the cosines.
    """

    columns = "W"
    needs = "the cosine"

    margin: float = 28.6
    scale: float = 64

    def logit_scale(self) -> float:
        """``scale``."""
        return self.scale

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        return Terms(arcface(relations, self.margin, self.scale))


@LOSSES.register(
    "subcenter-arcface",
    paper="Deng et al., ECCV 2020",
    url="https://www.ecva.net/papers/eccv_2020/papers_ECCV/papers/123560715.pdf",
)
class SubCenterArcFaceLoss(ProxyLoss):
    """ArcFace with several centres a class, of which the nearest counts.

    Cross-entropy of ``scale cos(t_c + margin [c = y])``, where ``cos t_c = max_k s_ck``.

    Args:
        margin: Added to the angle to the right class, in degrees.
        scale: Of the cosines.
        sub_centers: Centres per class.
    """

    columns = "W"
    needs = "the cosine"

    margin: float = 28.6
    scale: float = 64
    sub_centers: int = 3

    def vectors_per_class(self) -> int:
        """``sub_centers``."""
        return self.sub_centers

    def logit_scale(self) -> float:
        """``scale``."""
        return self.scale

    def similarities(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:
        """The largest over the centres of each class."""
        return self.to_centres(embeddings, classes).amax(2)

    def to_centres(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:
        """The cosines to all centres [N, classes, centres]."""
        return torch.unflatten(super().similarities(embeddings, classes), 1, (-1, self.sub_centers))

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        return Terms(arcface(relations, self.margin, self.scale))

    @torch.no_grad()
    def get_outliers(
        self,
        embeddings: Tensor,
        labels: Tensor,
        threshold: float = 75,
        return_dominant_centers: bool = True,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The images that lie far from the main centre of their class: often wrong labels.

        The main centre of a class is the one that is nearest to most of its images.

        Args:
            embeddings: [N, D].
            labels: Class indices [N].
            threshold: In degrees; images at a larger angle to the main centre are outliers.
            return_dominant_centers: Whether to return the main centres as well.

        Returns:
            Indices of the outliers, in order of their class; and the main centres as columns
            [D, classes], 0 for a class without images.
        """
        check_range(labels, self.num_classes)
        order = labels.argsort(stable=True)
        labels = labels[order]
        rows = torch.arange(len(labels), device=labels.device)
        own = self.to_centres(self.rows(embeddings[order]))[rows, labels]
        votes = own.new_zeros(self.num_classes, self.sub_centers)
        votes.index_put_((labels, own.argmax(1)), own.new_ones(len(labels)), accumulate=True)
        main = votes.argmax(1)
        outliers = order[own[rows, main[labels]] < math.cos(math.radians(threshold))]
        if not return_dominant_centers:
            return outliers
        centres = self.class_vectors().T.view(-1, self.num_classes, self.sub_centers)
        chosen = centres[:, torch.arange(self.num_classes, device=main.device), main]
        return outliers, (chosen * votes.any(1)).to(own.dtype)


@LOSSES.register(
    "sphereface", paper="Liu et al., CVPR 2017", url="https://arxiv.org/abs/1704.08063"
)
class SphereFaceLoss(ProxyLoss):
    """Softmax with the angle to the right class multiplied, and lengths kept.

    Cross-entropy of ``scale * |x| * psi(theta_c)``; ``psi = cos theta``, for the right class
    ``(-1)^k cos(margin theta) - 2k`` with k the number of whole ``180/margin`` degrees in theta.

    Args:
        margin: Multiplies the angle to the right class; a whole number.
        scale: Of the logits.
    """

    additive = False
    columns = "W"
    needs = "the cosine"

    margin: float = 4
    scale: float = 1

    def __post_init__(self) -> None:
        self.margin = whole(self.margin)
        super().__post_init__()

    def logit_scale(self) -> float:
        """``scale``."""
        return self.scale

    def lengths(self, embeddings: Tensor) -> Tensor:
        """``|x|``."""
        return length(embeddings)

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        assert relations.embeddings is not None
        lengths = self.lengths(relations.embeddings)
        return Terms(sphereface(relations, self.margin, self.scale, lengths))


@LOSSES.register(
    "large-margin-softmax", paper="Liu et al., ICML 2016", url="https://arxiv.org/abs/1612.02295"
)
class LargeMarginSoftmaxLoss(ProxyLoss):
    """As SphereFace, and the lengths of the class vectors are kept too.

    Cross-entropy of ``scale * |x| * |w_c| * psi(theta_c)``; ``psi = cos theta``, for the right
    class ``(-1)^k cos(margin theta) - 2k`` with k the number of whole ``180/margin`` degrees in
    theta.

    Args:
        margin: Multiplies the angle to the right class; a whole number.
        scale: Of the logits.
    """

    additive = False
    columns = "W"
    needs = "the cosine"

    margin: float = 4
    scale: float = 1

    def __post_init__(self) -> None:
        self.margin = whole(self.margin)
        self.need_all_classes()
        super().__post_init__()

    def logit_scale(self) -> float:
        """``scale``."""
        return self.scale

    def lengths(self, embeddings: Tensor) -> Tensor:
        """``|x| * |w_c|``, images x classes."""
        return length(embeddings) * length(self.class_vectors().to(embeddings.dtype)).T

    def terms(self, relations: Relations) -> Terms:
        """One value per image."""
        assert relations.embeddings is not None
        lengths = self.lengths(relations.embeddings)
        return Terms(sphereface(relations, self.margin, self.scale, lengths))
