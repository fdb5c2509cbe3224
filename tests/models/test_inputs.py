"""Transforms that a network was published with."""

import pytest
from timm.data import create_transform, resolve_model_data_config
from torchvision.models import ResNet50_Weights

from lookalike import models
from lookalike.config import TransformConfig
from lookalike.errors import BadInput


@pytest.mark.parametrize(
    "network", ["efficientnet-lite0", "timm:vit_tiny_patch16_384", "deit3_small_patch16_224"]
)
def test_networks_of_timm(network):
    made = models.preset_of("network", network)
    built = models.build(network, dim=0)
    resize, crop, *_ = create_transform(
        **resolve_model_data_config(built.backbone.network)
    ).transforms
    assert made.resize == resize.size
    assert (made.size, made.size) == tuple(crop.size)
    assert made.interpolation == resize.interpolation.value
    assert network in made.summary


def test_networks_of_torchvision():
    made, weights = models.preset_of("network", "resnet50"), ResNet50_Weights.IMAGENET1K_V1
    theirs = weights.transforms()
    assert [made.resize, made.size] == [*theirs.resize_size, *theirs.crop_size]
    assert made.interpolation == "bilinear"


def test_keys_on_top_of_it():
    made = models.preset_of(TransformConfig(preset="network", color_jitter=0.3), "resnet50")
    assert (made.size, made.color_jitter.hue) == (224, 0.3)


def test_a_network_without_transforms_is_refused():
    with pytest.raises(BadInput, match="'small-cnn' is published without transforms"):
        models.preset_of("network", "small-cnn")
