"""Losses of rankings: average precision, recall and what stands before each positive."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lookalike.distances import Distance, squared_l2
from lookalike.errors import BadInput
from lookalike.labels import Labels
from lookalike.losses.base import PairLoss, Terms
from lookalike.miners.mined import anchor_weights
from lookalike.ops.blocks import in_blocks
from lookalike.ops.sums import soft_histogram
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = ["FastAPLoss", "PNPLoss", "RecallAtKLoss", "SmoothAPLoss"]


def smooth_ap(r: Relations, temperature: float) -> Tensor:
    """``1 - 1/|P| sum_P rank_P(p) / rank(p)``, one value per anchor; 0 without a positive."""
    rank_in_class, rank = 1 + soft_ranks(r, [r.positives, r.positives + r.negatives], temperature)
    number = r.positives.sum(1)
    precision = sum_of_pairs(r, r.at_pairs(r.positives) * rank_in_class / rank)
    return number.sign() - precision / number.clamp_min(1e-30)


def pnp(r: Relations, temperature: float, penalty: Callable[[Tensor], Tensor]) -> Tensor:
    """``1/|P| sum_P f(sum_N sigmoid((s_n - s_p) / t))``, one value per anchor."""
    (rank,) = soft_ranks(r, [r.negatives], temperature)
    total = sum_of_pairs(r, r.at_pairs(r.positives) * penalty(rank))
    return total / r.positive_counts.sum(1).clamp_min(1e-30)


def recall_at_k(
    r: Relations,
    k_vals: Sequence[int],
    temperature: float,
    k_temperature: float | tuple[float, ...],
) -> Tensor:
    """``1/|K| sum_k min(k, sum_P sigmoid((k - rank_p) / t_k)) / min(k, |P|)``, per anchor."""
    (before,) = soft_ranks(r, [r.positives + r.negatives], temperature)
    k, softness = before.new_tensor(k_vals), before.new_tensor(k_temperature)
    inside = ((k - 1 - before.unsqueeze(1)) / softness).sigmoid()
    hits = sum_of_pairs(r, inside * r.at_pairs(r.positives).unsqueeze(1)).minimum(k)
    possible = r.positives.sum(1, keepdim=True).minimum(k)
    return (hits / possible.clamp_min(1e-30)).mean(1)


def fast_ap(r: Relations, bins: int, farthest: float) -> Tensor:
    """``1/|P| sum_k h^+_k H^+_k / H_k`` of histograms of distances, one value per anchor."""
    position = -r.similarity * (bins / farthest)
    relevant = soft_histogram(position, r.positives, bins)
    everything = soft_histogram(position, r.positives + r.negatives, bins)
    precision = relevant.cumsum(1) / everything.cumsum(1).clamp_min(1e-30)
    return (relevant * precision).sum(1) / r.positives.sum(1).clamp_min(1e-30)


def soft_ranks(r: Relations, weights: Sequence[Tensor], temperature: float) -> Tensor:
    """``sum_(k != p) w_ak sigmoid((s_ak - s_ap) / temperature)`` of each positive pair (a, p).

    How many candidates stand before p: [weights, pairs], a row for each matrix of weights.

    >>> s, ones = torch.tensor([[0.9, 0.5, 0.1]]), torch.ones(1, 3)
    >>> soft_ranks(Relations(s, ones, 0 * ones), [ones], 0.01).round()
    tensor([[0., 1., 2.]])
    """
    anchor, positive = r.listed_pairs

    def before(similarity: Tensor, anchor: Tensor, positive: Tensor) -> Tensor:
        rows = similarity.index_select(0, anchor)
        near = rows.gather(1, positive.unsqueeze(1))
        above = torch.sigmoid((rows - near) / temperature).scatter(1, positive.unsqueeze(1), 0)
        return torch.stack([(above * w.index_select(0, anchor)).sum(1) for w in weights], 1)

    return in_blocks(before, r.similarity, anchor, positive, columns=r.similarity.shape[1]).T


def sum_of_pairs(r: Relations, values: Tensor) -> Tensor:
    """The sum of the values [pairs, ...] of each anchor's positive pairs."""
    zeros = values.new_zeros(len(r.similarity), *values.shape[1:])
    return zeros.index_add(0, r.listed_pairs[0], values)


@LOSSES.register(
    "smooth-ap", paper="Brown et al., ECCV 2020", url="https://arxiv.org/abs/2007.12163"
)
class SmoothAPLoss(PairLoss):
    """One minus average precision, ranks counted by sigmoids.

    ``rank(j) = 1 + sum_(k != j) sigmoid((s_k - s_j) / temperature)``; the precision at a positive
    is its rank among the positives over its rank among all. An image is a positive of its own, as
    in the paper's code. Classes of any size and order (PML asks for equal classes, and is right
    only when images a class equal the number of classes). Mean over anchors.

    Args:
        temperature: Divides the differences of similarities.
    """

    from_miner = anchor_weights

    temperature: float = 0.01

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        r = relations.with_self_pairs()
        return Terms(smooth_ap(r, self.temperature))


@LOSSES.register("pnp", paper="Li et al., AAAI 2022", url="https://arxiv.org/abs/2102.04640")
class PNPLoss(PairLoss):
    """How many negatives stand before each positive in the ranking of an anchor.

    ``R = sum_N sigmoid((s_n - s_p) / anneal)``, the mean of f(R) over the anchor's positives and
    the anchor itself, then over the anchors that have a positive. f is R (``O``), ``log(1 + R)``
    (``Ds``), ``1 - (1 + R)^-alpha`` (``Dq``), ``(1 + R) log(1 + R)`` (``Iu``) or
    ``(b R - log(1 + b R)) / b^2`` (``Ib``).

    Args:
        b: Of the variant ``Ib``.
        alpha: Of the variant ``Dq``.
        anneal: The temperature of the sigmoids.
        variant: Which function of R.
    """

    VARIANTS: ClassVar[list[str]] = ["Ds", "Dq", "Iu", "Ib", "O"]
    from_miner = anchor_weights
    needs = "the cosine"

    b: float = 2
    alpha: float = 1
    anneal: float = 0.01
    variant: Literal["Ds", "Dq", "Iu", "Ib", "O"] = "O"

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        values = pnp(relations.with_self_pairs(), self.anneal, self.penalty)
        has_positive = (relations.positives > 0).any(1)
        return Terms(values, has_positive.to(values.dtype))

    def penalty(self, rank: Tensor) -> Tensor:
        """f(R)."""
        match self.variant:
            case "Ds":
                return rank.log1p()
            case "Dq":
                return 1 - (1 + rank) ** -self.alpha
            case "Iu":
                return (1 + rank) * rank.log1p()
            case "Ib":
                return (self.b * rank - (self.b * rank).log1p()) / self.b**2
        return rank


@LOSSES.register(
    "recall-at-k", paper="Patel et al., CVPR 2022", url="https://arxiv.org/abs/2108.11179"
)
class RecallAtKLoss(PairLoss):
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

    from_miner = anchor_weights

    k_vals: tuple[int, ...] = (1, 2, 4, 8, 16)
    temperature: float = 0.01
    k_temperature: float | tuple[float, ...] = 1
    mixup: int = 0

    def __post_init__(self) -> None:
        """Check the settings."""
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
        *,
        own: Tensor | None = None,
    ) -> Relations:
        """Images x images, with virtual ones where ``mixup`` asks for them."""
        r = super().relations(embeddings, labels, ref_emb, ref_labels, own=own)
        if not self.mixup:
            return r
        if not r.self_comparison:
            raise BadInput("similarity mixup compares the images of one batch; set mixup to 0")
        return with_virtual_images(r, *drawn_partners(r, self.mixup))

    def image_relations(self, relations: Relations, distance: Distance) -> Relations:
        """As of any loss; a miner knows no virtual images."""
        if self.mixup:
            raise BadInput("a miner knows no virtual images; set mixup to 0, or take no miner")
        return super().image_relations(relations, distance)

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        recall = recall_at_k(relations, self.k_vals, self.temperature, self.k_temperature)
        has_positive = relations.positives.sum(1).sign()
        return Terms((1 - recall) * has_positive, has_positive)


def drawn_partners(relations: Relations, times: int) -> tuple[Tensor, Tensor]:
    """For each image, ``times`` over: another image of its class, and the share of the image.

    An image without another of its class is its own partner. Drawn on the CPU for any device.
    """
    positive = relations.positives > 0
    number = positive.sum(1).repeat(times)
    draws, shares = torch.rand(2, len(number)).to(relations.similarity, non_blocking=True)
    chosen = (draws * number).long().minimum((number - 1).clamp_min(0))
    upto = positive.cumsum(1).repeat(times, 1)
    partner = (upto <= chosen.unsqueeze(1)).sum(1)  # the place of the chosen positive
    own = torch.arange(len(positive), device=positive.device).repeat(times)
    return torch.where(number > 0, partner, own), shares


def with_virtual_images(relations: Relations, partner: Tensor, share: Tensor) -> Relations:
    """Images and virtual images against one another (SiMix of Patel et al., CVPR 2022).

    Virtual image v is ``share x_i + (1 - share) x_partner`` with i = v modulo the batch, not
    brought to unit length, so its similarities are the same mix of similarities. It has the class
    of i; one whose partner is i itself is left out.
    """
    r, size = relations, len(relations.similarity)
    image = torch.arange(size, device=partner.device)
    first = image.repeat(len(partner) // size)

    def mixed(rows: Tensor) -> Tensor:
        one, other = rows.index_select(0, first), rows.index_select(0, partner)
        return torch.lerp(other, one, share.unsqueeze(1))

    half = torch.cat([r.similarity, mixed(r.similarity)])
    owner = torch.cat([image, first])
    there = torch.cat([torch.ones_like(image), partner != first]).to(r.similarity.dtype)
    pairs = torch.outer(there, there).fill_diagonal_(0)
    same = r.positives.clone().fill_diagonal_(1)  # an image and its mixes are of one class
    same = same.index_select(0, owner).index_select(1, owner)
    return Relations(
        torch.cat([half, mixed(half.T).T], 1),
        same * pairs,
        (1 - same) * pairs,
        None if r.share is None else same,
        r.embeddings,
        None if r.labels is None else r.labels.index_select(0, owner),
    )


@LOSSES.register(
    "fast-ap",
    paper="Cakir et al., CVPR 2019",
    url="https://openaccess.thecvf.com/content_CVPR_2019/html/"
    "Cakir_Deep_Metric_Learning_to_Rank_CVPR_2019_paper.html",
)
class FastAPLoss(PairLoss):
    """One minus average precision, the ranking cut into bins of distance.

    ``1 - 1/|P| sum_k h^+_k H^+_k / H_k``: h and H are soft histograms of squared distances and
    their running sums, over ``num_bins`` bins on [0, 4]. Mean over anchors that have a positive.

    Args:
        num_bins: Bins of the histogram of distances.
    """

    from_miner = anchor_weights
    default_distance = squared_l2
    needs = "distances of unit vectors (l2 or l2-squared)"

    num_bins: int = 10

    def __post_init__(self) -> None:
        self.num_bins = int(self.num_bins)

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        precision = fast_ap(relations, self.num_bins, 2**self.distance.power)
        has_positive = relations.positives.sum(1).sign()
        return Terms(has_positive - precision, has_positive)
