"""What a loss over images and learned class vectors is: by default a softmax over classes."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import ClassVar

import torch
from torch import Tensor, nn

from lookalike.arguments import Built
from lookalike.distances import Distance
from lookalike.errors import BadInput
from lookalike.labels import Labels, as_tensor, check_range, class_rows
from lookalike.losses.base import FromMiner, Loss
from lookalike.miners.mined import image_weights
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.reducers import Terms
from lookalike.registry import REGULARIZERS
from lookalike.relations import Relations, relate

__all__ = ["ProxyLoss"]


class ProxyLoss(Loss):
    """A loss over images compared with learned vectors (proxies), one or several per class.

    By default the cross-entropy over classes of the similarities times ``logit_scale``. Labels are
    class indices from 0, or rows [N, classes] that say how much of each class an image is (mixed
    images). What a miner chose weighs the images: by how often each is named, over the largest
    count (as PML). A memory adds images, which train the proxies only.

    Args:
        num_classes: How many classes there are.
        embedding_size: The dimension of the embeddings.
        weight_regularizer: A penalty on the proxies, or its name.
        weight_reg_weight: The weight of that penalty.
        weight_init_func: Fills the proxies; None: as the paper of the loss does.
        sample: The share of the classes that a training step compares images with: those of the
            batch, and random others (partial FC, An et al., CVPR 2022). 1: all classes. Less makes
            logits and their gradients smaller by that factor; images that are of several classes
            in part are compared with all, and so is everything in evaluation mode.
    """

    additive = True
    from_miner: ClassVar[FromMiner] = image_weights
    proxies_are_anchors: ClassVar[bool] = False
    """Whether relations are proxies x images instead of images x proxies."""
    default_init: ClassVar[Callable[[Tensor], object]] = nn.init.normal_
    """What fills the learned vectors where ``weight_init_func`` is None."""
    columns: ClassVar[str] = ""
    """The parameter that has the vectors as columns, as a linear layer has them; empty: they are
    the rows of ``proxies``."""

    num_classes: int
    embedding_size: int
    _: KW_ONLY
    weight_regularizer: Built[nn.Module | None] = Built(
        lambda _, given: given and REGULARIZERS.build(given, nn.Module)
    )
    weight_reg_weight: float = 1.0
    weight_init_func: Callable[[Tensor], object] | None = None
    sample: float = 1

    def make_parameter(self, *shape: int) -> nn.Parameter:
        """A parameter of this shape, filled by ``weight_init_func``, or else as the paper does."""
        parameter = nn.Parameter(torch.empty(*shape))
        (self.weight_init_func or type(self).default_init)(parameter.data)
        return parameter

    def __post_init__(self) -> None:
        """Check ``sample`` and make the learned vectors."""
        if not 0 < self.sample <= 1:
            raise BadInput(f"sample is {self.sample}; it must be above 0, up to 1")
        if self.proxies_are_anchors:
            self.need_all_classes()
        number = self.num_classes * self.vectors_per_class()
        if self.columns:
            setattr(self, self.columns, self.make_parameter(self.embedding_size, number))
        else:
            self.proxies = self.make_parameter(number, self.embedding_size)

    def need_all_classes(self) -> None:
        """Refuse a sample of the classes, for a formula that reads the vectors of all."""
        if self.sample != 1:
            name = type(self).__name__
            raise BadInput(f"{name} reads the vectors of all classes; sample must be 1")

    def vectors_per_class(self) -> int:
        """How many vectors a class has."""
        return 1

    def class_vectors(self) -> Tensor:
        """The learned vectors as rows, in order of their classes."""
        if not self.columns:
            return self.proxies
        columns: Tensor = getattr(self, self.columns)
        return columns.T

    def vectors_of(self, classes: Tensor | None) -> Tensor:
        """The learned vectors of some classes as rows; None: of all."""
        vectors = self.class_vectors()
        if classes is None:
            return vectors
        number = self.vectors_per_class()
        rows = classes.unsqueeze(1) * number + torch.arange(number, device=classes.device)
        return vectors.index_select(0, rows.flatten())

    def similarities(self, embeddings: Tensor, classes: Tensor | None = None) -> Tensor:
        """Images x classes, all or some."""
        return self.distance.similarity(embeddings, self.vectors_of(classes).to(embeddings.dtype))

    def logit_scale(self) -> float:
        """What the similarities are multiplied by in a softmax."""
        return 1

    def lengths(self, embeddings: Tensor) -> float | Tensor:  # noqa: ARG002
        """What they are multiplied by besides, in a loss that keeps lengths; images x classes."""
        return 1

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Images x classes: how near each image is to each class, scaled, without any margin.

        Args:
            embeddings: [N, D].

        Returns:
            [N, classes].
        """
        rows = self.rows(embeddings)
        return self.logit_scale() * self.lengths(rows) * self.similarities(rows)

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """Cross-entropy, one value per image."""
        return Terms(soft_cross_entropy(relations, self.logit_scale() * relations.similarity))

    def rows(self, embeddings: Tensor) -> Tensor:
        """The embeddings, checked, in float32 at least."""
        check_rows(embeddings, self.embedding_size)
        return in_full_precision(embeddings)

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        *,
        own: Tensor | None = None,
    ) -> Relations:
        """Images and proxies; the images of a memory are further ones, without gradient.

        The labels of the proxies are those of the classes that were sampled, or None: all classes.
        """
        rows = self.rows(embeddings)
        if ref_emb is not None and ref_emb is not embeddings:
            if own is None or ref_labels is None:
                raise BadInput(
                    f"{type(self).__name__} compares with learned vectors, not with ref_emb"
                )
            own = own.to(rows.device, non_blocking=True)
            rows, labels = ref_emb.index_copy(0, own, rows), ref_labels
        if labels is None:
            raise BadInput(f"{type(self).__name__} needs labels")
        targets = as_tensor(labels, len(rows))
        classes = self._sampled_classes(targets, rows)
        similarity = self.similarities(rows, classes)
        number = self.num_classes if classes is None else len(classes)
        shares = class_rows(_among(targets, classes), number, similarity)
        share = shares if targets.ndim == 2 else None
        dtype = torch.long if targets.ndim == 1 else None
        images = rows, targets.to(rows.device, dtype, non_blocking=True)
        if not self.proxies_are_anchors:
            vectors = self.class_vectors(), classes
            return Relations(similarity, shares, 1 - shares, share, *images, *vectors)
        shares, share = shares.T, None if share is None else share.T
        vectors = self.class_vectors(), torch.arange(self.num_classes, device=rows.device)
        return Relations(similarity.T, shares, 1 - shares, share, *vectors, *images)

    def images(self, relations: Relations) -> Tensor | None:
        """The embeddings of the images, which may be the candidates."""
        return relations.ref_emb if self.proxies_are_anchors else relations.embeddings

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """The images against one another."""
        images = self.images(relations)
        labels = relations.ref_labels if self.proxies_are_anchors else relations.labels
        assert images is not None
        return relate(images.detach(), labels, distance=distance)

    def penalties(self, relations: Relations) -> list[Terms]:
        """Those of the embeddings and of the learned vectors."""
        penalties = super().penalties(relations)
        if self.weight_regularizer is not None:
            vectors = self.class_vectors().to(relations.similarity.dtype)
            penalty = self.weight_reg_weight * self.weight_regularizer(vectors)
            penalties.append(Terms(penalty, name="weight_reg_loss"))
        return penalties

    def _sampled_classes(self, labels: Tensor, rows: Tensor) -> Tensor | None:
        """The classes that ``sample`` draws; None: all."""
        number = max(math.ceil(self.sample * self.num_classes), len(rows))
        if not self.training or labels.ndim != 1 or number >= self.num_classes:
            return None
        check_range(labels, self.num_classes)
        return sampled_classes(labels.to(rows.device, torch.long), self.num_classes, number)


def sampled_classes(labels: Tensor, num_classes: int, number: int) -> Tensor:
    """So many classes in order: all of the labels, and random others.

    >>> sampled_classes(torch.tensor([3, 0]), 4, 2)
    tensor([0, 3])
    """
    chance = torch.rand(num_classes, device=labels.device)
    return chance.index_fill_(0, labels, 2).topk(number).indices.sort().values


def _among(labels: Tensor, classes: Tensor | None) -> Tensor:
    """The columns of the labels among the sampled classes."""
    if classes is None or labels.ndim != 1:
        return labels
    labels = labels.to(classes.device, torch.long)
    # a label below 0 stays one, where no check has refused it
    return torch.searchsorted(classes, labels).where(labels >= 0, -1)


def soft_cross_entropy(r: Relations, logits: Tensor) -> Tensor:
    """``-sum_c share_c log softmax(logits)_c``, one value per image."""
    if r.share is not None or r.labels is None:
        return nn.functional.cross_entropy(logits, r.positives, reduction="none")
    return nn.functional.cross_entropy(logits, _among(r.labels, r.ref_labels), reduction="none")


def with_target_margin(r: Relations, margin: Callable[[Tensor], Tensor]) -> Tensor:
    """The similarities, with ``margin(s)`` instead of s for the right class of each image."""
    s = r.similarity
    if r.share is not None or r.labels is None:  # an image is of several classes in part
        return torch.lerp(s, margin(s), r.positives)
    target = _among(r.labels, r.ref_labels).unsqueeze(1)
    return s.scatter(1, target, margin(s.gather(1, target)))
