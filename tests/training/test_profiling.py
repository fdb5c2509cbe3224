"""Where a step's time goes, without a trace on the disk."""

import pytest

from lookalike.training.profiling import STAGES, profile


@pytest.mark.parametrize(
    "overrides", [(), ("mix.where=feature",), ("sampler.name=ddm", "loss.name=proxy-anchor")]
)
def test_stages_add_up_to_the_step(tiny, tmp_path, overrides):
    seconds = profile(tiny(*overrides), steps=4)
    assert list(seconds) == [*STAGES, "step"]
    assert all(seconds[stage] > 0 for stage in (*STAGES, "step"))
    assert seconds["forward"] + seconds["backward"] < seconds["step"]
    assert not (tmp_path / "runs").exists()
