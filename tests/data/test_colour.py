"""The compiled colour jitter against torchvision's functions, one after the other."""

import pytest
import torch
from torchvision.transforms import functional

from lookalike.data.colour import recolour


def torchvision_colours(image, grey, factors):
    """The image by torchvision's own operations on uint8 tensors."""
    light, contrast, saturation, hue = factors
    image = functional.rgb_to_grayscale(image, image.shape[0]) if grey else image
    image = functional.adjust_brightness(image, light)
    image = functional.adjust_contrast(image, contrast)
    image = functional.adjust_saturation(image, saturation)
    return functional.adjust_hue(image, hue)


def pixels(count, channels, height, width, seed=0):
    """Noise, channels last in memory."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(256, (count, height, width, channels), generator=generator)
    return made.to(torch.uint8).permute(0, 3, 1, 2)


def factors(count, strength, seed=1):
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(count, 4, generator=generator, dtype=torch.float64) * 2 - 1
    return chance * torch.tensor(strength) + torch.tensor([1, 1, 1, 0])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(64, 64), (33, 47), (1, 1), (5, 256)])
@pytest.mark.parametrize("strength", [(0.2, 0.2, 0.2, 0.2), (1.0, 1.0, 1.0, 0.5)])
def test_values_are_exactly_those_of_torchvision(channels, shape, strength):
    """Sums of luma of up to 256 x 256 pixels are whole numbers below 2^24: exact in float32."""
    batch = pixels(12, channels, *shape)
    greyed, chosen = torch.arange(12) % 5 == 0, factors(12, strength)
    rows = zip(batch, greyed.tolist(), chosen.tolist(), strict=True)
    expected = torch.stack([torchvision_colours(*row) for row in rows])
    recolour(batch, greyed, chosen)
    assert torch.equal(batch, expected)


def test_every_colour_of_a_grid_is_turned_as_torchvision_does():
    """All hues, pure and mixed, also grey and black, by turns of whole sectors and of fractions."""
    levels = torch.tensor([0, 1, 2, 63, 64, 127, 128, 200, 254, 255], dtype=torch.uint8)
    grid = torch.cartesian_prod(levels, levels, levels).view(1, 40, 25, 3).permute(0, 3, 1, 2)
    for turn in (-0.5, -1 / 3, -1 / 6, -1e-9, 0.0, 1e-9, 0.1, 1 / 6, 1 / 3, 0.5):
        batch = grid.clone(memory_format=torch.preserve_format)
        recolour(batch, torch.tensor([False]), torch.tensor([[1, 1, 1, turn]], dtype=torch.float64))
        assert torch.equal(batch[0], functional.adjust_hue(grid[0], turn)), turn


def test_larger_images_differ_by_the_rounding_of_the_mean_only():
    batch = pixels(1, 3, 400, 500)
    chosen = torch.tensor([[1.1, 0.7, 1, 0]], dtype=torch.float64)
    expected = torchvision_colours(batch[0], False, chosen[0].tolist()).int()
    recolour(batch, torch.tensor([False]), chosen)
    assert (batch[0].int() - expected).abs().max() <= 1
