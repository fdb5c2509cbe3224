"""A run killed with SIGKILL at random moments ends with the result of one never killed."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

COMMAND = """
import sys, torch
torch.set_num_threads(1)
sys.argv = ["lookalike", "train", *sys.argv[1:]]
from lookalike.cli import main
main()
"""

SETTINGS = [
    "loss.name=proxy-anchor",
    "model.dim=16",
    "sampler.batch_size=32",
    "optim.schedule=cosine",
    "train.batches_per_epoch=40",
    "train.epochs=4",
    "train.checkpoint_seconds=0.1",
    "train.device=cpu",
    "protocol.metrics=[recall@1]",
]


def start(runs):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *SETTINGS, f"runs_dir={runs}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def written(runs):
    """When the last checkpoint was written."""
    return [path.stat().st_mtime_ns for path in runs.glob("*/checkpoints/last.pt")]


def kill_after_new_checkpoints(runs, count, random_part):
    """Start the run, wait until it has written ``count`` more checkpoints, and kill it."""
    process = start(runs)
    seen = [written(runs)]
    while process.poll() is None and len(seen) <= count:
        with suppress(FileNotFoundError):
            if (now := written(runs)) != seen[-1]:
                seen.append(now)
        time.sleep(0.01)
    time.sleep(random_part)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.returncode == -signal.SIGKILL


def finish(runs):
    process = start(runs)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    (result,) = (one for one in runs.glob("*/result.json") if one.parent.name != "latest")
    return json.loads(result.read_text()), (result.parent / "metrics.jsonl").read_text()


@pytest.mark.slow  # make test kills a training in tests/chaos
def test_killed_three_times(tmp_path):
    chance = random.Random(7)
    killed = [
        kill_after_new_checkpoints(tmp_path / "killed", chance.randint(1, 4), chance.random() / 10)
        for _ in range(3)
    ]
    assert all(killed), "the run ended before it could be killed"
    assert not list((tmp_path / "killed").glob("*/result.json"))
    assert finish(tmp_path / "killed") == finish(tmp_path / "whole")
