"""The manifold loss: similarity by random walks over images and proxies."""

import math
from dataclasses import KW_ONLY

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import Loss, Terms
from lookalike.miners.mined import Indices
from lookalike.ops.autocast import autocast
from lookalike.ops.rows import check_rows, in_full_precision, products
from lookalike.relations import Relations

__all__ = ["ManifoldLoss"]


class ManifoldLoss(Loss):
    """Each image nearer to its own proxy than to others, by random walks over all of them.

    ``F = (1 - alpha) (I - alpha S)^-1`` with S the normalised ``e^(2 [s]+)`` among images and
    proxies. For an image i of proxy c: ``log(1 + sum_k e^(F_ik - F_ic + margin))`` over the other
    proxies for which the exponent is not negative (intrinsic), plus ``lambdaC`` times the same of
    the cosines of the rows of F (context); mean over images (Aziere and Todorovic, CVPR 2019).
    There are no labels: each image belongs to a random proxy, unless ``indices_tuple`` says which.

    Args:
        l: The dimension of the embeddings.
        K: How many proxies there are.
        lambdaC: The weight of the context part; infinite: that part alone.
        alpha: How much of its similarity a node passes on, between 0 and 1.
        margin: By how much the own proxy must be nearer.
    """

    needs_labels = False
    needs = "the cosine"

    l: int  # noqa: E741
    _: KW_ONLY
    K: int = 50
    lambdaC: float = 1.0  # noqa: N815
    alpha: float = 0.8
    margin: float = 5e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lambdaC < 0:
            raise BadInput(f"lambdaC is {self.lambdaC}; it must not be negative")
        self.proxies = nn.Parameter(torch.randn(self.K, self.l))

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,  # noqa: ARG002
        itself: Tensor | None = None,  # noqa: ARG002
    ) -> Relations:
        """Images and proxies against one another; the labels are indices of proxies."""
        check_rows(embeddings, self.l)
        if ref_emb is not None and ref_emb is not embeddings:
            raise BadInput("ManifoldLoss compares with its proxies, not with ref_emb")
        rows = in_full_precision(embeddings)
        if labels is None:
            more = torch.randint(self.K, (max(0, len(rows) - self.K),))
            numbers = torch.cat([torch.arange(self.K), more])
            labels = numbers[torch.randperm(len(numbers))][: len(rows)]
        own = torch.as_tensor(labels, device=rows.device)
        similarity = products(torch.cat([rows, self.proxies.to(rows.dtype)]), unit_rows=True)
        same = nn.functional.one_hot(own, self.K).to(rows.dtype)
        return Relations(similarity, same, torch.ones_like(same), embeddings=rows, labels=own)

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per image."""
        number, own = len(relations.same), relations.same > 0
        diagonal = torch.eye(len(relations.similarity), device=own.device).bool()
        near = (2 * relations.similarity.relu()).exp().masked_fill(diagonal, 0)
        scale = near.sum(1).rsqrt()
        walk = scale.unsqueeze(1) * near * scale
        reached = (1 - self.alpha) * torch.linalg.inv(diagonal.to(walk.dtype) - self.alpha * walk)
        images, proxies = reached[:number], reached[number:]
        context = self._missed(products(images, proxies, unit_rows=True), own)
        if math.isinf(self.lambdaC):
            return Terms(context)
        return Terms(self._missed(images[:, number:], own) + self.lambdaC * context)

    def _missed(self, similarity: Tensor, own: Tensor) -> Tensor:
        """``log(1 + sum e^(s_k - s_own + margin))`` over exponents that are not negative."""
        right = (similarity * own).sum(1, keepdim=True)
        excess = similarity - right + self.margin
        return (excess.exp() * ((excess >= 0) & ~own)).sum(1).log1p()

    def forward(
        self,
        embeddings: Tensor,
        labels: Labels | None = None,
        indices_tuple: Indices | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: [N, l].
            labels: Must be None.
            indices_tuple: [N] the proxy of each image; None: random ones.
            ref_emb: Must be None.
            ref_labels: Must be None.

        Returns:
            A scalar.
        """
        if labels is not None or ref_labels is not None:
            raise BadInput("ManifoldLoss takes no labels; indices_tuple may name the proxies")
        if embeddings.shape[0] == 0:
            return in_full_precision(embeddings).sum()
        with autocast(embeddings.device, enabled=False):
            chosen = indices_tuple if isinstance(indices_tuple, Tensor) else None
            return self.value(self.relations(embeddings, chosen, ref_emb))
