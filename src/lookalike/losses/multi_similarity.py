"""The multi-similarity loss."""

from typing import Unpack

import torch
from torch import Tensor

from lookalike.geometry import Relations, attach, in_row_blocks, soft_terms
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

    def attraction(part: Relations) -> tuple[Tensor, Tensor]:
        pull, near = soft_terms(
            part.similarity, part.positives, scale=-alpha, shift=base, plus_one=True
        )
        return pull.div_(alpha), near

    def repulsion(part: Relations) -> tuple[Tensor, Tensor]:
        push, far = soft_terms(
            part.similarity, part.negatives, scale=beta, shift=base, plus_one=True
        )
        return push.div_(beta), far

    def both(part: Relations) -> tuple[Tensor, Tensor]:
        (pull, near), (push, far) = attraction(part), repulsion(part)
        return pull.add_(push), far.sub_(near).div_(similarity.shape[0])

    if repelled is None:
        with torch.no_grad():
            values, slope = in_row_blocks(relations, both)
            value = values.mean()
        return attach(similarity, value, slope)
    with torch.no_grad():
        pull, near = in_row_blocks(relations, attraction)
        push, far = in_row_blocks(relations._replace(similarity=repelled), repulsion)
        number = similarity.shape[0]
    return attach(similarity, pull.add_(push).mean(), near.div_(-number)) + attach(
        repelled, torch.zeros_like(pull[0, 0]), far.div_(number)
    )


@LOSSES.register("multi-similarity", paper="Wang et al., CVPR 2019")
class MultiSimilarityLoss(PairLoss):
    """Weighs each pair by its own similarity and by those of the anchor's other pairs.

    ``1/alpha log(1 + sum_P e^(-alpha (s - base))) + 1/beta log(1 + sum_N e^(beta (s - base)))``,
    mean over anchors. ``direction``: direction regularisation; a negative's ``s_an`` becomes
    ``s_an - direction * cos(x_p - x_a, x_n - x_a)``, p the anchor's least similar positive
    (Mohan et al., CVPR 2020).
    """

    additive = True
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
