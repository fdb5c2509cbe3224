"""Images are mixed as they were read, before they are normalised."""

import torch

from lookalike.mixing.pairs import MixedPairs


def test_uint8_pixels_are_mixed_as_numbers():
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    pairs = MixedPairs(torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([0.25, 0.5]))
    expected = [
        share * pixels[i].double() + (1 - share) * pixels[j].double()
        for i, j, share in [(0, 1, 0.25), (2, 3, 0.5)]
    ]
    torch.testing.assert_close(pairs.of(pixels).double(), torch.stack(expected))
