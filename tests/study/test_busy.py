"""A task whose run another process trains: it waits, and nothing fails."""

import threading

import pytest

from lookalike.config import parse
from lookalike.runs.run import Run, RunIsBusy
from lookalike.study.records import TaskKey
from lookalike.study.tasks import Task, TaskRunner
from lookalike.training import train

TINY = {
    "model": {"network": "small-cnn", "weights": "none", "dim": 8},
    "sampler": {"batch_size": 6, "per_class": 2},
    "train": {"epochs": 1, "batches_per_epoch": 2, "device": "cpu"},
    "protocol": {"metrics": ["map@r"], "test": False},
}


def test_a_busy_run_is_waited_for(pictures, tmp_path):
    data = {"name": "folder", "root": str(pictures), "transform": "none"}
    values = TINY | {"data": data, "runs_dir": str(tmp_path / "runs")}
    first = train(parse(values | {"runs_dir": str(tmp_path / "first")}))
    found = []
    run = Run(tmp_path / "runs" / first.folder.name)
    with run.locked():
        with pytest.raises(RunIsBusy, match="another process is working on"):
            train(parse(values))
        task = Task(0, TaskKey(0, 0), values, checkpoints=True)
        working = threading.Thread(target=lambda: found.append(TaskRunner().run(task)))
        working.start()
        working.join(3)
        assert found == []
    working.join(120)
    assert found[0].scores[0]["validation map@r"] == first.result["validation"]["map@r"]
