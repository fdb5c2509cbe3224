"""The file for Slurm, run by a shell whose Slurm and Ray only write down what they are told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lookalike.cli import app

FILE = Path(__file__).parents[2] / "examples" / "study.sbatch"
STUBS = {
    "scontrol": 'printf "one\\ntwo\\nthree\\n"',
    "srun": 'echo "srun $*" >> "$CALLS"',
    "sleep": "exit 0",
    "lookalike": 'echo "lookalike $*" >> "$CALLS"; exit 7',
}
OPTIONS = ("job-name", "nodes", "ntasks-per-node", "exclusive", "signal", "output")


@pytest.fixture
def calls(tmp_path):
    """What the file starts on three nodes, and its exit code."""
    for name, body in STUBS.items():
        stub = tmp_path / name
        stub.write_text(f"#!/bin/bash\n{body}\n")
        stub.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SLURM_JOB_NODELIST": "whatever",
        "SLURM_JOB_ID": "12345",
        "SLURM_CPUS_ON_NODE": "8",
    }
    done = subprocess.run(
        ["bash", str(FILE), "study.yaml", "--gpus", "0.5"],
        env=variables,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode, sorted((tmp_path / "calls").read_text().splitlines())


def test_it_starts_a_cluster_and_one_study(calls):
    code, told = calls
    assert code == 7  # that of the study
    start, head = "--num-cpus=8 --block", "--num-cpus=8 --include-dashboard=false --block"
    assert told == [
        "lookalike study run study.yaml --gpus 0.5 --executor ray --address one:22345",
        f"srun --nodes=1 --ntasks=1 --nodelist=one ray start --head --port=22345 {head}",
        f"srun --nodes=2 --ntasks-per-node=1 --exclude=one ray start --address=one:22345 {start}",
    ]


def test_the_options_exist():
    lines = FILE.read_text().splitlines()
    given = [line.split("--", 1)[1].split("=")[0] for line in lines if line.startswith("#SBATCH")]
    assert set(given) <= set(OPTIONS)
    shown = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"--head", "--port", "--address", "--num-cpus", "--block"} <= set(shown.stdout.split())


def test_the_command_takes_what_it_is_given():
    from typer.testing import CliRunner

    arguments = [
        "study",
        "run",
        "no.yaml",
        "--gpus",
        "0.5",
        "--executor",
        "ray",
        "--address",
        "a:1",
    ]
    done = CliRunner().invoke(app, arguments)
    assert "no.yaml" in str(done.exception)
