"""From a configuration to its data, the model that learns, and the source of its inputs."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from lightning_fabric import Fabric, seed_everything
from pydantic import BaseModel
from torch import Tensor

from lookalike import data, models, samplers
from lookalike.config import DataConfig, ModelConfig, RunConfig
from lookalike.config.keys import feature_values, refuse_conflicts
from lookalike.data import ONE_VIEW, ImageSet, ImageStore, Preset, Split, Subset
from lookalike.data.presets import NETWORK, preset_name
from lookalike.errors import BadInput
from lookalike.models import EmbeddingModel
from lookalike.models.lora import require_peft, with_lora
from lookalike.progress import Watcher
from lookalike.registry import SAMPLERS
from lookalike.samplers import BatchSampler
from lookalike.training.batches import Feeding, InputSource, PixelSource, embed
from lookalike.training.distributed.launch import may_be_unused, prepared_fabric
from lookalike.training.features import Features, Frozen, open_features

Part = TypeVar("Part")

KEPT = {"features": 2, "store": 4}
"""How many of them stay in memory where training runs differ in data sets and networks."""

HeadWeights: TypeAlias = tuple[Tensor, Tensor]
"""Weight and bias of the head's linear layer."""


@dataclass(frozen=True)
class ModelBundle:
    """The model that learns, the source of its inputs, the size of a frozen network."""

    model: EmbeddingModel
    source: InputSource
    frozen_parameters: int = 0

    @property
    def parameters(self) -> int:
        """The number of parameters, with those of the frozen network."""
        return self.frozen_parameters + sum(p.numel() for p in self.model.parameters())


def load_images(
    config: RunConfig, loaded: ImageSet | None = None, watcher: Watcher | None = None
) -> tuple[ImageSet, Preset]:
    """The images of a run, unless ``loaded``, and how they are transformed; nothing is decoded."""
    given, preset = config.data, models.preset_of(config.data.transform, config.model.network)
    if loaded is None:
        told = watcher or Watcher()
        loaded = data.load(
            given.name,
            given.root,
            given.skip_unreadable,
            lambda done, total: told.stage("reading files to know their content", done, total),
        )
    return with_test_half(config, loaded), preset


def with_test_half(config: RunConfig, images: ImageSet) -> ImageSet:
    """The images; where they do not say which classes test, ``protocol.seed`` draws them.

    It is 0 if not set, so that runs with other seeds are tested on the same classes.
    """
    protocol = config.protocol
    return data.draw_test_half(images, protocol.seed or 0) if protocol.order == "random" else images


def with_chosen_store(
    config: RunConfig, images: ImageSet, preset: Preset, watcher: Watcher
) -> RunConfig:
    """The configuration with the kind of store that ``data.store=auto`` means, told to watcher."""
    given = config.data
    kind = data.chosen_store(images, preset.resize, given.store, given.jpeg_quality, watcher.note)
    if kind == given.store:
        return config
    return config.model_copy(update={"data": given.model_copy(update={"store": kind})})


def open_store(
    given: DataConfig, images: ImageSet, preset: Preset, watcher: Watcher | None = None
) -> ImageStore:
    """The stored images, from the cache or stored now."""
    watcher = watcher or Watcher()
    return data.open_store(
        images,
        preset.resize,
        progress=lambda done, total: watcher.stage("decoding", done, total),
        kind=given.store,
        quality=given.jpeg_quality,
    )


def splits_of(config: RunConfig, images: ImageSet) -> list[Split]:
    """All folds of a run's protocol."""
    protocol = config.protocol
    return data.make_splits(
        with_test_half(config, images),
        protocol.name,
        seed=config.seed if protocol.seed is None else protocol.seed,
        ratio=protocol.ratio,
        folds=protocol.folds,
        order=protocol.order,
    )


def check_model(config: RunConfig) -> None:
    """Refuse settings of the model that exclude each other, before any data are read."""
    refuse_conflicts(config)
    model = config.model
    if model.lora is not None:
        require_peft()
    preset = models.preset_of(config.data.transform, model.network)
    models.check_network(model.network, model.pooling, preset.size, tested_sizes(preset))
    if model.head_init != "random" and model.dim:
        width = models.feature_width(model.network)
        if model.dim > width:
            raise BadInput(
                f"model.dim = {model.dim} is more than the {width} features of {model.network!r}, "
                f"from which model.head_init={model.head_init} makes the head"
            )


def tested_sizes(preset: Preset) -> tuple[int, ...]:
    """The sides of the images that the network sees in a test, if there is more than one size."""
    side = preset.test_size
    if side is None or (side == preset.size and preset.views.scales == ONE_VIEW.scales):
        return ()
    return tuple(preset.views.side(side, scale) for scale in preset.views.scales)


def mixes_pixels(config: RunConfig) -> bool:
    """Whether images are mixed, so that they have to pass the network every time."""
    return config.mix is not None and config.mix.where == "input"


def build_model(config: RunConfig, store: ImageStore, preset: Preset) -> EmbeddingModel:
    """The network with its head, frozen and in the memory format of the configuration."""
    wanted = config.model
    model = models.build(
        wanted.network,
        weights=wanted.weights,
        dim=wanted.dim,
        pooling=wanted.pooling,
        layer_norm=wanted.layer_norm,
        normalize=wanted.normalize,
        channels=1 if store.shapes[0, 2] == 1 and wanted.weights == "none" else 3,
        image_size=preset.size,
    )
    if wanted.lora is not None:
        model = with_lora(model, **wanted.lora.model_dump(), image_size=preset.size)
    model.views = preset.views
    freeze(model, wanted)
    return model.to(memory_format=memory_format_of(config))


def memory_format_of(config: RunConfig) -> torch.memory_format:
    """The memory format of the weights and of a batch."""
    return torch.channels_last if config.train.channels_last else torch.contiguous_format


def freeze(model: EmbeddingModel, wanted: ModelConfig) -> None:
    """Freeze what the configuration names."""
    model.freeze(
        bn_statistics=wanted.freeze_bn_statistics,
        bn_affine=wanted.freeze_bn_affine,
        backbone=wanted.freeze_backbone or wanted.frozen,
    )


def feeding_of(config: RunConfig) -> Feeding:
    """How the batches of a run are made."""
    return Feeding(config.train.workers, config.train.prefetch)


def pooled_features(model: EmbeddingModel) -> Callable[[Tensor], Tensor]:
    """From images to pooled features [B, width, 1, 1], in evaluation mode."""
    model.eval()

    def pool(images: Tensor) -> Tensor:
        pooled: Tensor = model.pooling(model.features(images))
        return pooled[:, :, None, None]

    return pool


def build_sampler(config: RunConfig, subset: Subset) -> BatchSampler:
    """The sampler of a configuration over the images of ``subset``."""
    wanted, arguments = config.sampler, dict(config.sampler.arguments)
    if "super_labels" in (SAMPLERS.arguments(wanted.name) or {}):
        if subset.super_labels is None:
            raise BadInput(
                f"sampler.name = {wanted.name!r} needs super-classes, and "
                f"'{subset.images.name}' has none; 'sop' has"
            )
        arguments["super_labels"] = subset.super_labels
    sampler = samplers.create(wanted.name, subset.labels, seed=config.seed, **arguments)
    if not isinstance(sampler, BatchSampler):
        raise BadInput(
            f"sampler.name = {wanted.name!r} must be a lookalike.samplers.BatchSampler, not "
            f"{type(sampler).__name__}"
        )
    return sampler


@dataclass
class PreparedParts:
    """What training runs share: devices, images, features and initial heads, each made once.

    A part is kept by the keys that it depends on, so that the trials of a study, which differ in
    the others, find it in memory.

    Args:
        watcher: Receives progress and notes.
        loaded: The images, where they are loaded already.
    """

    watcher: Watcher = field(default_factory=Watcher)
    loaded: ImageSet | None = None
    preparing_seconds: float = 0.0
    """Spent on decoding, networks and features."""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def fabric(self, config: RunConfig) -> Fabric:
        """The devices and the precision; of several processes, connected."""
        train, unused = config.train, may_be_unused(config)
        return self._kept(
            "fabric",
            lambda: prepared_fabric(train, find_unused=unused),
            (train.device, train.precision),
        )

    def images(self, config: RunConfig) -> ImageSet:
        """The images, none of them decoded."""
        return self._kept(
            "images",
            lambda: load_images(config, self.loaded, self.watcher)[0],
            (config.data, config.protocol.order, config.protocol.seed),
        )

    def identity(self, config: RunConfig) -> dict[str, str]:
        """What the outcome depends on besides the configuration."""
        model = config.model
        return {
            "data_fingerprint": self.images(config).fingerprint,
            "weights_fingerprint": models.fingerprint(model.network, model.weights),
        }

    def preset(self, config: RunConfig) -> Preset:
        """How the images are transformed."""
        return models.preset_of(config.data.transform, config.model.network)

    def store(self, config: RunConfig) -> ImageStore:
        """The images, decoded."""
        preset = self.preset(config)
        own = config.model.network if preset_name(config.data.transform) == NETWORK else ""
        return self._kept(
            "store",
            lambda: open_store(config.data, self.images(config), preset, self.watcher),
            (config.data, own),
        )

    def split(self, config: RunConfig) -> Split:
        """The split of a run: the only one of its protocol, or the configured fold."""
        if config.protocol.test:  # which can be taken once of a split
            return self._split(config)
        return self._kept(
            "split", lambda: self._split(config), (config.data, config.protocol, config.seed)
        )

    def _split(self, config: RunConfig) -> Split:
        protocol, splits = config.protocol, splits_of(config, self.images(config))
        if protocol.fold >= len(splits):
            raise BadInput(
                f"protocol.fold = {protocol.fold}: '{protocol.name}' has {len(splits)}, from 0"
            )
        chosen = splits[protocol.fold]
        return chosen if protocol.test else chosen.for_tuning()

    def bundle(self, config: RunConfig) -> ModelBundle:
        """The model with its initial weights and its source, the same for the same seed."""
        device = self.fabric(config).device
        if config.model.frozen:
            features = self.features(config, device)
            seed_everything(config.seed, verbose=False)
            wanted = config.model
            head = EmbeddingModel.of_features(
                features.views.shape[2],
                dim=wanted.dim,
                layer_norm=wanted.layer_norm,
                normalize=wanted.normalize,
            )
            return ModelBundle(head.to(device), features, features.parameters)
        self.store(config)
        begun = time.monotonic()
        model, pixels = self._network(config, device)
        found = ModelBundle(model, pixels)
        if config.model.frozen_until or config.model.freeze_until:
            found = self._cut(config, found, pixels, device)
        self.preparing_seconds += time.monotonic() - begun
        return found

    def _network(
        self, config: RunConfig, device: torch.device
    ) -> tuple[EmbeddingModel, PixelSource]:
        """The network with its initial weights, and the images as it expects them."""
        seed_everything(config.seed, verbose=False)
        store, preset = self.store(config), self.preset(config)
        model = build_model(config, store, preset).to(device)
        normalisation = preset.normalisation(model.normalisation)
        return model, PixelSource(store, preset, normalisation, memory_format_of(config))

    def _cut(
        self, config: RunConfig, whole: ModelBundle, pixels: PixelSource, device: torch.device
    ) -> ModelBundle:
        """Of a network cut in two the part that learns, on the maps of the part before it.

        Where pixels are mixed or new views are wanted every time, the whole network, of which the
        same part learns.
        """
        wanted, model = config.model, whole.model
        shape = tuple(pixels.inputs(pixels.testing(np.zeros(1, np.int64))).shape[1:])
        stored = wanted.freeze_until is None and not mixes_pixels(config)
        until = wanted.frozen_until or wanted.freeze_until or ""
        backbone = models.CutBackbone(model.backbone, until, shape, stored=stored)
        rest = EmbeddingModel(backbone, model.head)
        freeze(rest, wanted)
        if not stored:
            rest.views = model.views
            return ModelBundle(rest, pixels)

        def front() -> Frozen:
            return Frozen(backbone.eval().front, pixels, 0, device, feeding_of(config))

        return ModelBundle(rest, self._features(config, front))

    def features(self, config: RunConfig, device: torch.device | None = None) -> Features:
        """The pooled features of all images by a frozen network, computed on ``device``."""
        on = device or self.fabric(config).device

        def frozen() -> Frozen:
            model, pixels = self._network(config, on)
            count = sum(weight.numel() for weight in model.backbone.parameters())
            return Frozen(pooled_features(model), pixels, count, on, feeding_of(config))

        return self._kept(
            "features",
            lambda: self._features(config, frozen),
            (config.data, config.model.weights, feature_values(config)),
        )

    def _features(self, config: RunConfig, frozen: Callable[[], Frozen]) -> Features:
        part = {**feature_values(config), **self.store(config).settings}
        images, preset = self.images(config), self.preset(config)
        return open_features(images, preset, config.model, part, frozen, self.watcher)

    def initial_head(
        self, config: RunConfig, model: EmbeddingModel, split: Split, source: InputSource
    ) -> HeadWeights | None:
        """The initial weights of the head from the training images; None: random, as they are.

        On frozen features they are the same for all runs on a fold.
        """
        if not config.model.frozen:
            return initial_head(config, model, split.train, source)
        return self._kept(
            "head",
            lambda: initial_head(config, model, split.train, source),
            (config.data, config.model, config.protocol, split.fold),
        )

    def _kept(self, kind: str, make: Callable[[], Part], key: tuple[Any, ...]) -> Part:
        """The part of these keys; the oldest parts of a kind are dropped."""
        name = "|".join(k.model_dump_json() if isinstance(k, BaseModel) else repr(k) for k in key)
        kept = self.parts.setdefault(kind, {})
        begun, before = time.monotonic(), self.preparing_seconds
        part: Part = kept.pop(name) if name in kept else make()
        if kind in KEPT:  # without what was counted inside
            self.preparing_seconds = before + time.monotonic() - begun
        kept[name] = part  # the newest is the last
        while len(kept) > KEPT.get(kind, 64):
            del kept[next(iter(kept))]
        return part


def initial_head(
    config: RunConfig, model: EmbeddingModel, subset: Subset, source: InputSource
) -> HeadWeights | None:
    """The initial weights of the head from the training images; None: random, as they are.

    Only the training classes of ``subset`` are used, also to choose the shrinkage.
    """
    wanted = config.model
    if wanted.head_init == "random" or not wanted.dim:
        return None
    plain, size = model.without_linear(), config.train.eval_batch_size
    plain.views = ONE_VIEW
    features = embed(
        plain, subset, source, batch_size=size, distributed=True, feeding=feeding_of(config)
    )
    labels = torch.from_numpy(subset.labels)
    shrink = wanted.head_shrink
    if wanted.head_init == "auto":
        shrink = models.choose_shrink(features, labels)
    if wanted.head_init == "pca" or math.isinf(shrink):
        return models.pca(features, wanted.dim)
    return models.lda(features, labels, wanted.dim, shrink)
