"""Where a step's time goes, by a clock that moves in known stages only."""

from types import SimpleNamespace

import pytest
from torch import nn

from lookalike.training import profiling
from lookalike.training.profiling import STAGES, profile

pytestmark = pytest.mark.trust(f"{__name__}:TickingLoss")
CLOCK = {"now": 0.0}


class TickingLoss(nn.Module):
    """Moves the clock by 3 in its forward pass and by 5 in its backward pass."""

    def __init__(self, embedding_size):
        super().__init__()

    def forward(self, embeddings, labels, indices_tuple=None):
        CLOCK["now"] += 3
        embeddings.register_hook(lambda _: CLOCK.update(now=CLOCK["now"] + 5))
        return embeddings.square().sum()


@pytest.mark.parametrize("overrides", [(), ("train.accumulate=2",), ("sampler.name=ddm",)])
def test_time_is_attributed_to_its_stage(tiny, tmp_path, monkeypatch, overrides):
    monkeypatch.setattr(profiling, "time", SimpleNamespace(perf_counter=lambda: CLOCK["now"]))
    seconds = profile(tiny(*overrides, f"loss.name={__name__}:TickingLoss"), steps=2)
    expected = dict.fromkeys((*STAGES, "step"), 0.0) | {"loss": 3, "backward": 5, "step": 8}
    assert seconds == expected
    assert list(seconds) == [*STAGES, "step"]
    assert not (tmp_path / "runs").exists()


def test_stages_add_up_to_the_step(tiny):
    seconds = profile(tiny("mix.where=feature"), steps=1)
    assert sum(seconds[stage] for stage in STAGES) == pytest.approx(seconds["step"])
    assert all(seconds[stage] > 0 for stage in STAGES)
