import pytest
import torch
from safetensors.torch import save_file

from lookalike import models
from lookalike.choose import candidates

TINY = (
    "data.transform=none",
    "model.network=small-cnn",
    "model.dim=8",
    "model.frozen_views=1",
    "sampler.batch_size=8",
    "sampler.per_class=2",
    "train.epochs=1",
    "train.batches_per_epoch=2",
)


@pytest.fixture
def few_candidates(monkeypatch):
    """Two methods of two settings each."""
    whole = candidates.shipped()
    part = whole | {"methods": whole["methods"][:2], "rates": [3e-4]}
    monkeypatch.setattr(candidates, "shipped", lambda: part)
    return candidates.names()


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """Weights of a small network; without any it could not be frozen."""
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    torch.manual_seed(5)
    model = models.build("small-cnn", dim=0)
    save_file(model.backbone.network.state_dict(), str(path))
    return path


@pytest.fixture
def tiny(weights):
    """Settings with which a training takes a moment."""

    def settings(folder, *more):
        own = (f"model.weights={weights}", "data.name=folder", f"data.root={folder}")
        return candidates.settings_of([*TINY, *own, *more])

    return settings
