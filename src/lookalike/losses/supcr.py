"""A supervised contrastive loss for continuous labels."""

import torch

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

    needs_labels = True

    temperature: float = 2.0

    def terms(self, relations: Relations) -> Terms:
        """One value per pair."""
        r = relations
        if r.labels is None:
            raise BadInput("SupCRLoss needs labels")
        own = _columns(r.labels, r)
        others = own if r.ref_labels is None else _columns(r.ref_labels, r)
        apart = torch.cdist(own, others, p=1)
        logits = r.similarity / self.temperature
        # candidates by how far their labels are, the farthest first; the sum over all as far or
        # farther is a running sum that ends with the last of those equally far
        pairs = r.positives + r.negatives
        far = apart.masked_fill(pairs == 0, -torch.inf)
        order = far.argsort(dim=1, descending=True)
        far, ranked = far.gather(1, order), logits.gather(1, order)
        running = ranked.masked_fill(far == -torch.inf, -1e30).logcumsumexp(1)
        last = torch.searchsorted(-far, -far, right=True) - 1
        values = (running.gather(1, last) - ranked).where(far != -torch.inf, 0)
        return Terms(torch.zeros_like(values).scatter(1, order, values), pairs)


def _columns(labels: torch.Tensor, relations: Relations) -> torch.Tensor:
    numbers = labels.to(relations.similarity)
    return numbers.unsqueeze(1) if numbers.ndim == 1 else numbers
