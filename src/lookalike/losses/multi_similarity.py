"""The multi-similarity loss."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.geometry import Relations, attach, soft_terms
from lookalike.losses.base import LossOptions, PairLoss
from lookalike.losses.direction import among_candidates, direction_cosine
from lookalike.registry import LOSSES

__all__ = ["MultiSimilarityLoss", "multi_similarity"]


def multi_similarity(
    relations: Relations, alpha: float, beta: float, base: float, repelled: Tensor | None = None
) -> Tensor:
    """``1/a log(1 + sum_P e^(-a(s-m))) + 1/b log(1 + sum_N e^(b(s-m)))``, mean over anchors.

    ``repelled`` are the similarities that negatives are judged by, if not the plain ones.
    """
    similarity = relations.similarity
    with torch.no_grad():
        pull, near = soft_terms(
            similarity.detach(), relations.positives, scale=-alpha, shift=base, plus_one=True
        )
        push, far = soft_terms(
            (similarity if repelled is None else repelled).detach(),
            relations.negatives,
            scale=beta,
            shift=base,
            plus_one=True,
        )
        value = pull.div_(alpha).add_(push.div_(beta)).mean()
        number = similarity.shape[0]
    if repelled is None:
        return attach(similarity, value, far.sub_(near).div_(number))
    return attach(similarity, value, near.div_(-number)) + attach(
        repelled, torch.zeros_like(value), far.div_(number)
    )


@LOSSES.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityLoss(PairLoss):
    """Weighs each pair by its own similarity and by those of the anchor's other pairs.

    ``1/alpha log(1 + sum_P e^(-alpha (s - base))) + 1/beta log(1 + sum_N e^(beta (s - base)))``,
    mean over anchors. ``direction``: direction regularisation; a negative's ``s_an`` becomes
    ``s_an - direction * cos(x_p - x_a, x_n - x_a)``, p the anchor's least similar positive
    (Mohan et al., CVPR 2020).
    """

    counts = False

    def __init__(
        self,
        alpha: float = 2,
        beta: float = 50,
        base: float = 0.5,
        direction: float = 0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.alpha = alpha
        self.beta = beta
        self.base = base
        self.direction = direction
        self.among = bool(direction)

    def compute(self, relations: Relations) -> Tensor:
        """The loss of these relations."""
        level = self.distance.level(self.base)
        repelled = self._repelled(relations) if self.direction else None
        return multi_similarity(relations, self.alpha, self.beta, level, repelled)

    def _repelled(self, relations: Relations) -> Tensor:
        similarity, weights = relations.similarity, relations.positives
        far = similarity.detach() + (1 - weights.clamp_max(1).ceil()) * 1e30
        hardest = far.argmin(1)
        squared = self.distance.squared_euclidean
        cosine = direction_cosine(
            squared(similarity.gather(1, hardest.unsqueeze(1))),
            squared(similarity),
            squared(among_candidates(relations).index_select(0, hardest)),
        )
        some = (weights > 0).any(1, keepdim=True)
        return similarity - self.direction * torch.where(some, cosine, 0)
