"""Shared by all tests: one cache for the session, so that glyphs are drawn once."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # two workers on two cores


@pytest.fixture(scope="session", autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    # pytest-xdist gives each worker a folder of its own below one common parent
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["LOOKALIKE_CACHE"] = str(Path(common) / "cache")
