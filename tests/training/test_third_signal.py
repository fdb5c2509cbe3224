"""A third signal ends a process, whatever it waits for."""

import signal
import subprocess
import sys

import pytest

WAITING = """
import threading
from lookalike.signals import stop_signals
with stop_signals({enabled}):
    print("ready", flush=True)
    while True:
        threading.Event().wait(0.05)
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_a_third_signal_ends_a_step_that_never_ends(enabled):
    with subprocess.Popen(
        [sys.executable, "-c", WAITING.format(enabled=enabled)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
        finally:
            process.kill()
