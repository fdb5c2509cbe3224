import io

from rich.console import Console

from lookalike import progress
from lookalike.progress import ConsoleWatcher, TimeLeft


def test_a_log_file_is_told_the_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with ConsoleWatcher() as watcher:
        watcher.console = Console(file=io.StringIO())
        for done in range(1001):
            watcher.stage("training", done, 1000)
            now[0] += 1
        lines = watcher.console.file.getvalue().splitlines()
    assert lines[0] == "training: 10 of 1,000, about 16 min left"
    assert len(lines) == 17  # then one a minute
    assert watcher.left == {}


def test_what_a_resumed_stage_had_done_does_not_count_as_speed():
    left = TimeLeft(done=900, started=0.0, due=10.0)
    assert left.line("training", 910, 1000, now=10.0).endswith("about 90 s left")
