import copy
import functools
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from lookalike import models
from lookalike.data import Views
from lookalike.ops.rows import normalize_rows


def affine(model):
    return [
        p
        for layer in model.backbone.modules()
        if isinstance(layer, nn.BatchNorm2d)
        for p in layer.parameters(recurse=False)
    ]


def others(model):
    frozen = {id(p) for p in affine(model)}
    return [p for p in model.backbone.parameters() if id(p) not in frozen]


def statistics(model):
    return {k: v.clone() for k, v in model.state_dict().items() if "running_" in k}


@pytest.fixture
def model():
    return models.build("small-cnn", channels=1, dim=8)


@pytest.fixture
def images():
    return torch.randn(4, 1, 32, 32)


def test_forward_is_embed_of_features(model, images):
    model.eval()
    torch.testing.assert_close(model(images), model.embed(model.features(images)))
    assert model(images).shape == (4, model.dim) == (4, 8)


def test_frozen_statistics_survive_train(model, images):
    model.freeze(bn_statistics=True)
    before = statistics(model)
    model.train()
    model(images).sum().backward()
    model.eval().train()
    model(images)
    assert model.training
    assert model.backbone.training
    for name, value in statistics(model).items():
        assert torch.equal(value, before[name])
    assert all(p.grad is not None for p in affine(model))


def test_statistics_move_when_not_frozen(model, images):
    before = statistics(model)
    model.train()
    model(images)
    assert any(not torch.equal(v, before[k]) for k, v in statistics(model).items())


def test_warm_up_does_not_undo_the_affine_freeze(model):
    model.freeze(bn_affine=True, bn_statistics=True)
    model.set_backbone_trainable(False)
    assert not any(p.requires_grad for p in model.backbone.parameters())
    assert all(p.requires_grad for p in model.head.parameters())
    model.set_backbone_trainable(True)
    assert not any(p.requires_grad for p in affine(model))
    assert all(p.requires_grad for p in others(model))


def test_freezing_during_warm_up_is_kept_after_it(model):
    model.set_backbone_trainable(False)
    model.freeze(bn_affine=True)
    assert not any(p.requires_grad for p in model.backbone.parameters())
    model.set_backbone_trainable(True)
    assert not any(p.requires_grad for p in affine(model))
    assert all(p.requires_grad for p in others(model))


def test_a_frozen_backbone_stays_frozen_and_in_evaluation(model, images):
    model.freeze(backbone=True)
    model.set_backbone_trainable(False)
    model.set_backbone_trainable(True)
    model.train()
    assert not model.backbone.training
    assert model.head.training
    before = statistics(model)
    model(images).sum().backward()
    assert all(p.grad is None for p in model.backbone.parameters())
    assert all(p.grad is not None for p in model.head.parameters())
    assert all(torch.equal(v, before[k]) for k, v in statistics(model).items())


def test_the_last_call_of_freeze_counts(model):
    model.train()
    model.freeze(backbone=True, bn_affine=True)
    model.freeze()
    assert all(p.requires_grad for p in model.parameters())
    assert model.backbone.training


@functools.cache
def computes_in(dtype):
    """Some virtual machines advertise instructions for half precision that they then refuse."""
    code = f"""
import torch
layer = torch.nn.Linear(128, 128)
with torch.autocast("cpu", dtype=torch.{dtype}):
    layer(torch.ones(4, 128))
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("pooling", ["avg", "max", "avg+max", "gem"])
def test_autocast_and_channels_last_give_float32_unit_vectors(images, name, pooling):
    if not computes_in(name):
        pytest.skip(f"this processor does not multiply matrices of {name}")
    dtype = getattr(torch, name)
    model = models.build("small-cnn", channels=1, pooling=pooling, layer_norm=True)
    model = model.to(memory_format=torch.channels_last)
    batch = images.contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype=dtype):
        found = model(batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.norm(dim=1), torch.ones(4))
    found[:, 0].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    model.zero_grad()
    exact = model(batch)
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0)


def test_a_copy_is_independent_and_keeps_what_is_frozen(model, images):
    model.freeze(bn_affine=True, bn_statistics=True)
    other = copy.deepcopy(model).train()
    assert not any(p.requires_grad for p in affine(other))
    other.set_backbone_trainable(True)
    assert not any(p.requires_grad for p in affine(other))
    assert torch.equal(model.eval()(images), other.eval()(images))


def test_compiled_model_gives_the_same(model, images):
    compiled = torch.compile(model.eval(), backend="aot_eager")
    torch.testing.assert_close(compiled(images), model(images))


@pytest.mark.parametrize("normalize", [True, False])
def test_in_evaluation_the_mean_of_all_views(normalize):
    torch.manual_seed(0)
    model = models.build("small-cnn", dim=8, normalize=normalize).eval()
    model.freeze(bn_statistics=True)
    images = torch.randn(3, 3, 32, 32)
    half = functional.interpolate(images, (16, 16), mode="bilinear")
    shown = [half, half.flip(3), images, images.flip(3)]
    with torch.no_grad():
        expected = torch.stack([model(view) for view in shown]).mean(0)
        expected = normalize_rows(expected) if normalize else expected
        one = model.train()(images)
        model.views = Views(flip=True, scales=(0.5, 1.0))
        torch.testing.assert_close(model.train()(images), one)
        found = model.eval()(images)
    torch.testing.assert_close(found, expected)
