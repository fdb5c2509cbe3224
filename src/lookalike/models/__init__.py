"""Networks: backbones by name, pooling, head, freezing, weights.

>>> model = build("small-cnn", dim=64, channels=1)
>>> model.dim, model.normalisation.channels
(64, 1)
"""

from lookalike.models.backbone import Backbone, OwnPooling
from lookalike.models.cut_backbone import CutBackbone
from lookalike.models.embedding import EmbeddingModel
from lookalike.models.factory import (
    build,
    check_network,
    describe,
    feature_width,
    fingerprint,
    names,
    require_weights,
)
from lookalike.models.head import POOLINGS, Head, l2_normalise
from lookalike.models.head_init import SHRINKS, Discriminants, choose_shrink, lda, pca
from lookalike.models.inputs import preset_of, transform_as_keys
from lookalike.models.own_networks import BNInception, small_cnn

__all__ = [
    "POOLINGS",
    "SHRINKS",
    "BNInception",
    "Backbone",
    "CutBackbone",
    "Discriminants",
    "EmbeddingModel",
    "Head",
    "OwnPooling",
    "build",
    "check_network",
    "choose_shrink",
    "describe",
    "feature_width",
    "fingerprint",
    "l2_normalise",
    "lda",
    "names",
    "pca",
    "preset_of",
    "require_weights",
    "small_cnn",
    "transform_as_keys",
]
