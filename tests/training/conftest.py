import os
import signal

import pytest

from lookalike.config import load
from lookalike.training import Watcher

TINY = [
    "model.dim=16",
    "sampler.name=spc",
    "sampler.batch_size=32",
    "sampler.per_class=4",
    "train.batches_per_epoch=8",
    "train.epochs=3",
    "train.eval_batch_size=512",
    "train.checkpoint_seconds=0",
    "train.device=cpu",
    "protocol.metrics=[recall@1]",
]


@pytest.fixture
def tiny(tmp_path):
    """A run of seconds on glyphs, with overrides."""

    def config(*overrides):
        return load(None, [*TINY, f"runs_dir={tmp_path / 'runs'}", *overrides])

    return config


class StopsAt(Watcher):
    """Sends this process a signal when the run has come to a step."""

    def __init__(self, step):
        self.at = step

    def stage(self, name, done, total, detail=""):
        if name == "training" and done >= self.at:
            self.at = 10**9
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def stops_at():
    """A watcher that asks a run to stop at a step."""
    return StopsAt
