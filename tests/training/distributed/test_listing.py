"""Under torchrun one process of a machine looks at the files, and tells the others."""

import pytest

MODULE = """
import os
from functools import partial
from pathlib import Path

import numpy as np
from lookalike.data import ImageSet

def decode(number):
    return np.random.default_rng(number // 4).integers(0, 256, (32, 32, 1), dtype=np.uint8)

def listed(root, decode=decode):
    with open(Path(__file__).with_name("listed.txt"), "a") as file:
        file.write(f"{os.environ['RANK']}\\n")
    labels = np.arange(64) // 4
    return ImageSet(
        name="own", files=tuple(f"{i}.png" for i in range(64)), labels=labels,
        class_names=tuple(map(str, range(16))), test=labels >= 8, decode=decode,
        fingerprint="own", stamp="own",
    )

def at_home_only(root):
    return listed(root, decode=lambda number: decode(number))
"""

SCRIPT = """
import os, sys
from pathlib import Path
place, name = sys.argv[1].split("|")
sys.path.insert(0, place)
os.environ["LOOKALIKE_CACHE"] = place + "/cache"
import lookalike
from lookalike.config import load
from lookalike.training import train

lookalike.trust(f"own_images_here:{name}")
run = train(load(None, [
    f"data.name=own_images_here:{name}", f"runs_dir={place}/runs", "model.dim=8",
    "sampler.batch_size=16", "train.epochs=1", "train.device=cpu", "protocol.name=paper",
    "protocol.metrics=[recall@1]",
]))
assert run.done
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("listed", ["0"]),
        pytest.param("at_home_only", ["0", "1"], marks=pytest.mark.slow),  # it cannot be sent
    ],
)
def test_one_process_lists_the_images(tmp_path, in_two_processes, name, expected):
    (tmp_path / "own_images_here.py").write_text(MODULE)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    in_two_processes(script, f"{tmp_path}|{name}")
    assert sorted((tmp_path / "listed.txt").read_text().split()) == expected
