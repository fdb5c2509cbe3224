"""A supervised contrastive loss for continuous labels."""

import torch
from torch import Tensor

from lookalike.errors import BadInput
from lookalike.losses.base import PairLoss, Terms
from lookalike.relations import Relations

__all__ = ["SupCRLoss"]


class SupCRLoss(PairLoss):
    """Images as near as their labels are: for labels that are numbers, such as an age.

    ``-log(e^(s_ij/t) / sum_k e^(s_ik/t))`` over the images k whose labels are not nearer to that of
    i than the label of j is; mean over all ordered pairs (Zha et al., "Supervised contrastive
    regression" 2022, "Rank-N-Contrast" NeurIPS 2023). Labels are one number per image, or rows.

    Args:
        temperature: Divides the similarities.
    """

    temperature: float = 2.0

    def terms(self, relations: Relations) -> Terms:
        """One value per pair."""
        pairs = relations.positives + relations.negatives
        return Terms(rank_n_contrast(relations, self.temperature), pairs)


def rank_n_contrast(r: Relations, temperature: float) -> Tensor:
    """``-log(e^(s_ij/t) / sum_(k: |y_i - y_k| >= |y_i - y_j|) e^(s_ik/t))``, one value per pair."""
    if r.labels is None:
        raise BadInput("SupCRLoss needs labels")
    anchors = _as_rows(r.labels, r)
    candidates = anchors if r.ref_labels is None else _as_rows(r.ref_labels, r)
    gap = torch.cdist(anchors, candidates, p=1)
    gap = gap.masked_fill(r.positives + r.negatives == 0, -torch.inf)
    # candidates by how far their labels are, the farthest first; the sum over all as far or
    # farther is a running sum that ends with the last of those equally far
    order = gap.argsort(dim=1, descending=True)
    gap, logits = gap.gather(1, order), (r.similarity / temperature).gather(1, order)
    running = logits.masked_fill(gap == -torch.inf, -1e30).logcumsumexp(1)
    last = torch.searchsorted(-gap, -gap, right=True) - 1
    values = (running.gather(1, last) - logits).where(gap != -torch.inf, 0)
    return torch.zeros_like(values).scatter(1, order, values)


def _as_rows(labels: Tensor, r: Relations) -> Tensor:
    numbers = labels.to(r.similarity)
    return numbers.unsqueeze(1) if numbers.ndim == 1 else numbers
