"""Drivers and workers killed with SIGKILL at random moments: the study ends the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lookalike.study.table import load_results

COMMAND = "from lookalike.cli import main; main()"


def start(path, folder):
    arguments = ["study", "run", str(path), "--results", str(folder), "--workers", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()


def children(pid):
    """The worker processes of a driver."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def written(folder):
    return sum(path.stat().st_mtime_ns for path in folder.rglob("study.db"))


def kill_after_news(process, folder, chance, worker):
    """Wait until a result file was written, a moment longer, then kill."""
    before = written(folder)
    while process.poll() is None and written(folder) == before:
        time.sleep(0.02)
    time.sleep(chance.random() * 1.5)
    victims = children(process.pid) if worker else [process.pid]
    if process.poll() is not None or not victims:
        return False
    os.kill(chance.choice(victims), signal.SIGKILL)
    return True


@pytest.mark.slow
def test_five_kills(study_file, tmp_path, timeless):
    path = study_file(methods=["triplet", "proxy-anchor"], tuner={"trials": 6}, repeats=2)
    chance = random.Random(5)
    finish(start(path, tmp_path / "whole"))
    folder, kills = tmp_path / "killed", 0
    process = start(path, folder)
    for worker in (False, True, False, True, False):
        if kill_after_news(process, folder, chance, worker):
            kills += 1
        if not worker:
            process.communicate()
            process = start(path, folder)
    finish(process)
    assert kills == 5, "the study ended before it could be killed"
    assert timeless(load_results(folder)) == timeless(load_results(tmp_path / "whole"))
