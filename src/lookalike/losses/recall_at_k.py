"""The Recall@k surrogate: recall with sigmoids for its two comparisons."""

from collections.abc import Sequence

from torch import Tensor

from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import AnchorLoss, Terms
from lookalike.losses.similarity_mixup import drawn_partners, with_virtual_images
from lookalike.ops.pairs import listed_pairs
from lookalike.ops.soft_ranks import soft_ranks
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["RecallAtKLoss"]


@LOSSES.register("recall-at-k", paper="Patel et al., CVPR 2022")
class RecallAtKLoss(AnchorLoss):
    """One minus the share of positives among the first k, for several k.

    ``1 - 1/|K| sum_k min(k, sum_P sigmoid((k - rank_p) / k_temperature)) / min(k, |P|)`` with
    ``rank_p = 1 + sum_(j != p) sigmoid((s_j - s_p) / temperature)``, mean over the anchors that
    have a positive. Candidates are the other images of the batch; the paper's code ranks the
    anchor itself too, so that its k is ours plus 1. Made for batches of thousands
    (``train.accumulate``).

    Args:
        k_vals: The numbers of neighbours.
        temperature: Of the sigmoids that count who stands before a positive.
        k_temperature: Of the sigmoid that says whether a rank is within k; one for all k as in the
            paper, or one for each (its code: as many as k).
        mixup: Similarity mixup: so many virtual images for each image, each between it and a
            random one of its class. Needs the cosine, and all pairs of the batch.
    """

    k_vals: tuple[int, ...] = (1, 2, 4, 8, 16)
    temperature: float = 0.01
    k_temperature: float | tuple[float, ...] = 1
    mixup: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        if not self.k_vals or min(self.k_vals) < 1:
            raise BadInput(f"k_vals must be numbers from 1, not {self.k_vals}")
        given = self.k_temperature
        if isinstance(given, Sequence) and len(given) != len(self.k_vals):
            raise BadInput(f"k_temperature must be one number, or one for each k, not {given}")
        cosine = self.distance.is_inverted and self.distance.ordered_by_cosine
        if self.mixup and not cosine:
            raise BadInput(f"similarity mixup needs the cosine, not {self.distance}")

    def relations(
        self,
        embeddings: Tensor,
        labels: Labels | None,
        ref_emb: Tensor | None = None,
        ref_labels: Labels | None = None,
        itself: Tensor | None = None,
    ) -> Relations:
        """Images x images, with virtual images where ``mixup`` asks for them."""
        found = super().relations(embeddings, labels, ref_emb, ref_labels, itself)
        if not self.mixup:
            return found
        if not found.self_comparison:
            raise BadInput("similarity mixup compares the images of one batch; set mixup to 0")
        return with_virtual_images(found, *drawn_partners(found, self.mixup))

    def narrow(self, relations: Relations, mined: Relations) -> Relations:
        """All pairs, each anchor times its weight."""
        if self.mixup:
            raise BadInput("a miner knows no virtual images; set mixup to 0, or take no miner")
        return super().narrow(relations, mined)

    def terms(self, relations: Relations) -> Terms:
        """The formula, one value per anchor."""
        r, pairs = relations, listed_pairs(relations.positives)
        (rank,) = 1 + soft_ranks(r.similarity, [r.valid], pairs, self.temperature)
        k = rank.new_tensor(self.k_vals)
        softness = rank.new_tensor(self.k_temperature)
        inside = ((k - rank.unsqueeze(1)) / softness).sigmoid()
        number = r.positives.sum(1)
        found = number.new_zeros(len(number), len(k))
        found = found.index_add(0, pairs.rows, inside * pairs.weights.unsqueeze(1)).minimum(k)
        recall = found / number.unsqueeze(1).minimum(k).clamp_min(1e-30)
        some = number.sign()
        return Terms((1 - recall.mean(1)) * some, some)
