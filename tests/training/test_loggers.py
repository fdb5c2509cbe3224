"""Loggers: the same numbers as the log, and no influence on the run."""

import csv
from importlib.util import find_spec

import pytest

from lookalike.errors import BadInput
from lookalike.training import train

SHORT = ("train.epochs=2", "train.batches_per_epoch=2", "protocol.test=false")


def test_the_table_is_the_log(tiny):
    run = train(tiny(*SHORT, "train.validate_every=2", "train.loggers=csv"))
    with (run.folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [{name: str(value) for name, value in row.items()} for row in run.epochs()]
    assert [{name: value for name, value in row.items() if value} for row in rows] == expected
    assert not (run.folder / "tensorboard").exists()


def test_mlflow_keeps_settings_and_numbers_in_files(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = train(tiny(*SHORT, "train.loggers=[mlflow,tensorboard]"))
    from mlflow import MlflowClient

    client = MlflowClient((tmp_path / "runs" / "mlruns").as_uri())
    project = client.get_experiment_by_name("lookalike")
    (kept,) = client.search_runs([project.experiment_id])
    assert kept.info.run_name == run.folder.name
    assert kept.info.status == "FINISHED"
    assert kept.data.params["model.dim"] == "16"
    losses = client.get_metric_history(kept.info.run_id, "loss")
    assert [(point.step, point.value) for point in losses] == [
        (row["epoch"], row["loss"])
        for row in run.epochs()[1:]  # none before training
    ]
    recall = kept.data.metrics["validation recall at 1"]
    assert recall == run.epochs()[-1]["validation recall@1"]
    assert (run.folder / "tensorboard").is_dir()


def test_loggers_do_not_rename_a_run(tiny):
    assert tiny("train.loggers=[csv]").identity() == tiny().identity()


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_package_names_its_extra(tiny, tmp_path):
    with pytest.raises(BadInput, match=r"pip install 'lookalike\[wandb\]'"):
        train(tiny("train.loggers=wandb"))
    assert not (tmp_path / "runs").exists()


def test_an_unknown_logger_is_refused_with_the_nearest(tiny):
    with pytest.raises(BadInput, match="mlflow"):
        tiny("train.loggers=mlfow")


def test_a_full_disk_is_an_error_once_and_no_traceback_of_a_thread(tiny, monkeypatch, capfd):
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    monkeypatch.setattr(RecordWriter, "flush", full)
    with pytest.raises(OSError, match=r"No space left on device: '.+'"):
        train(tiny())
    assert "Exception in thread" not in capfd.readouterr().err
