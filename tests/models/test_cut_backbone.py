"""A network cut in two gives what the whole gives; only what lies behind the cut learns."""

import pytest
import torch
from torch import nn

from lookalike import models
from lookalike.errors import BadInput
from lookalike.models import Backbone, CutBackbone
from lookalike.models.backbone import normalisation_for

SHAPE = (3, 64, 64)
CUTS = [
    ("efficientnet-lite0", "blocks.4"),
    ("small-cnn", "4"),
    ("bn-inception", "inception_4a"),
    ("resnet50", "layer3"),
    ("googlenet", "inception4a"),
    ("torchvision:densenet121", "features.denseblock3"),
    ("timm:resnet18", "layer2.0"),
    ("timm:test_vit", "blocks.3"),
    ("timm:test_convnext", "stages.1"),
]
SOME = [CUTS[1], CUTS[4], CUTS[7]]
"""Plain layers, a traced network, a transformer."""


def cut(name, until, **options):
    torch.manual_seed(0)
    whole = models.build(name).backbone
    return whole, CutBackbone(whole, until, SHAPE, **options)


@pytest.mark.parametrize(("name", "until"), CUTS)
def test_front_and_rest_are_the_whole(name, until):
    whole, rest = cut(name, until)
    images = torch.rand(3, *SHAPE)
    with torch.no_grad():
        expected = whole.eval()(images)
        torch.testing.assert_close(rest.eval()(rest.front(images)), expected)
    assert rest.state_dict().keys() == whole.state_dict().keys()


@pytest.mark.parametrize(("name", "until"), SOME)
def test_what_lies_behind_learns_as_in_the_whole(name, until):
    """The oracle: the same network on images, its front without gradient and in eval mode."""
    _, rest = cut(name, until)
    images = torch.rand(3, *SHAPE)
    rest.train()
    found = rest(rest.front(images))
    found.square().sum().backward()
    learned = {name: p.grad.clone() for name, p in rest.named_parameters() if p.grad is not None}
    statistics = {name: value.clone() for name, value in rest.named_buffers()}
    torch.manual_seed(0)
    other = models.build(name).backbone.train()
    for path, module in other.network.named_modules():
        if path in rest.in_front:
            module.training = False
    expected = other(images)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert 0 < len(learned) < sum(p.grad is not None for p in other.parameters())
    for path, gradient in learned.items():
        scale = gradient.abs().max().item()
        wanted = other.get_parameter(path).grad
        torch.testing.assert_close(gradient, wanted, atol=1e-3 * scale + 1e-5, rtol=1e-3)
    for path, buffer in other.named_buffers():
        torch.testing.assert_close(statistics[path], buffer, atol=1e-4, rtol=1e-4)


def test_the_front_stays_in_evaluation_mode():
    _, rest = cut("efficientnet-lite0", "blocks.4")
    rest.train()
    modes = {name: m.training for name, m in rest.network.named_modules() if "bn1" in name}
    chosen = [modes[name] for name in ("bn1", "blocks.4.2.bn1", "blocks.5.0.bn1")]
    assert chosen == [False, False, True]
    front = {p.requires_grad for n, p in rest.network.named_parameters() if "blocks.4" in n}
    assert front == {False}


@pytest.mark.parametrize(("name", "until"), SOME)
def test_of_images_the_same_parameters_learn_and_the_front_keeps_no_graph(name, until):
    def step(model, inputs):
        model.train()
        model(inputs).square().sum().backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return gradients, dict(model.named_buffers())

    _, of_maps = cut(name, until)
    _, of_images = cut(name, until, stored=False)
    images = torch.rand(3, *SHAPE)
    maps = of_images.front(images)
    assert not maps.requires_grad
    expected, statistics = step(of_maps, maps)
    gradients, found = step(of_images, images)
    assert gradients.keys() == expected.keys()
    for path, wanted in expected.items():
        scale = wanted.abs().max().item()
        torch.testing.assert_close(gradients[path], wanted, atol=1e-3 * scale + 1e-5, rtol=1e-3)
    torch.testing.assert_close(found, statistics, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "until", "sentence"),
    [
        ("efficientnet-lite0", "block.4", r"did you mean 'blocks\.4'"),
        ("efficientnet-lite0", "classifier", "choose one of: .*blocks"),
        ("efficientnet-lite0", "blocks.4.1.conv_pw", "other data go past"),
        ("resnet50", "layr3", "did you mean 'layer3'"),
        ("resnet50", "layer3.1.bn1", "other data go past"),
    ],
)
def test_where_no_network_can_be_cut(name, until, sentence):
    with pytest.raises(BadInput, match=sentence):
        cut(name, until)


def test_weights_of_both_sides_cannot_be_parted():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 3, 1)
            self.second = nn.Conv2d(3, 3, 1)
            self.second.weight = self.first.weight

        def forward(self, images):
            return self.second(self.first(images))

    whole = Backbone(Tied(), width=3, normalisation=normalisation_for(3))
    with pytest.raises(BadInput, match="both sides"):
        CutBackbone(whole, "first", SHAPE)
