"""Activation checkpointing: less is remembered, and nothing else changes."""

import copy

import pytest
import torch

from lookalike import models
from lookalike.errors import BadInput
from lookalike.training import train
from lookalike.training.activation_checkpointing import recompute_blocks


def remembered(model, images):
    """Bytes kept for the way back, and the loss."""
    sizes = {}

    def keep(tensor):
        sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(images).square().sum() + model(images)[:, 0].sum()
    return sum(sizes.values()), loss


def test_same_gradients_and_statistics_with_less_memory():
    torch.manual_seed(0)
    plain = models.build("efficientnet-lite0", dim=8)
    saving = copy.deepcopy(plain)
    assert recompute_blocks(saving) == 7
    images = torch.randn(4, 3, 64, 64)
    kept = {}
    for name, model in (("plain", plain), ("saving", saving)):
        model.train()
        kept[name], loss = remembered(model, images)
        loss.backward()
    assert kept["saving"] < 0.5 * kept["plain"]
    for (name, one), other in zip(plain.named_parameters(), saving.parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4, msg=name)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(saving.state_dict()[name], value, msg=name)


def test_a_run_ends_with_the_same_numbers(tiny):
    settings = ("model.network=timm:resnet10t", "train.epochs=1", "train.batches_per_epoch=2")
    plain = train(tiny(*settings, "protocol.test=false"))
    saving = train(tiny(*settings, "protocol.test=false", "train.activation_checkpointing=true"))
    assert saving.folder != plain.folder
    assert saving.epochs()[1]["loss"] == pytest.approx(plain.epochs()[1]["loss"], rel=1e-5)


def test_a_network_without_blocks_is_refused():
    with pytest.raises(BadInput, match="finds no blocks"):
        recompute_blocks(models.build("torchvision:resnet18", dim=8))
