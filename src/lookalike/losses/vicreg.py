"""VICReg: two views of each image alike, without labels and without collapse."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import Loss, Terms
from lookalike.miners.mined import Indices
from lookalike.ops.rows import check_rows, in_full_precision
from lookalike.relations import Relations

__all__ = ["VICRegLoss"]


class VICRegLoss(Loss):
    """Two views of each image near, every component spread, no two components alike.

    ``lambda mean |x - x'|^2 / D + mu (mean [1 - std x_d]+ + mean [1 - std x'_d]+) / 2
    + nu (sum_(d != e) cov(x_d, x_e)^2 + the same of x') / D`` (Bardes et al., ICLR 2022). Called as
    ``loss(views, ref_emb=other_views)``; there are no labels.

    Args:
        invariance_lambda: The weight of the distance between the views.
        variance_mu: The weight of the hinge on the standard deviations.
        covariance_v: The weight of the covariances.
        eps: Added to the variance before its root.
    """

    needs_labels = False
    sub_losses = ("invariance_loss", "variance_loss1", "variance_loss2", "covariance_loss")

    invariance_lambda: float = 25
    variance_mu: float = 25
    covariance_v: float = 1
    eps: float = 1e-4

    def __post_init__(self) -> None:
        if self.distance is not None:
            raise BadInput("VICRegLoss compares components, and takes no distance")
        super().__post_init__()

    def check_given(
        self,
        labels: Labels | None,
        indices_tuple: Indices | None,
        ref_emb: Tensor | None,
        ref_labels: Labels | None,
    ) -> None:
        """Refuse anything but two views."""
        if labels is not None or ref_labels is not None or indices_tuple is not None:
            raise BadInput("VICRegLoss takes two views, and neither labels nor indices")
        if ref_emb is None:
            raise BadInput("VICRegLoss needs ref_emb, the other view of each embedding")

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,  # noqa: ARG002
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,  # noqa: ARG002
        itself: Tensor | None = None,  # noqa: ARG002
    ) -> Relations:
        """Each image against its other view only."""
        check_rows(embeddings, None)
        if ref_emb is None or ref_emb.shape != embeddings.shape:
            raise BadInput("VICRegLoss needs ref_emb, the other view of each embedding")
        first, second = in_full_precision(embeddings), in_full_precision(ref_emb)
        similarity = -(first - second).square().mean(1, keepdim=True)
        ones = torch.ones_like(similarity, requires_grad=False)
        return Relations(
            similarity, ones, ones, embeddings=first, ref_emb=second, all_valid=True, binary=True
        )

    def terms(self, relations: Relations) -> tuple[Terms, ...]:
        """The formula: one value per image, one per component of each view, and one for all."""
        assert relations.embeddings is not None
        assert relations.ref_emb is not None
        near = -self.invariance_lambda * relations.similarity.squeeze(1)
        found = [Terms(near, name="invariance_loss")]
        covariances = relations.similarity.new_zeros(())
        for number, rows in enumerate((relations.embeddings, relations.ref_emb), start=1):
            centred = rows - rows.mean(0)
            covariance = centred.T @ centred / max(1, len(rows) - 1)
            variance = covariance.diagonal()
            spread = (1 - (variance + self.eps).sqrt()).relu() / 2
            found.append(Terms(self.variance_mu * spread, name=f"variance_loss{number}"))
            others = covariance.square().sum() - variance.square().sum()
            covariances = covariances + others / rows.shape[1]
        return *found, Terms(self.covariance_v * covariances, name="covariance_loss")
