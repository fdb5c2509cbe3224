"""Losses: what makes images of a class look alike."""

import importlib
from typing import Any

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
from lookalike.losses.dynamic_soft_margin import DynamicSoftMarginLoss
from lookalike.losses.fast_ap import FastAPLoss
from lookalike.losses.fixed import FixedPairsLoss, FixedTripletsLoss
from lookalike.losses.hist import HISTLoss
from lookalike.losses.histogram import HistogramLoss
from lookalike.losses.hyperbolic import HyperbolicLoss
from lookalike.losses.instance import InstanceLoss
from lookalike.losses.intra_pair_variance import IntraPairVarianceLoss
from lookalike.losses.lifted_structure import GeneralizedLiftedStructureLoss, LiftedStructureLoss
from lookalike.losses.manifold import ManifoldLoss
from lookalike.losses.margin import MarginLoss
from lookalike.losses.multi_similarity import MultiSimilarityLoss
from lookalike.losses.multiple import MultipleLosses
from lookalike.losses.n_pairs import NPairsLoss
from lookalike.losses.nca import NCALoss
from lookalike.losses.ntxent import NTXentLoss, SupConLoss
from lookalike.losses.p2s_grad import P2SGradLoss
from lookalike.losses.pml_base import BaseMetricLossFunction, GenericPairLoss
from lookalike.losses.pnp import PNPLoss
from lookalike.losses.proxy_anchor import ProxyAnchorLoss
from lookalike.losses.proxy_nca import ProxyNCALoss, ProxyNCAPlusPlusLoss
from lookalike.losses.proxy_to_proxy import ProxyToProxy1Loss, ProxyToProxy2Loss
from lookalike.losses.quadruplet import QuadrupletLoss
from lookalike.losses.ranked_list import RankedListLoss
from lookalike.losses.recall_at_k import RecallAtKLoss
from lookalike.losses.self_supervised import SelfSupervisedLoss
from lookalike.losses.smooth_ap import SmoothAPLoss
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
from lookalike.losses.threshold_consistent_margin import ThresholdConsistentMarginLoss
from lookalike.losses.triplet import TripletMarginLoss
from lookalike.losses.tuned import Tuned, tuned
from lookalike.losses.tuplet_margin import TupletMarginLoss
from lookalike.losses.vicreg import VICRegLoss
from lookalike.reducers import mean, mean_above_zero
from lookalike.registry import LOSSES

__all__ = [
    "AnchorLoss",
    "AngularLoss",
    "ArcFaceLoss",
    "BaseMetricLossFunction",
    "BinomialDevianceLoss",
    "CircleLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "DynamicSoftMarginLoss",
    "FastAPLoss",
    "FixedPairsLoss",
    "FixedTripletsLoss",
    "GeneralizedLiftedStructureLoss",
    "GenericPairLoss",
    "HISTLoss",
    "HistogramLoss",
    "HyperbolicLoss",
    "InstanceLoss",
    "IntraPairVarianceLoss",
    "LargeMarginSoftmaxLoss",
    "LiftedStructureLoss",
    "Loss",
    "ManifoldLoss",
    "MarginLoss",
    "MultiSimilarityLoss",
    "MultipleLosses",
    "NCALoss",
    "NPairsLoss",
    "NTXentLoss",
    "NormalizedSoftmaxLoss",
    "P2SGradLoss",
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
    "VICRegLoss",
    "create",
    "mean",
    "mean_above_zero",
    "names",
    "tuned",
]

create = LOSSES.create
names = LOSSES.names


def __getattr__(name: str) -> Any:
    """``CrossBatchMemory``, which PML has here; its room is above this one."""
    if name == "CrossBatchMemory":
        return importlib.import_module("lookalike.memory").CrossBatchMemory
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
