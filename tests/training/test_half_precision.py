"""Half precision with a real scaler, on the CPU: an overflow skips the step and nothing else."""

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision
from safetensors.torch import load_file

from lookalike.training import building, train

SCALE = 2.0**40
"""Gradients times this are not finite in half precision."""
BACKOFF = 2.0**-32
"""After one skipped step the scale is right."""


@pytest.fixture
def scalers(monkeypatch):
    """Runs are in 16-mixed on the CPU; their scalers, one a run."""
    made = []

    def half(*_, **__):
        made.append(torch.amp.GradScaler("cpu", init_scale=SCALE, backoff_factor=BACKOFF))
        precision = MixedPrecision("16-mixed", "cpu", made[-1])
        return Fabric(accelerator="cpu", devices=1, plugins=[precision])

    monkeypatch.setattr(building, "prepared_fabric", half)
    return made


@pytest.fixture
def weights(tiny, patterns):
    """The parameters after a run of some steps."""

    def trained(*settings):
        config = tiny(
            "data.name=folder", f"data.root={patterns}", "protocol.name=paper",
            "protocol.test=false", *settings,
        )  # fmt: skip
        found = load_file(str(train(config).weights))
        return {n: v for n, v in found.items() if "running" not in n and "tracked" not in n}

    return trained


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # the first is skipped
@pytest.mark.parametrize(
    ("clip", "chunks"), [("clip_norm=1", 1), ("clip_value=0.01", 2), ("clip_norm=null", 2)]
)
def test_an_overflow_skips_the_step_and_lowers_the_scale(weights, scalers, clip, chunks):
    settings = (f"optim.{clip}", f"train.accumulate={chunks}", "train.epochs=1")
    before = weights("train.epochs=0")
    overflown = weights(*settings, "train.batches_per_epoch=1")
    later = weights(*settings, "train.batches_per_epoch=2")
    assert [scaler.get_scale() for scaler in scalers] == [SCALE] + [SCALE * BACKOFF] * 2
    for name, value in later.items():
        assert torch.equal(overflown[name], before[name]), name
        assert value.isfinite().all(), name
    assert not torch.equal(later["head.linear.weight"], before["head.linear.weight"])
