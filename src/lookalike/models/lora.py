"""Low-rank adapters (Hu et al., LoRA, ICLR 2022) inside a backbone, by the package peft.

A layer with the weight W computes ``W x + alpha / rank * B A x``: W is frozen, A [rank, in] and
B [out, rank] learn, and B starts at 0, so that the network starts as it was. After training the
product is added to W, and the network has its own layers and names again.
"""

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from lookalike.errors import BadInput, did_you_mean
from lookalike.models.backbone import Backbone
from lookalike.models.embedding import EmbeddingModel

__all__ = ["merge_lora", "merged_state", "require_peft", "with_lora"]


def require_peft() -> ModuleType:
    """The package peft, which takes seconds to import.

    Raises:
        BadInput: It is not installed.
    """
    try:
        import peft
    except ModuleNotFoundError as error:
        raise BadInput(
            f"model.lora needs the package '{error.name}': pip install 'lookalike[lora]'"
        ) from error
    found: ModuleType = peft
    return found


def with_lora(
    model: EmbeddingModel,
    *,
    rank: int = 8,
    alpha: float = 16,
    targets: Sequence[str] = ("attention",),
    dropout: float = 0.0,
    image_size: int | None = None,
) -> EmbeddingModel:
    """A model in whose backbone only adapters learn; the backbone is changed in place.

    Args:
        model: The model.
        rank: The rank of the adapters.
        alpha: Their product is scaled by ``alpha / rank``.
        targets: ``attention`` (the linear layers of attention), ``linear`` (all linear layers), or
            the last parts of the names of linear or convolutional layers, such as ``qkv``.
        dropout: The share of an adapter's inputs that is dropped in training.
        image_size: The side of the images; None: the network's own.

    Returns:
        The model with the same backbone and head.

    Raises:
        BadInput: The network has no such layers, or peft is not installed.
    """
    peft = require_peft()
    backbone = model.backbone
    layers = _target_layers(backbone.network, targets)
    _refuse_bypassed(backbone, layers, image_size)
    config = peft.LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=layers, bias="none"
    )
    peft.inject_adapter_in_model(config, backbone.network)
    return EmbeddingModel(backbone, model.head)


def _target_layers(network: nn.Module, targets: Sequence[str]) -> list[str]:
    """The names of the layers that get an adapter: those that a training would change."""
    found: dict[str, list[str]] = {target: [] for target in targets}
    last_parts = {"attention", "linear"}
    for path, layer in network.named_modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d) or not layer.weight.requires_grad:
            continue
        last_parts.add(path.rpartition(".")[2])
        for target in targets:
            if _is_target(target, path, layer):
                found[target].append(path)
    for target, paths in found.items():
        if not paths:
            raise BadInput(
                f"model.lora.targets = {target!r}: this network has no such layers; "
                f"{did_you_mean(target, last_parts)}"
            )
    return list(dict.fromkeys(path for paths in found.values() for path in paths))


def _is_target(target: str, path: str, layer: nn.Module) -> bool:
    if target == "attention":
        inside = any("attn" in part or "attention" in part for part in path.split("."))
        return inside and isinstance(layer, nn.Linear)
    if target == "linear":
        return isinstance(layer, nn.Linear)
    return f".{path}".endswith(f".{target}")


@torch.no_grad()
def _refuse_bypassed(backbone: Backbone, layers: Sequence[str], image_size: int | None) -> None:
    """Refuse layers of which the network uses the weight alone: an adapter would do nothing."""
    called: set[str] = set()
    side = image_size or (backbone.image_size or (224,))[0]
    image = torch.zeros(1, backbone.normalisation.channels, side, side)
    hooks = [
        backbone.network.get_submodule(path).register_forward_hook(
            lambda *_, path=path: called.add(path)
        )
        for path in layers
    ]
    training = backbone.training
    try:
        backbone.eval()(image.to(next(backbone.parameters())))
    finally:
        for hook in hooks:
            hook.remove()
        backbone.train(training)
    bypassed = [path for path in layers if path not in called]
    if bypassed:
        raise BadInput(
            f"model.lora: this network uses the weights of '{bypassed[0]}' without calling the "
            "layer, so that an adapter would have no effect; name other layers in "
            "model.lora.targets"
        )


def _adapted(model: nn.Module) -> list[tuple[str, Any]]:
    """The layers that peft has put in the place of others, with their names."""
    return [(path, layer) for path, layer in model.named_modules() if hasattr(layer, "lora_A")]


def merge_lora(model: nn.Module) -> None:
    """Add the adapters to the weights, in place; without adapters nothing changes.

    Args:
        model: The model.
    """
    for path, layer in _adapted(model):
        layer.merge(safe_merge=True)
        model.set_submodule(path, layer.get_base_layer())


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model as they would be with its adapters merged.

    Args:
        model: The model; it is not changed.

    Returns:
        Tensors by name, those of the network without adapters.
    """
    if _adapted(model):
        model = copy.deepcopy(model)
        merge_lora(model)
    return dict(model.state_dict())
