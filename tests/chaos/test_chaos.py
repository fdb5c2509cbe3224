"""A few attempts of every scenario of ``make chaos``, with fixed seeds."""

import random

import pytest

from chaos.campaign import replay_command
from chaos.parts import scenarios
from chaos.scenario import Unavailable

SEED = 100


@pytest.mark.parametrize("scenario", [s for s in scenarios() if s.quick], ids=lambda s: s.name)
def test_a_few_attempts(scenario, tmp_path):
    try:
        (tmp_path / "reference").mkdir()
        scenario.prepare(tmp_path / "reference")
        for seed in range(SEED, SEED + scenario.quick):
            print(replay_command(scenario.name, seed))
            place = tmp_path / str(seed)
            place.mkdir()
            outcome = scenario.attempt(random.Random(seed), place)
            assert not outcome.failed, (outcome, replay_command(scenario.name, seed))
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        scenario.close()
