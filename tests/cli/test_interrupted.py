"""Ctrl-C outside the training loop: one sentence, exit code 130."""

import os
import signal
import subprocess
import sys
import time


def test_ctrl_c_is_one_sentence(tmp_path):
    cache = tmp_path / "cache"
    # a shell that starts the tests in the background has them ignore Ctrl-C
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeding}; from lookalike.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", "data.name=glyphs", f"runs_dir={tmp_path / 'runs'}"],
        env=os.environ | {"LOOKALIKE_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not cache.exists():  # from here on it draws characters, for seconds
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.splitlines() == ["lookalike: stopped; the same command starts again"]
