"""Classification losses: softmax over learned class vectors, with and without a margin."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from lookalike.distances import DotProductSimilarity
from lookalike.errors import BadInput
from lookalike.labels import Labels, as_tensor, check_range
from lookalike.losses.base import ProxyLoss, Terms
from lookalike.losses.kernels import Kernel
from lookalike.losses.kernels.softmax import arcface_kernel, softmax_kernel
from lookalike.ops.rows import unit
from lookalike.ops.soft import log_sum_exp
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = [
    "ArcFaceLoss",
    "CosFaceLoss",
    "LargeMarginSoftmaxLoss",
    "NormalizedSoftmaxLoss",
    "SoftmaxLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "right_class_harder",
    "sampled_classes",
    "soft_cross_entropy",
]


def soft_cross_entropy(logits: Tensor, relations: Relations) -> Tensor:
    """``-sum_c same_c log softmax(logits)_c`` of each row, over the valid classes."""
    if relations.all_valid:
        right = relations.class_indices
        return cross_entropy(logits, relations.same if right is None else right, reduction="none")
    total = log_sum_exp(logits, relations.valid)
    return ((total.unsqueeze(1) - logits) * relations.same * relations.valid).sum(1)


def right_class_harder(relations: Relations, harder: Callable[[Tensor], Tensor]) -> Tensor:
    """The similarities, with ``harder(s)`` instead of s for the right class of each image."""
    s, right = relations.similarity, relations.class_indices
    if right is None:  # an image is of several classes in part
        return torch.lerp(s, harder(s), relations.same)
    right = right.unsqueeze(1)
    return s.scatter(1, right, harder(s.gather(1, right)))


def sampled_classes(labels: Tensor, num_classes: int, number: int) -> Tensor:
    """So many classes in order: all of the labels, and random others.

    >>> sampled_classes(torch.tensor([3, 0]), 4, 2)
    tensor([0, 3])
    """
    chance = torch.rand(num_classes, device=labels.device)
    return chance.index_fill_(0, labels, 2).topk(number).indices.sort().values


class SoftmaxLoss(ProxyLoss):
    """Cross-entropy over classes of ``logits``, as a rule the similarities times a factor.

    Args:
        sample: The share of the classes that a training step compares images with: those of the
            batch, and random others (partial FC, An et al., CVPR 2022). 1: all classes. Less makes
            logits and their gradients smaller by that factor; images that are of several classes
            in part are compared with all, and so is everything in evaluation mode.
    """

    additive = True
    one_class_kernel: ClassVar[Kernel | None] = softmax_kernel
    """Value and gradient by hand, where every image is of one class."""

    _: KW_ONLY
    sample: float = 1

    def __post_init__(self) -> None:
        """Check the share of classes."""
        super().__post_init__()
        if not 0 < self.sample <= 1:
            raise BadInput(f"sample is {self.sample}; it must be above 0, up to 1")

    def vectors(self, chosen: Tensor | None) -> Tensor:
        """The learned vectors of the chosen classes as rows; None: of all."""
        every = self.class_vectors()
        return every if chosen is None else every.index_select(0, chosen)

    def similarities(self, embeddings: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Images x classes, all or the chosen ones."""
        rows = self.rows(embeddings)
        return self.distance.similarity(rows, self.vectors(chosen).to(rows.dtype))

    def to_proxies(self, embeddings: Tensor, labels: Labels) -> Relations:
        """Images x classes; of a sample of the classes where ``sample`` says so."""
        given = as_tensor(labels, embeddings.shape[0])
        number = max(math.ceil(self.sample * self.num_classes), embeddings.shape[0])
        if not self.training or given.ndim != 1 or number >= self.num_classes:
            return super().to_proxies(embeddings, given)
        check_range(given, self.num_classes)
        given = given.to(embeddings.device, torch.long)
        chosen = sampled_classes(given, self.num_classes, number)
        similarity = self.similarities(embeddings, chosen)
        # a label below 0 stays one, where no check has refused it
        places = torch.searchsorted(chosen, given).where(given >= 0, -1)
        found = self.of_classes_compared(embeddings, similarity, places, number)
        return found._replace(classes=chosen)

    def kernel(self, relations: Relations) -> Kernel | None:
        """``one_class_kernel`` where every image is of one class."""
        one_class = relations.all_valid and relations.class_indices is not None
        return type(self).one_class_kernel if one_class else None

    def factor(self) -> float:
        """What the similarities are multiplied by."""
        raise NotImplementedError

    def logits(self, relations: Relations) -> Tensor:
        """Images x classes."""
        return self.factor() * relations.similarity

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per image."""
        return Terms(soft_cross_entropy(self.logits(relations), relations))


class _ColumnLoss(SoftmaxLoss):
    """Learned vectors as the columns of ``W``, as a linear layer has them."""

    sub_centers = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        vectors = self.num_classes * self.sub_centers
        self.W = self.learned(self.embedding_size, vectors, start=nn.init.normal_)

    def class_vectors(self) -> Tensor:
        """The columns of ``W``."""
        return self.W.T


@LOSSES.register("normalized-softmax", paper="Zhai and Wu, BMVC 2019")
class NormalizedSoftmaxLoss(_ColumnLoss):
    """Cross-entropy of the cosines to learned class vectors, over a temperature.

    ``-log(e^(s_y/t) / sum_c e^(s_c/t))``, mean over images.

    Args:
        temperature: Divides the cosines.
    """

    default_distance = DotProductSimilarity

    temperature: float = 0.05

    def factor(self) -> float:
        """``1 / temperature``."""
        return 1 / self.temperature

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """``s / temperature``."""
        return self.similarities(embeddings) * self.factor()

    def similarities(self, embeddings: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Images x classes; the class vectors have unit length whatever the distance."""
        if self.distance.normalize_embeddings:
            return super().similarities(embeddings, chosen)
        rows = self.rows(embeddings)
        return self.distance.similarity(rows, unit(self.vectors(chosen).to(rows.dtype)))


class _MarginSoftmaxLoss(_ColumnLoss):
    """Cross-entropy of scaled cosines, that of the right class made harder."""

    needs = "the cosine"

    margin: float
    scale: float

    def factor(self) -> float:
        """``scale``."""
        return self.scale

    def harder(self, similarity: Tensor) -> Tensor:
        """What stands for the similarity to the right class."""
        raise NotImplementedError

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """``scale * s``."""
        rows = normalize(self.rows(embeddings))
        return self.scale * self.of_classes(rows @ normalize(self.W.to(rows.dtype), dim=0))

    def of_classes(self, cosines: Tensor) -> Tensor:
        """[N, classes] from the cosines to all columns of ``W``."""
        return cosines

    def logits(self, relations: Relations) -> Tensor:
        """``scale * s``, and ``scale * harder(s)`` for the right class."""
        return self.scale * right_class_harder(relations, self.harder)


@LOSSES.register("cosface", paper="Wang et al., CVPR 2018")
class CosFaceLoss(_MarginSoftmaxLoss):
    """Softmax over scaled cosines, that of the right class less a margin.

    Cross-entropy of ``scale * (s_c - margin [c = y])``.

    Args:
        margin: Taken off the cosine to the right class.
        scale: Of the cosines.
    """

    margin: float = 0.35
    scale: float = 64

    def harder(self, similarity: Tensor) -> Tensor:
        """``s - margin``."""
        return similarity - self.margin


@LOSSES.register("arcface", paper="Deng et al., CVPR 2019")
class ArcFaceLoss(_MarginSoftmaxLoss):
    """Softmax over scaled cosines, the angle to the right class plus a margin.

    Cross-entropy of ``scale * cos(theta_c + margin [c = y])``; ``margin`` in degrees. Beyond 180
    degrees ``cos theta - m sin m`` keeps the loss monotone.

    Args:
        margin: Added to the angle to the right class, in degrees.
        scale: Of the cosines.
    """

    one_class_kernel = arcface_kernel

    margin: float = 28.6
    scale: float = 64

    def harder(self, similarity: Tensor) -> Tensor:
        """``cos(theta + margin)``; beyond 180 degrees ``cos theta - m sin m``."""
        margin = self.margin * (math.pi / 180)
        angle = similarity.clamp(-1 + 1e-7, 1 - 1e-7).acos() + margin  # no gradient at its ends
        sine = margin.sin() if isinstance(margin, Tensor) else math.sin(margin)
        return torch.where(angle <= math.pi, angle.cos(), similarity - margin * sine)


@LOSSES.register("subcenter-arcface", paper="Deng et al., ECCV 2020")
class SubCenterArcFaceLoss(ArcFaceLoss):
    """ArcFace with several centres a class, of which the nearest counts.

    Cross-entropy of ``scale cos(t_c + margin [c = y])``, where ``cos t_c = max_k s_ck``.

    Args:
        sub_centers: Centres per class.
    """

    sub_centers: int = 3

    def vectors(self, chosen: Tensor | None) -> Tensor:
        """The centres of the chosen classes as rows; None: of all."""
        if chosen is None:
            return self.class_vectors()
        centres = torch.arange(self.sub_centers, device=chosen.device)
        return super().vectors((chosen.unsqueeze(1) * self.sub_centers + centres).view(-1))

    def similarities(self, embeddings: Tensor, chosen: Tensor | None = None) -> Tensor:
        """The largest over the centres of each class."""
        return self.of_classes(super().similarities(embeddings, chosen))

    def of_classes(self, cosines: Tensor) -> Tensor:
        """The largest over the centres of each class."""
        return self.by_class(cosines).amax(2)

    def by_class(self, cosines: Tensor) -> Tensor:
        """The cosines [N, classes, centres]."""
        return cosines.view(len(cosines), cosines.shape[1] // self.sub_centers, self.sub_centers)

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
        cosine = self.by_class(super().similarities(embeddings[order]))
        rows = torch.arange(len(labels), device=labels.device)
        own = cosine[rows, labels]
        votes = own.new_zeros(self.num_classes, self.sub_centers)
        votes.index_put_((labels, own.argmax(1)), own.new_ones(len(labels)), accumulate=True)
        main = votes.argmax(1)
        outliers = order[own[rows, main[labels]] < math.cos(math.radians(threshold))]
        if not return_dominant_centers:
            return outliers
        centres = self.W.view(-1, self.num_classes, self.sub_centers)
        chosen = centres[:, torch.arange(self.num_classes, device=main.device), main]
        return outliers, (chosen * votes.any(1)).to(own.dtype)


@LOSSES.register("sphereface", paper="Liu et al., CVPR 2017")
class SphereFaceLoss(_MarginSoftmaxLoss):
    """Softmax with the angle to the right class multiplied, and lengths kept.

    Cross-entropy of ``scale * |x| * psi(theta_c)``; ``psi = cos theta``, for the right class
    ``(-1)^k cos(margin theta) - 2k`` with k the number of whole ``180/margin`` degrees in theta.

    Args:
        margin: Multiplies the angle to the right class; a whole number.
        scale: Of the logits.
    """

    additive = False
    one_class_kernel = None  # the lengths of the embeddings have a gradient, too

    margin: float = 4
    scale: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isinf(self.margin):
            raise BadInput("the margin must be a whole number, not infinite")
        self.margin = int(self.margin)

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """``scale * |x| * s``."""
        lengths: Tensor = torch.linalg.vector_norm(self.rows(embeddings), dim=1, keepdim=True)
        return super().get_logits(embeddings) * lengths

    def logits(self, relations: Relations) -> Tensor:
        """``scale * |x| * psi``."""
        logits = super().logits(relations)
        if relations.embeddings is None:
            return logits
        lengths: Tensor = torch.linalg.vector_norm(relations.embeddings, dim=1, keepdim=True)
        return logits * lengths

    def harder(self, similarity: Tensor) -> Tensor:
        """``(-1)^k cos(margin theta) - 2k``."""
        angle = similarity.clamp(-1 + 1e-7, 1 - 1e-7).acos()
        turns = (angle * (self.margin / math.pi)).floor()
        sign = 1 - 2 * (turns % 2)
        return sign * (angle * self.margin).cos() - 2 * turns


@LOSSES.register("large-margin-softmax", paper="Liu et al., ICML 2016")
class LargeMarginSoftmaxLoss(SphereFaceLoss):
    """As SphereFace, and the lengths of the class vectors are kept too.

    Cross-entropy of ``scale * |x| * |w_c| * psi(theta_c)``; ``psi = cos theta``, for the right
    class ``(-1)^k cos(margin theta) - 2k`` with k the number of whole ``180/margin`` degrees in
    theta.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample != 1:
            raise BadInput(
                "large-margin-softmax reads the lengths of all class vectors; sample must be 1"
            )

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """``scale * |x| * |w| * s``."""
        logits = super().get_logits(embeddings)
        return logits * self._lengths(logits)

    def logits(self, relations: Relations) -> Tensor:
        """``scale * |x| * |w| * psi``."""
        logits = super().logits(relations)
        return logits * self._lengths(logits)

    def _lengths(self, like: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(self.W.to(like.dtype), dim=0)
        return lengths
