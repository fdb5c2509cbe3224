"""A table of 200,000 JPEGs: stored, killed half way, resumed, and trained on in little memory."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import simplejpeg

from lookalike.data.parallel import in_threads

CLASSES, PER_CLASS = 10_000, 20
MOST_BYTES = 2_000_000_000
"""Resident memory beyond that of the network with its libraries."""

TRAIN = """
import json, resource, sys
import torch
from lookalike import models
from lookalike.config import load
from lookalike.training import train

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

config = load(None, sys.argv[1:])
model = models.build(config.model.network, dim=config.model.dim)
network = peak()
model(torch.rand(config.sampler.arguments["batch_size"], 3, 32, 32)).sum().backward()
network = peak()
run = train(config)
print(json.dumps({"network": network, "peak": peak(), "result": run.result}))
"""


@pytest.fixture
def home():
    """A folder that is gone afterwards, unlike those of pytest."""
    with TemporaryDirectory() as name:
        yield Path(name)


def write_table(home):
    """Small JPEGs of noise over a pattern of their class, and the table of them."""

    def write(label):
        random = np.random.default_rng(label)
        pattern = random.integers(0, 200, (4, 4, 3)).repeat(8, 0).repeat(8, 1)
        folder = home / f"{label // 100:03}" / f"{label:05}"
        folder.mkdir(parents=True)
        for number in range(PER_CLASS):
            pixels = (pattern + random.integers(0, 56, (32, 32, 3))).astype(np.uint8)
            (folder / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels, 90))
        return [f"{folder.relative_to(home)}/{n}.jpg,c{label}\n" for n in range(PER_CLASS)]

    with (home / "table.csv").open("w") as table:
        table.write("path,label\n")
        for lines in in_threads(write, range(CLASSES)):
            table.writelines(lines)


def start(home):
    settings = [
        "data.name=csv", f"data.root={home / 'table.csv'}", "data.transform=none",
        "data.store=jpeg", "sampler.name=spc", "sampler.batch_size=500", "sampler.per_class=4",
        "model.dim=32", "train.epochs=1", "train.device=cpu", "protocol.name=paper",
        "protocol.test=false", f"runs_dir={home / 'runs'}",
    ]  # fmt: skip
    code = f"import os; os.environ['LOOKALIKE_CACHE'] = {str(home / 'cache')!r}\n{TRAIN}"
    return subprocess.Popen(
        [sys.executable, "-c", code, *settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shards(home):
    return {path: path.stat().st_mtime_ns for path in home.glob("cache/*.store/shard-*")}


@pytest.mark.slow
def test_stored_killed_resumed_and_trained_in_little_memory(home):
    write_table(home)
    killed = start(home)
    while len(shards(home)) < 8:  # of 64
        assert killed.poll() is None, killed.communicate()[1]
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = shards(home)
    assert 8 <= len(before) < 64
    resumed = start(home)
    said, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    after = shards(home)
    assert len(after) == 64
    assert {path: after[path] for path in before} == before
    found = json.loads(said.splitlines()[-1])
    assert found["result"]["train_images"] == CLASSES * PER_CLASS // 2
    assert found["result"]["epochs"] == 1
    assert found["result"]["steps"] == CLASSES * PER_CLASS // 2 // 500
    assert found["peak"] - found["network"] < MOST_BYTES
