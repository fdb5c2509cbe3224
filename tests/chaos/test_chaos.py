"""A few attempts of every scenario of ``make chaos``, with fixed seeds."""

import os
import random

import pytest

from tests.chaos.campaign import replay_command
from tests.chaos.outcome import Unavailable
from tests.chaos.scenarios import scenarios

SEED = 100


MOST = 6
"""Attempts until one takes effect: moments depend on the speed of the machine."""


@pytest.mark.parametrize("scenario", [s for s in scenarios() if s.quick], ids=lambda s: s.name)
def test_a_few_attempts(scenario, tmp_path):
    done = attempts = 0
    try:
        (tmp_path / "reference").mkdir()
        scenario.prepare(tmp_path / "reference")
        while not attempts or (not done and attempts < MOST):
            seed = SEED + attempts
            print(replay_command(scenario.name, seed))
            place = tmp_path / str(seed)
            place.mkdir()
            outcome = scenario.attempt(random.Random(seed), place)
            assert not outcome.failed, (outcome, replay_command(scenario.name, seed))
            attempts, done = attempts + 1, done + outcome.done
    except Unavailable as reason:
        if os.environ.get("LOOKALIKE_REQUIRE_ALL"):
            raise
        pytest.skip(str(reason))
    finally:
        scenario.close()
    assert done, "no attempt disturbed anything"
