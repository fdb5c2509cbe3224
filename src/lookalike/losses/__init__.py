"""Losses: what makes images of a class look alike."""

from lookalike.losses.angular import AngularLoss
from lookalike.losses.base import (
    AnchorLoss,
    Loss,
    PairLoss,
    ProxyLoss,
    Terms,
)
from lookalike.losses.binomial_deviance import BinomialDevianceLoss
from lookalike.losses.circle import CircleLoss
from lookalike.losses.contrastive import ContrastiveLoss, SignalToNoiseRatioContrastiveLoss
from lookalike.losses.fast_ap import FastAPLoss
from lookalike.losses.histogram import HistogramLoss
from lookalike.losses.intra_pair_variance import IntraPairVarianceLoss
from lookalike.losses.lifted_structure import GeneralizedLiftedStructureLoss, LiftedStructureLoss
from lookalike.losses.margin import MarginLoss
from lookalike.losses.multi_similarity import MultiSimilarityLoss
from lookalike.losses.n_pairs import NPairsLoss
from lookalike.losses.nca import NCALoss
from lookalike.losses.ntxent import NTXentLoss, SupConLoss
from lookalike.losses.proxy_anchor import ProxyAnchorLoss
from lookalike.losses.proxy_nca import ProxyNCALoss, ProxyNCAPlusPlusLoss
from lookalike.losses.proxy_to_proxy import ProxyToProxy1Loss, ProxyToProxy2Loss
from lookalike.losses.quadruplet import QuadrupletLoss
from lookalike.losses.ranked_list import RankedListLoss
from lookalike.losses.smooth_ap import SmoothAPLoss
from lookalike.losses.soft_triple import SoftTripleLoss
from lookalike.losses.softmax import (
    ArcFaceLoss,
    CosFaceLoss,
    NormalizedSoftmaxLoss,
    SphereFaceLoss,
    SubCenterArcFaceLoss,
)
from lookalike.losses.triplet import TripletMarginLoss
from lookalike.losses.tuned import Tuned, tuned
from lookalike.losses.tuplet_margin import TupletMarginLoss
from lookalike.reducers import mean, mean_above_zero
from lookalike.registry import LOSSES

__all__ = [
    "AnchorLoss",
    "AngularLoss",
    "ArcFaceLoss",
    "BinomialDevianceLoss",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "FastAPLoss",
    "GeneralizedLiftedStructureLoss",
    "HistogramLoss",
    "IntraPairVarianceLoss",
    "LiftedStructureLoss",
    "Loss",
    "MarginLoss",
    "MultiSimilarityLoss",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "PairLoss",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "ProxyNCALoss",
    "ProxyNCAPlusPlusLoss",
    "ProxyToProxy1Loss",
    "ProxyToProxy2Loss",
    "QuadrupletLoss",
    "RankedListLoss",
    "SignalToNoiseRatioContrastiveLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "Terms",
    "TripletMarginLoss",
    "Tuned",
    "TupletMarginLoss",
    "create",
    "mean",
    "mean_above_zero",
    "names",
    "tuned",
]

create = LOSSES.create
names = LOSSES.names
