import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

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
    "protocol.test_untrained=false",
]


@pytest.fixture
def tiny(tmp_path):
    """A run of seconds on glyphs, with overrides."""

    def config(*overrides):
        return load(None, [*TINY, f"runs_dir={tmp_path / 'runs'}", *overrides])

    return config


@pytest.fixture(scope="session")
def patterns(tmp_path_factory):
    """A folder of 24 classes, eight small images each: a pattern of the class under noise."""
    folder = tmp_path_factory.mktemp("patterns")
    random = np.random.default_rng(0)
    for number in range(24):
        pattern = random.integers(0, 256, (8, 8)).repeat(4, 0).repeat(4, 1)
        (folder / f"{number:02}").mkdir()
        for image in range(8):
            pixels = np.clip(pattern + random.normal(0, 100, (32, 32)), 0, 255)
            path = folder / f"{number:02}" / f"{image}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


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


@pytest.fixture(scope="session")
def in_two_processes():
    """Runs a script with one argument in two real processes that know of each other."""

    def run(script, argument):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = str(listener.getsockname()[1])
        processes = [
            subprocess.Popen(
                [sys.executable, script, str(argument)],
                env=os.environ
                | {
                    "PYTHONPATH": ":".join(path for path in sys.path if path),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "WORLD_SIZE": "2",
                    "LOCAL_WORLD_SIZE": "2",
                    "RANK": str(number),
                    "LOCAL_RANK": str(number),
                    "TORCHELASTIC_RUN_ID": "test",
                },
            )
            for number in range(2)
        ]
        assert [process.wait(timeout=600) for process in processes] == [0, 0]

    return run
