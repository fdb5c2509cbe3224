"""The API under schemathesis: whatever is asked, the server does not fail and keeps its word."""

import subprocess
import sys
from pathlib import Path

import pytest

# Schema-valid bytes are seldom a picture, so refusing valid data is no fault here.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance,negative_data_rejection"
)


def fuzz(server, folder, *bounds):
    command = [Path(sys.executable).parent / "schemathesis", "run"]
    command += [f"{server.address}api/openapi.json", *bounds]
    command += ["--checks", CHECKS, "--no-color", "--seed", "1"]
    command += ["--generation-database", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Tested: 13" in done.stdout
    assert not any("Traceback" in line for line in server.said)


def test_a_few_hundred_requests_of_fuzzing(server, tmp_path):
    fuzz(server, tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "8")


@pytest.mark.slow
def test_two_minutes_of_fuzzing(server, tmp_path):
    fuzz(server, tmp_path, "--max-time", "120")
