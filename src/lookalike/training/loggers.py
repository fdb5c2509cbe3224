"""Loggers of a run besides its own ``metrics.jsonl``: TensorBoard, CSV, MLflow, W&B.

Each implements Lightning Fabric's ``Logger``. None has an influence on the outcome.
"""

import csv
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from lightning_fabric.loggers.logger import Logger
from lightning_fabric.loggers.tensorboard import TensorBoardLogger

from lookalike.config import RunConfig
from lookalike.config.keys import flattened
from lookalike.errors import BadInput
from lookalike.files import atomically, naming
from lookalike.runs.run import Run

EXTRAS = ("mlflow", "wandb")
"""Loggers whose package, of the same name, is not part of the plain installation."""

PROJECT = "lookalike"


def check_loggers(config: RunConfig) -> None:
    """Refuse a logger whose package is not installed."""
    for name in config.train.loggers:
        if name in EXTRAS and find_spec(name) is None:
            raise BadInput(
                f"train.loggers = {name!r} needs a package that is not installed: "
                f"pip install 'lookalike[{name}]'"
            )


@contextmanager
def open_loggers(config: RunConfig, run: Run | None, epoch: int) -> Iterator[list[Logger]]:
    """The loggers of a run that continues at ``epoch``, with its settings; closed at the end.

    Without a run there are none.
    """
    if run is None:
        yield []
        return
    with naming(run.folder), quiet_writers():
        opened = [LOGGERS[name](run, epoch) for name in dict.fromkeys(config.train.loggers)]
        status = "failed"
        try:
            for logger in opened:
                logger.log_hyperparams(flattened(config.identity()))
            yield opened
            status = "success"
        except ValueError as error:  # what Fabric makes of every error of TensorBoard
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            raise
        finally:
            for logger in opened:
                logger.finalize(status)


@contextmanager
def quiet_writers() -> Iterator[None]:
    """TensorBoard's thread raises where it cannot write, and so does its logger: once is enough."""
    former = threading.excepthook

    def shown(found: threading.ExceptHookArgs) -> None:
        ours = type(found.thread).__module__.startswith("tensorboard")
        if not (ours and isinstance(found.exc_value, OSError)):
            former(found)

    threading.excepthook = shown
    try:
        yield
    finally:
        threading.excepthook = former


class RunLogger(Logger):
    """A logger that belongs to one run."""

    def __init__(self, run: Run, _epoch: int) -> None:
        self.run = run

    @property
    def name(self) -> str:
        """All runs are one project."""
        return PROJECT

    @property
    def version(self) -> str:
        """The run's own name."""
        return self.run.folder.name

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Settings; most loggers leave them to ``config.yaml``."""


def tensorboard(run: Run, epoch: int) -> Logger:
    """Fabric's TensorBoard logger, in the run's folder; a resumed run drops the later epochs."""
    return TensorBoardLogger(
        run.folder, "tensorboard", version="", default_hp_metric=False, purge_step=epoch + 1
    )


class Csv(RunLogger):
    """``metrics.csv``: the run's log as a table, for spreadsheets.

    Fabric's CSVLogger deletes the epochs before a resumption, so this one is used.
    """

    def log_metrics(
        self,
        metrics: Mapping[str, float],  # noqa: ARG002
        step: int | None = None,  # noqa: ARG002
    ) -> None:
        """Write the whole table again: it is small, and correct after any interruption."""
        rows = self.run.epochs()
        names = dict.fromkeys(name for row in rows for name in row)
        with (
            atomically(self.run.folder / "metrics.csv") as draft,
            draft.open("w", newline="", encoding="utf-8") as file,
        ):
            table = csv.DictWriter(file, list(names))
            table.writeheader()
            table.writerows(rows)


class MLflow(RunLogger):
    """MLflow: the server of MLFLOW_TRACKING_URI, or files in ``mlruns`` beside the runs."""

    def __init__(self, run: Run, epoch: int) -> None:
        super().__init__(run, epoch)
        from mlflow import MlflowClient

        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if uri is None:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # required by MLflow 3
            uri = (run.folder.parent / "mlruns").resolve().as_uri()
        self.client = MlflowClient(uri)
        project = self.client.get_experiment_by_name(PROJECT)
        number = project.experiment_id if project else self.client.create_experiment(PROJECT)
        query = f"attributes.run_name = '{self.version}'"
        former = self.client.search_runs([number], query, max_results=1)  # it may be resumed
        found = former[0] if former else self.client.create_run(number, run_name=self.version)
        self.id = found.info.run_id
        self.client.update_run(self.id, status="RUNNING")

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Every setting that has an influence on the outcome."""
        for name, value in params.items():
            self.client.log_param(self.id, name, value)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """One point per metric; MLflow does not allow '@' in names."""
        for name, value in metrics.items():
            self.client.log_metric(self.id, name.replace("@", " at "), value, step=step)

    def finalize(self, status: str) -> None:
        """Set the final status; an interrupted run resumes under the same name."""
        self.client.set_terminated(self.id, "FINISHED" if status == "success" else "KILLED")
        super().finalize(status)


class WeightsAndBiases(RunLogger):
    """Weights & Biases, by the settings of its own environment (WANDB_MODE, WANDB_API_KEY)."""

    def __init__(self, run: Run, epoch: int) -> None:
        super().__init__(run, epoch)
        import wandb

        self.wandb_run = wandb.init(
            project=PROJECT, id=self.version, name=self.version, resume="allow", dir=run.folder
        )

    def log_hyperparams(self, params: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Every setting that has an influence on the outcome."""
        self.wandb_run.config.update(dict(params), allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """One point per metric."""
        self.wandb_run.log(dict(metrics), step=step)

    def finalize(self, status: str) -> None:
        """Send what is left."""
        self.wandb_run.finish(exit_code=0 if status == "success" else 1)
        super().finalize(status)


LOGGERS: dict[str, Callable[[Run, int], Logger]] = {
    "tensorboard": tensorboard,
    "csv": Csv,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}
