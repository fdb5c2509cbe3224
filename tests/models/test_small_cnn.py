import pytest
import torch

from lookalike import models


@pytest.mark.parametrize("channels", [1, 3])
def test_small_pictures_keep_a_map(channels):
    model = models.build("small-cnn", channels=channels)
    assert model.features(torch.randn(2, channels, 32, 32)).shape == (2, 128, 4, 4)
    assert sum(p.numel() for p in model.backbone.parameters()) < 100_000


def test_it_learns_to_tell_stripes_apart():
    model = models.build("small-cnn", channels=1, dim=8)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    upright = torch.arange(32).remainder(4).lt(2).float().expand(32, 32)
    patterns = torch.stack([upright, upright.T])[:, None]
    labels = torch.arange(2).repeat(8)
    for _ in range(12):
        images = patterns[labels] + 0.3 * torch.randn(16, 1, 32, 32)
        found = model(images)
        same = labels[:, None] == labels
        loss = torch.where(same, 1 - found @ found.T, (found @ found.T).relu()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.05
