import pytest
import torch
from torch import nn

from lookalike.errors import BadInput, LookalikeError
from lookalike.models.backbone import (
    Backbone,
    fit_channels,
    normalisation_for,
    replace_first_convolution,
)


class Gives(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, images):
        return self.output


def backbone(output, **options):
    return Backbone(Gives(output), width=6, normalisation=normalisation_for(3), **options)


IMAGES = torch.zeros(2, 3, 32, 64)


def test_channels_last_layout_is_turned():
    output = torch.randn(2, 4, 5, 6)
    assert torch.equal(backbone(output)(IMAGES), output.permute(0, 3, 1, 2))


def test_tokens_follow_the_proportions_of_the_image():
    tokens = torch.randn(2, 1 + 2 * 4, 6)
    found = backbone(tokens, prefix_tokens=1)(IMAGES)
    assert found.shape == (2, 6, 2, 4)
    assert torch.equal(found[:, :, 1, 2], tokens[:, 1 + 4 + 2])


def test_tokens_without_a_grid_make_one_row():
    assert backbone(torch.randn(2, 7, 6))(IMAGES).shape == (2, 6, 1, 7)


def test_a_network_that_gives_its_class_token_only_makes_one_place():
    tokens = torch.randn(2, 1, 6)
    assert torch.equal(backbone(tokens, prefix_tokens=1)(IMAGES)[:, :, 0, 0], tokens[:, 0])


def test_what_is_no_map_is_told():
    with pytest.raises(LookalikeError, match=r"\[2, 10\]"):
        backbone(torch.randn(2, 10))(IMAGES)


def test_another_image_size_is_told():
    with pytest.raises(BadInput, match=r"\(32, 32\) pixels only, not \(32, 64\)"):
        backbone(torch.randn(2, 6, 1, 1), image_size=(32, 32))(IMAGES)


def test_grey_equals_colour_repeated():
    colour = nn.Conv2d(3, 4, 3, bias=False)
    images = torch.randn(2, 1, 8, 8)
    expected = colour(images.expand(-1, 3, -1, -1))
    network = nn.Sequential(colour)
    replace_first_convolution(network, 1)
    torch.testing.assert_close(network(images), expected)


def test_other_numbers_of_channels_keep_the_sum():
    kernel = torch.randn(4, 1, 3, 3)
    assert fit_channels(kernel, 1) is kernel
    torch.testing.assert_close(fit_channels(kernel, 3).sum(1, keepdim=True), kernel)


def test_grey_input_shares_the_average_scaling():
    grey = normalisation_for(1, (104.0, 117.0, 128.0), (1.0, 1.0, 1.0), scale=1.0, bgr=True)
    assert grey.mean == pytest.approx((349 / 3,))
    assert (grey.std, grey.bgr, grey.channels) == ((1.0,), False, 1)
