"""Losses that judge each pair by itself: contrastive and its relatives."""

from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

from lookalike.distances import LpDistance, SNRDistance
from lookalike.losses.base import PairLoss
from lookalike.reducers import AvgNonZeroReducer, MeanReducer, mean
from lookalike.reducers.base import Terms, negative_terms, positive_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = [
    "BinomialDevianceLoss",
    "ContrastiveLoss",
    "IntraPairVarianceLoss",
    "SignalToNoiseRatioContrastiveLoss",
    "ThresholdConsistentMarginLoss",
]


def contrastive(r: Relations, pull_to: float, push_to: float) -> tuple[Terms, Terms]:
    """``[pull_to - s]+`` of positives and ``[s - push_to]+`` of negatives, one value per pair."""
    pull = (pull_to - r.similarity).relu()
    push = (r.similarity - push_to).relu()
    return positive_terms(r, pull), negative_terms(r, push)


def linear_contrastive(r: Relations, push_to: float) -> Tensor:
    """``sum_N [s - push_to]+ - sum_P s``, one value per anchor."""
    pull = (r.similarity * r.positives).sum(1)
    push = ((r.similarity - push_to).relu() * r.negatives).sum(1)
    return push - pull


def threshold_consistent_margin(
    r: Relations, margin_plus: float, margin_minus: float, lambda_plus: float, lambda_minus: float
) -> tuple[Terms, Terms]:
    """``lambda_plus [margin_plus - s]+`` of positives, ``lambda_minus [s - margin_minus]+``."""
    pull, push = contrastive(r, margin_plus, margin_minus)
    return (
        pull._replace(values=lambda_plus * pull.values),
        push._replace(values=lambda_minus * push.values),
    )


def binomial_deviance(r: Relations, alpha: float, beta: float, cost: float) -> tuple[Terms, Terms]:
    """``log(1 + e^(-alpha (s - beta)))`` of positives, ``log(1 + e^(alpha cost (s - beta)))``."""
    beyond = alpha * (r.similarity - beta)
    return positive_terms(r, softplus(-beyond)), negative_terms(r, softplus(cost * beyond))


def intra_pair_variance(r: Relations, least: float, most: float) -> tuple[Terms, Terms]:
    """``[least mean_P s - s]+^2`` of positives, ``[s - most mean_N s]+^2`` of negatives."""
    usual = mean(Terms(r.similarity, r.positives)) * least
    rare = mean(Terms(r.similarity, r.negatives)) * most
    pull = (usual - r.similarity).relu().square()
    push = (r.similarity - rare).relu().square()
    return positive_terms(r, pull), negative_terms(r, push)


@LOSSES.register(
    "contrastive",
    paper="Hadsell et al., CVPR 2006",
    url="http://yann.lecun.com/exdb/publis/pdf/hadsell-chopra-lecun-06.pdf",
)
class ContrastiveLoss(PairLoss):
    """Pulls positives within one margin and pushes negatives beyond another.

    ``on="distance"`` (default): ``mean [d - pos_margin]+ over P + mean [neg_margin - d]+ over N``,
    each mean over the non-zero terms; with a similarity as ``distance`` the signs turn. A label
    between 0 and 1 weighs its term, not the number of terms. The paper squares both terms; this is
    the linear form that PML and the later comparisons use.
    ``on="similarity"``: per anchor ``sum_N [s - neg_margin]+ - sum_P s`` of cosines, mean over
    anchors; ``pos_margin`` is not used, and the distance is the cosine unless one other than
    the default is given.

    Args:
        pos_margin: Positives within it have no loss.
        neg_margin: Negatives beyond it have no loss.
        on: Whether margins are distances or similarities.
    """

    additive = True
    default_distance = LpDistance
    default_reducer = AvgNonZeroReducer

    pos_margin: float = 0
    neg_margin: float = 1
    on: Literal["distance", "similarity"] = "distance"

    def __post_init__(self) -> None:
        if self.on == "similarity":
            if self.distance == LpDistance():
                self.distance = "cosine"
            if self.reducer == AvgNonZeroReducer():
                self.reducer = MeanReducer()

    def terms(self, relations: Relations) -> Terms | tuple[Terms, ...]:
        """One value per positive and one per negative pair; on similarities one per anchor."""
        to_similarity = self.distance.to_similarity
        push_to = to_similarity(self.neg_margin)
        if self.on == "similarity":
            return Terms(linear_contrastive(relations, push_to))
        return contrastive(relations, to_similarity(self.pos_margin), push_to)


@LOSSES.register(
    "snr-contrastive", paper="Yuan et al., CVPR 2019", url="https://arxiv.org/abs/1904.02616"
)
class SignalToNoiseRatioContrastiveLoss(PairLoss):
    """The contrastive loss on the signal-to-noise distance ``var(x - y) / var(x)``.

    ``mean [d - pos_margin]+ over P + mean [neg_margin - d]+ over N``, each mean over the non-zero
    terms. The paper adds a penalty on the sums of the embeddings:
    ``embedding_regularizer="zero-mean"``.

    Args:
        pos_margin: Positives within it have no loss.
        neg_margin: Negatives beyond it have no loss.
    """

    additive = True
    default_distance = SNRDistance
    default_reducer = AvgNonZeroReducer

    pos_margin: float = 0
    neg_margin: float = 1

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per positive and one per negative pair."""
        to_similarity = self.distance.to_similarity
        ends = to_similarity(self.pos_margin), to_similarity(self.neg_margin)
        return contrastive(relations, *ends)


@LOSSES.register(
    "threshold-consistent-margin",
    paper="Zhang et al., ICLR 2024",
    url="https://arxiv.org/abs/2307.04047",
)
class ThresholdConsistentMarginLoss(PairLoss):
    """One threshold for all classes: only the hard pairs are pulled and pushed to two cosines.

    ``lambda_plus mean_(P, s <= margin_plus) (margin_plus - s)
    + lambda_minus mean_(N, s >= margin_minus) (s - margin_minus)``; used beside another loss.

    Args:
        lambda_plus: The weight of the positives' part.
        lambda_minus: The weight of the negatives' part.
        margin_plus: Positives below it count.
        margin_minus: Negatives above it count.
    """

    needs = "the cosine"
    default_reducer = AvgNonZeroReducer

    lambda_plus: float = 1.0
    lambda_minus: float = 1.0
    margin_plus: float = 0.9
    margin_minus: float = 0.5

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per positive and one per negative pair."""
        margins = self.margin_plus, self.margin_minus
        return threshold_consistent_margin(relations, *margins, self.lambda_plus, self.lambda_minus)


@LOSSES.register(
    "binomial-deviance", paper="Yi et al., ICPR 2014", url="https://arxiv.org/abs/1407.4979"
)
class BinomialDevianceLoss(PairLoss):
    """A soft contrastive loss on cosines, negatives weighted by a cost.

    ``mean_P log(1 + e^(-alpha (s - beta))) + mean_N log(1 + e^(alpha cost (s - beta)))``.

    Args:
        alpha: Steepness for positives.
        beta: The similarity where the loss turns.
        cost: Steepness for negatives, relative to positives.
    """

    additive = True

    alpha: float = 2
    beta: float = 0.5
    cost: float = 25

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per positive and one per negative pair."""
        beta = self.distance.to_similarity(self.beta)
        return binomial_deviance(relations, self.alpha, beta, self.cost)


@LOSSES.register(
    "intra-pair-variance",
    paper="Yu and Tao, ICCV 2019",
    url="https://openaccess.thecvf.com/content_ICCV_2019/html/"
    "Yu_Deep_Metric_Learning_With_Tuplet_Margin_Loss_ICCV_2019_paper.html",
)
class IntraPairVarianceLoss(PairLoss):
    """Positives alike among themselves, and negatives too; used beside another loss.

    ``mean_P [(1 - pos_eps) mean s - s]+^2 + mean_N [s - (1 + neg_eps) mean s]+^2``, the means over
    all positive, or negative, pairs. With a distance the roles of ``1 - eps`` and ``1 + eps`` turn.

    Args:
        pos_eps: Relative slack below the mean of the positives.
        neg_eps: Relative slack above the mean of the negatives.
    """

    pos_eps: float = 0.01
    neg_eps: float = 0.01

    def terms(self, relations: Relations) -> tuple[Terms, Terms]:
        """One value per positive and one per negative pair."""
        sign = 1 if self.distance.is_inverted else -1
        ends = 1 - sign * self.pos_eps, 1 + sign * self.neg_eps
        return intra_pair_variance(relations, *ends)
