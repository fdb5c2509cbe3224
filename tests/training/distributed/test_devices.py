"""Freed memory is kept, so that the next step gets it without the kernel's help."""

import os
import subprocess
import sys

import pytest

CODE = """
import resource, sys, torch
from lookalike.training.distributed.launch import keep_freed_memory
print(keep_freed_memory() if sys.argv[1] == "keep" else None)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.zeros(20_000_000)
before = faults()
for _ in range(10):
    torch.zeros(20_000_000)
print(faults() - before)
"""


def run(what, **variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", CODE, what]
    told = subprocess.run(
        command, env=clean | variables, check=True, capture_output=True, text=True
    ).stdout
    kept, faults = told.split()
    return kept, int(faults)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_memory_is_kept():
    kept, few = run("keep")
    if kept == "False":
        pytest.skip("this Linux has no glibc")
    _, many = run("leave")
    assert few < many / 5


def test_the_users_own_settings_are_left_alone():
    assert run("keep", MALLOC_ARENA_MAX="2")[0] == "False"
