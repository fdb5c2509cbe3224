"""Losses: what makes images of a class look alike."""

from lookalike.losses.base import Loss, PairLoss, ProxyLoss
from lookalike.losses.contrastive import ContrastiveLoss
from lookalike.losses.multi_similarity import MultiSimilarityLoss
from lookalike.losses.proxy_anchor import ProxyAnchorLoss
from lookalike.losses.triplet import TripletMarginLoss
from lookalike.registry import LOSSES

__all__ = [
    "ContrastiveLoss",
    "Loss",
    "MultiSimilarityLoss",
    "PairLoss",
    "ProxyAnchorLoss",
    "ProxyLoss",
    "TripletMarginLoss",
    "create",
    "names",
]

create = LOSSES.create
names = LOSSES.names
