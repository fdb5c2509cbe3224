"""Softmax over pairs: NT-Xent and its relatives."""

import math

from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from lookalike.distances import DotProductSimilarity, HyperbolicDistance, squared_l2
from lookalike.losses.base import PairLoss, Terms, of_listed_pairs
from lookalike.miners.mined import named_pairs
from lookalike.ops.sums import log_sum_exp
from lookalike.reducers import AvgNonZeroReducer
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
    pull = r.of_pairs(r.similarity) / temperature
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
    angle = r.of_pairs(r.similarity).clamp(-1 + 1e-7, 1 - 1e-7).acos()
    eased = (angle - margin).cos()
    return softplus(push.index_select(0, r.listed_pairs[0]) - scale * eased)


def angular(r: Relations, between: Tensor, tan2: float | Tensor) -> Tensor:
    """``log(1 + sum_n e^(4 tan^2 (x_a + x_p).x_n - 2 (1 + tan^2) x_a.x_p))``, per positive pair.

    Of cosines. ``between`` are those of the candidates to one another.
    """
    anchor, positive = r.listed_pairs
    an_and_pn = r.similarity.index_select(0, anchor) + between.index_select(0, positive)
    push = log_sum_exp(4 * tan2 * an_and_pn, r.negatives.index_select(0, anchor))
    return softplus(push - 2 * (1 + tan2) * r.of_pairs(r.similarity))


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
    reads = "pairs"

    temperature: float = 0.07

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        return of_listed_pairs(relations, ntxent(relations, self.temperature))


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
    reads = "pairs"
    default_distance = HyperbolicDistance

    temperature: float = 0.2
    c: float = 0.1
    clip_r: float | None = 2.3

    def __post_init__(self) -> None:
        if isinstance(self.distance, HyperbolicDistance):
            self.distance = HyperbolicDistance(self.c, self.clip_r)

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        return of_listed_pairs(relations, ntxent(relations, self.temperature))


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
    weight_repeated_pairs = False
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

    reads = "pairs"
    needs = "the cosine"

    margin: float = 5.73
    scale: float = 64

    def terms(self, relations: Relations) -> Terms:
        """One value per positive pair."""
        margin = self.margin * (math.pi / 180)
        return of_listed_pairs(relations, tuplet_margin(relations, margin, self.scale))


@LOSSES.register("angular", paper="Wang et al., ICCV 2017", url="https://arxiv.org/abs/1708.01682")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative of each triplet.

    ``log(1 + sum_n e^(f_apn))`` with ``f = 4 tan^2(alpha) (x_a + x_p).x_n - 2 (1 + tan^2 alpha)
    x_a.x_p``, mean over positive pairs, of unit vectors (PML leaves the negatives as they come,
    and takes all negatives even when a miner found some).

    Args:
        alpha: The bound on the angle, in degrees.
    """

    reads = "pairs"
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
        return of_listed_pairs(relations, angular(of_cosines, between, tan2))


@LOSSES.register("nca", paper="Goldberger et al., NeurIPS 2004")
class NCALoss(PairLoss):
    """Minus the logarithm of the chance that a random near neighbour is of the anchor's class.

    ``-log(sum_P e^(-scale d^2) / sum_(P and N) e^(-scale d^2))``, mean over the anchors that have
    a positive.

    Args:
        softmax_scale: Multiplies the similarities.
    """

    additive = True
    needs_labels = True
    weighs_anchors = True
    default_distance = squared_l2

    softmax_scale: float = 1

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        r, logits = relations, relations.similarity * self.softmax_scale
        near = log_sum_exp(logits, r.positives)
        everything = log_sum_exp(logits, r.positives + r.negatives)
        some = (r.positives > 0).any(1).to(logits.dtype)
        return Terms((everything - near) * some, some)


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

    needs_labels = True
    weighs_anchors = True
    needs = "the cosine"

    gamma: float = 64

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor."""
        return Terms(supcon(relations.with_self_pairs(), 1 / self.gamma))


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

    needs_labels = True
    default_distance = DotProductSimilarity

    def narrow(
        self, relations: Relations, mined: Relations | None
    ) -> tuple[Relations, Tensor | None]:
        """The positive pairs that the miner chose (of each class the first, in order of index)."""
        if mined is None:
            return relations, None
        positive, _ = named_pairs(mined)
        chosen = relations.positives * positive.clamp_max(1)
        return relations.only(chosen, relations.negatives), None

    def terms(self, relations: Relations) -> Terms:
        """One value per anchor; only the first pair of each class counts."""
        r = relations
        has_pair = (r.positives > 0).any(1)
        partner = (r.positives > 0).int().argmax(1)
        # an anchor is the first of its class if no earlier one that has a pair is of its class
        same_class = r.negatives.index_select(1, partner) == 0
        earlier = (same_class & has_pair).tril(-1).any(1)
        first = (has_pair & ~earlier).to(r.similarity.dtype)
        logits = r.similarity.index_select(1, partner)  # of each anchor to the partners of all
        total = log_sum_exp(logits, first.expand_as(logits))
        return Terms(total - logits.diagonal(), first)
