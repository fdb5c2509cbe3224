"""From a configuration to the model that learns and the source that feeds it."""

import torch
from torch import Tensor

from lookalike import models
from lookalike.config import RunConfig
from lookalike.data import ImageSet, PixelStore, Preset, Subset
from lookalike.errors import BadInput
from lookalike.models import EmbeddingModel
from lookalike.training.batches import embed
from lookalike.training.features import Features, open_features
from lookalike.training.sources import Pixels, Source
from lookalike.training.watcher import Watcher

__all__ = ["build_model", "check_model", "frozen_features", "pixels_for", "start_head"]


def check_model(config: RunConfig) -> None:
    """Refuse what cannot go together before anything is read."""
    model = config.model
    still = model.freeze_backbone or config.optim.warmup_epochs
    if not model.dim and still and config.train.epochs and not model.frozen:
        raise BadInput("model.dim=0 has no head, so a backbone that stands still learns nothing")
    if config.optim.clip_value is not None and config.optim.clip_norm is not None:
        raise BadInput("optim.clip_value and optim.clip_norm exclude each other")
    if model.head_init != "random" and not model.dim:
        raise BadInput(f"model.head_init = {model.head_init!r} needs a head: model.dim above 0")
    if not model.frozen:
        return
    if not model.dim and config.train.epochs:
        raise BadInput("model.frozen=true with model.dim=0 leaves nothing to learn")
    if model.weights == "none":
        raise BadInput("model.frozen=true needs trained weights: model.weights=imagenet or a file")
    if model.pooling == "gem":
        raise BadInput("model.pooling=gem learns, so its features cannot be frozen")
    if config.mix is not None and config.mix.where == "input":
        raise BadInput("mix.where=input mixes pixels, and model.frozen=true has none")


def build_model(config: RunConfig, store: PixelStore) -> EmbeddingModel:
    """The network with its head, frozen and laid out as the configuration says."""
    wanted = config.model
    model = models.build(
        wanted.network,
        weights=wanted.weights,
        dim=wanted.dim,
        pooling=wanted.pooling,
        layer_norm=wanted.layer_norm,
        normalize=wanted.normalize,
        channels=1 if store.shapes[0, 2] == 1 and wanted.weights == "none" else 3,
    )
    model.freeze(
        bn_statistics=wanted.freeze_bn_statistics,
        bn_affine=wanted.freeze_bn_affine,
        backbone=wanted.freeze_backbone or wanted.frozen,
    )
    model.to(memory_format=layout_of(config))
    return model


def pixels_for(
    config: RunConfig, model: EmbeddingModel, store: PixelStore, preset: Preset
) -> Pixels:
    """Images as ``model`` wants them."""
    return Pixels(store, preset, model.normalisation, layout_of(config))


def layout_of(config: RunConfig) -> torch.memory_format:
    """The order of the numbers of a batch in memory."""
    return torch.channels_last if config.train.channels_last else torch.contiguous_format


def frozen_features(
    config: RunConfig, model: EmbeddingModel, pixels: Pixels, images: ImageSet, watcher: Watcher
) -> Features:
    """The features of all images by a network that does not learn."""
    wanted = config.model
    return open_features(
        model,
        pixels,
        images,
        identity={
            "network": wanted.network,
            "weights": models.fingerprint(wanted.network, wanted.weights),
            "pooling": wanted.pooling,
        },
        views=wanted.frozen_views,
        progress=lambda done, total: watcher.stage("computing features", done, total),
    )


def start_head(config: RunConfig, model: EmbeddingModel, subset: Subset, source: Source) -> None:
    """Start the head from the training images, if the configuration says so."""
    wanted = config.model
    if wanted.head_init == "random":
        return
    features: Tensor = embed(
        model.without_linear(), subset, source, batch_size=config.train.eval_batch_size
    )
    if wanted.head_init == "pca":
        model.head.start_from(*models.pca(features, wanted.dim))
    else:
        labels = torch.from_numpy(subset.labels)
        model.head.start_from(*models.lda(features, labels, wanted.dim, wanted.head_shrink))
