"""Libraries that are imported with care. That of the current folder is in ``cli/test_trust.py``."""

import subprocess
import sys

from lookalike.imports import faiss_threads

AS_ON = """
import sys
sys.platform = {platform!r}
from lookalike.imports import guard_imports
guard_imports()
sys.platform = "linux"
import numpy, torch, lookalike
sys.platform = {platform!r}
import faiss, os
print(faiss.omp_get_max_threads(), os.environ.get("KMP_DUPLICATE_LIB_OK"))
"""


def printed_on(platform, monkeypatch):
    monkeypatch.delenv("KMP_DUPLICATE_LIB_OK", raising=False)
    command = [sys.executable, "-c", AS_ON.format(platform=platform)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_faiss_has_one_thread_on_macos(monkeypatch):
    assert printed_on("darwin", monkeypatch) == ["1", "TRUE"]


def test_nothing_is_set_elsewhere(monkeypatch):
    assert printed_on("linux", monkeypatch)[1] == "None"


def test_the_server_gives_faiss_no_more_threads_there(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert faiss_threads(8) == 1
    monkeypatch.setattr(sys, "platform", "linux")
    assert faiss_threads(8) == 8
