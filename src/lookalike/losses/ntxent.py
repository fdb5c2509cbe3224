"""Softmax over pairs: NT-Xent and its relatives."""

import math

from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from lookalike.distances import DotProductSimilarity, HyperbolicDistance, squared_l2
from lookalike.losses.base import PairLoss
from lookalike.miners.mined import anchor_weights, check_labels, distinct_pairs, named_pairs
from lookalike.ops.sums import log_sum_exp
from lookalike.reducers import AvgNonZeroReducer
from lookalike.reducers.base import Terms, listed_terms
from lookalike.registry import LOSSES
from lookalike.relations import Relations

__all__ = [
    "AngularLoss",
    "HyperbolicLoss",
    "InstanceLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "SupConLoss",
    "TupletMarginLoss",
]


def ntxent(r: Relations, temperature: float) -> Tensor:
    """``-log(e^(s_ap/t) / (e^(s_ap/t) + sum_N e^(s_an/t)))``, one value per positive pair."""
    push = log_sum_exp(r.similarity / temperature, r.negatives)
    pull = r.at_pairs(r.similarity) / temperature
    return -logsigmoid(pull - push.index_select(0, r.listed_pairs[0]))


def supcon(r: Relations, temperature: float) -> Tensor:
    """``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, one value per anchor."""
    logits = r.similarity / temperature
    total = log_sum_exp(logits, r.positives + r.negatives).unsqueeze(1)
    number = r.positive_counts.sum(1).clamp_min(1e-30)
    return ((total - logits) * r.positives).sum(1) / number


def tuplet_margin(r: Relations, margin: float, scale: float) -> Tensor:
    """``log(1 + sum_N e^(scale (cos t_an - cos(t_ap - margin))))``, one value per positive pair."""
    push = log_sum_exp(scale * r.similarity, r.negatives)
    # acos has no gradient at its ends; stay a hair inside
    angle = r.at_pairs(r.similarity).clamp(-1 + 1e-7, 1 - 1e-7).acos()
    eased = (angle - margin).cos()
    return softplus(push.index_select(0, r.listed_pairs[0]) - scale * eased)


def angular(r: Relations, between: Tensor, tan2: float | Tensor) -> Tensor:
    """``log(1 + sum_n e^(4 tan^2 (x_a + x_p).x_n - 2 (1 + tan^2) x_a.x_p))``, per positive pair.

    Of cosines. ``between`` are those of the candidates to one another.
    """
    anchor, positive = r.listed_pairs
    an_and_pn = r.similarity.index_select(0, anchor) + between.index_select(0, positive)
    push = log_sum_exp(4 * tan2 * an_and_pn, r.negatives.index_select(0, anchor))
    return softplus(push - 2 * (1 + tan2) * r.at_pairs(r.similarity))


def nca(r: Relations, scale: float) -> Tensor:
    """``-log(sum_P e^(scale s) / sum_(P and N) e^(scale s))``, one value per anchor."""
    logits = r.similarity * scale
    return log_sum_exp(logits, r.positives + r.negatives) - log_sum_exp(logits, r.positives)


def n_pairs(r: Relations) -> tuple[Tensor, Tensor]:
    """``-log(e^(s_ap) / sum_q e^(s_aq))`` over the positives q of all pairs, and which anchors.

    The anchors are those whose pair is the first of their class.
    """
    has_pair = (r.positives > 0).any(1)
    partner = (r.positives > 0).int().argmax(1)
    same_class = r.negatives.index_select(1, partner) == 0
    earlier = (same_class & has_pair).tril(-1).any(1)
    first = (has_pair & ~earlier).to(r.similarity.dtype)
    logits = r.similarity.index_select(1, partner)
    return log_sum_exp(logits, first.expand_as(logits)) - logits.diagonal(), first


@LOSSES.register(
    "ntxent",
    paper="Sohn, NeurIPS 2016; Chen et al., ICML 2020",
    url="https://arxiv.org/abs/2002.05709",
)
class NTXentLoss(PairLoss):
    """Each positive against the anchor's negatives, by softmax.

    ``-log(e^(s_ap/t) / (e^(s_ap/t) + sum_N e^(s_an/t)))``, mean over positive pairs. In the log
    domain: temperatures of 0.0002 are fine. An anchor without negatives gives 0.

    Args:
        temperature: Divides the similarities.
    """

    additive = True

    temperature: float = 0.07

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        return listed_terms(relations, ntxent(relations, self.temperature))


@LOSSES.register(
    "hyperbolic", paper="Ermolov et al., CVPR 2022", url="https://arxiv.org/abs/2203.10833"
)
class HyperbolicLoss(PairLoss):
    """Each positive against the anchor's negatives by softmax, by distances of the Poincare ball.

    ``-log(e^(-d_ap/t) / (e^(-d_ap/t) + sum_N e^(-d_an/t)))``, mean over positive pairs: NT-Xent
    with ``lookalike.distances.HyperbolicDistance``. With two images a class it is the paper's; of
    larger classes the paper's code takes two images at a time, here all negatives count. The
    distance reads lengths: train with ``model.normalize=false``.

    Args:
        temperature: Divides the distances.
        c: Minus the curvature of the space.
        clip_r: The longest that an embedding may be; None: as long as numbers allow.
    """

    additive = True
    default_distance = HyperbolicDistance

    temperature: float = 0.2
    c: float = 0.1
    clip_r: float | None = 2.3

    def __post_init__(self) -> None:
        if isinstance(self.distance, HyperbolicDistance):
            self.distance = HyperbolicDistance(self.c, self.clip_r)

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        return listed_terms(relations, ntxent(relations, self.temperature))


@LOSSES.register(
    "supcon", paper="Khosla et al., NeurIPS 2020", url="https://arxiv.org/abs/2004.11362"
)
class SupConLoss(PairLoss):
    """All positives of an anchor against all its candidates, by softmax.

    ``-1/|P| sum_P log(e^(s_ap/t) / sum_(P and N) e^(s/t))``, mean over the anchors above zero. A
    batch without any negative gives the positives' part alone (PML: 0).

    Args:
        temperature: Divides the similarities.
    """

    additive = True
    from_miner = distinct_pairs
    default_reducer = AvgNonZeroReducer

    temperature: float = 0.1

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        return Terms(supcon(relations, self.temperature))


@LOSSES.register(
    "tuplet-margin",
    paper="Yu and Tao, ICCV 2019",
    url="https://openaccess.thecvf.com/content_ICCV_2019/html/"
    "Yu_Deep_Metric_Learning_With_Tuplet_Margin_Loss_ICCV_2019_paper.html",
)
class TupletMarginLoss(PairLoss):
    """Each positive, its angle eased by a margin, against the anchor's negatives.

    ``log(1 + sum_N e^(scale (cos theta_an - cos(theta_ap - margin))))``, mean over positive pairs;
    ``margin`` in degrees.

    Args:
        margin: Taken off the angle to the positive, in degrees.
        scale: Of the cosines.
    """

    needs = "the cosine"

    margin: float = 5.73
    scale: float = 64

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        margin = self.margin * (math.pi / 180)
        return listed_terms(relations, tuplet_margin(relations, margin, self.scale))


@LOSSES.register("angular", paper="Wang et al., ICCV 2017", url="https://arxiv.org/abs/1708.01682")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative of each triplet.

    ``log(1 + sum_n e^(f_apn))`` with ``f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2 alpha)
    x_a.x_p``, mean over positive pairs, of unit vectors (PML leaves the negatives as they come,
    and takes all negatives even when a miner found some).

    Args:
        alpha: The bound on the angle, in degrees.
    """

    needs = "unit vectors (cosine or l2)"

    alpha: float = 40

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        cosine, between = relations.similarity, self.between_candidates(relations)
        if not self.distance.is_inverted:
            squared = self.distance.squared_euclidean
            cosine, between = 1 - squared(cosine) / 2, 1 - squared(between) / 2
        tan2 = math.tan(math.radians(self.alpha)) ** 2
        of_cosines = relations._replace(similarity=cosine)
        return listed_terms(relations, angular(of_cosines, between, tan2))


@LOSSES.register(
    "nca",
    paper="Goldberger et al., NeurIPS 2004",
    url="https://www.cs.toronto.edu/~hinton/absps/nca.pdf",
)
class NCALoss(PairLoss):
    """Minus the logarithm of the chance that a random near neighbour is of the anchor's class.

    ``-log(sum_P e^(-scale d^2) / sum_(P and N) e^(-scale d^2))``, mean over the anchors that have
    a positive.

    Args:
        softmax_scale: Multiplies the similarities.
    """

    additive = True
    from_miner = anchor_weights
    default_distance = squared_l2

    softmax_scale: float = 1

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        has_positive = (relations.positives > 0).any(1).to(relations.similarity.dtype)
        return Terms(nca(relations, self.softmax_scale) * has_positive, has_positive)


@LOSSES.register(
    "instance", paper="Zheng et al., TOMM 2020", url="https://arxiv.org/abs/1711.05535"
)
class InstanceLoss(PairLoss):
    """Every image of a batch is a class of its own, or of the images that share its label.

    ``-1/|C| sum_C log(e^(gamma s) / sum e^(gamma s))``, C the images of the anchor's class and the
    anchor itself, the sum over all images and the anchor; mean over anchors. The paper classifies
    images by a learned layer; this is a softmax over the batch, as PML's. (PML takes the number of
    the class for the place of an image; the two agree where every image is its own class.)

    Args:
        gamma: The scale of the cosines.
    """

    from_miner = anchor_weights
    needs = "the cosine"

    gamma: float = 64

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        return Terms(supcon(relations.with_self_pairs(), 1 / self.gamma))


def named_positives(r: Relations, mined: Relations) -> tuple[Relations, None]:
    """All negatives, and of the positive pairs those that the miner names."""
    check_labels(r)
    positive, _ = named_pairs(mined)
    return r.only(r.positives * positive.sign(), r.negatives), None


@LOSSES.register(
    "n-pairs",
    paper="Sohn, NeurIPS 2016",
    url="https://proceedings.neurips.cc/paper/2016/hash/6b180037abbebea991d8b1232f8a8ca9-Abstract.html",
)
class NPairsLoss(PairLoss):
    """Each class's positive against the positives of the other classes.

    One pair (a, p) a class, its first: ``-log(e^(s_ap) / sum_q e^(s_aq))`` over the positives q of
    all pairs, mean over pairs. The paper works on raw embeddings with a penalty on their length:
    ``distance="dot"``, ``embedding_regularizer={"name": "l2", "power": 2}``,
    ``embedding_reg_weight=0.02``.
    """

    default_distance = DotProductSimilarity
    from_miner = named_positives

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor; only the first pair of each class counts."""
        return Terms(*n_pairs(relations))
