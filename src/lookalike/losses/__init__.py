"""Losses: what makes images of a class look alike."""

from lookalike.losses.base import Loss, PairLoss, ProxyLoss, Terms
from lookalike.losses.contrastive import (
    BinomialDevianceLoss,
    ContrastiveLoss,
    IntraPairVarianceLoss,
    SignalToNoiseRatioContrastiveLoss,
    ThresholdConsistentMarginLoss,
)
from lookalike.losses.hist import HISTLoss
from lookalike.losses.histogram import HistogramLoss
from lookalike.losses.lifted_structure import GeneralizedLiftedStructureLoss, LiftedStructureLoss
from lookalike.losses.margin import MarginLoss
from lookalike.losses.multi_similarity import CircleLoss, MultiSimilarityLoss
from lookalike.losses.ntxent import (
    AngularLoss,
    HyperbolicLoss,
    InstanceLoss,
    NCALoss,
    NPairsLoss,
    NTXentLoss,
    SupConLoss,
    TupletMarginLoss,
)
from lookalike.losses.proxy_anchor import ProxyAnchorLoss, ProxyToProxy1Loss, ProxyToProxy2Loss
from lookalike.losses.proxy_nca import ProxyNCALoss, ProxyNCAPlusPlusLoss
from lookalike.losses.quadruplet import QuadrupletLoss
from lookalike.losses.ranked_list import RankedListLoss
from lookalike.losses.ranking import FastAPLoss, PNPLoss, RecallAtKLoss, SmoothAPLoss
from lookalike.losses.soft_triple import SoftTripleLoss
from lookalike.losses.softmax import (
    ArcFaceLoss,
    CosFaceLoss,
    LargeMarginSoftmaxLoss,
    NormalizedSoftmaxLoss,
    SphereFaceLoss,
    SubCenterArcFaceLoss,
)
from lookalike.losses.supcr import SupCRLoss
from lookalike.losses.triplet import TripletMarginLoss
from lookalike.losses.tuned import Tuned, tuned
from lookalike.losses.wrappers import (
    FixedPairsLoss,
    FixedTripletsLoss,
    MultipleLosses,
    SelfSupervisedLoss,
)
from lookalike.reducers import mean, mean_above_zero
from lookalike.registry import LOSSES

__all__ = [
    "AngularLoss",
    "ArcFaceLoss",
    "BinomialDevianceLoss",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "FastAPLoss",
    "FixedPairsLoss",
    "FixedTripletsLoss",
    "GeneralizedLiftedStructureLoss",
    "HISTLoss",
    "HistogramLoss",
    "HyperbolicLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LargeMarginSoftmaxLoss",
    "LiftedStructureLoss",
    "Loss",
    "MarginLoss",
    "MultiSimilarityLoss",
    "MultipleLosses",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "PNPLoss",
    "PairLoss",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "ProxyNCALoss",
    "ProxyNCAPlusPlusLoss",
    "ProxyToProxy1Loss",
    "ProxyToProxy2Loss",
    "QuadrupletLoss",
    "RankedListLoss",
    "RecallAtKLoss",
    "SelfSupervisedLoss",
    "SignalToNoiseRatioContrastiveLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SphereFaceLoss",
    "SubCenterArcFaceLoss",
    "SupCRLoss",
    "SupConLoss",
    "Terms",
    "ThresholdConsistentMarginLoss",
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
