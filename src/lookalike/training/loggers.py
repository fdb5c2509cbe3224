"""Loggers of a run besides its own ``metrics.jsonl``: TensorBoard, CSV, MLflow, W&B.

Each is a context that gives a function of the scores of an epoch. None has an influence on the
outcome.
"""

import csv
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias

from lightning_fabric.loggers.tensorboard import TensorBoardLogger

from lookalike.config import RunConfig
from lookalike.config.keys import flattened
from lookalike.errors import BadInput
from lookalike.files import atomically, naming
from lookalike.runs.run import Run

EXTRAS = ("mlflow", "wandb")
"""Loggers whose package, of the same name, is not part of the plain installation."""

PROJECT = "lookalike"
"""All runs are one project."""

LogEpoch: TypeAlias = Callable[[Mapping[str, float], int], object]
"""Takes the scores of an epoch and its number."""


def check_loggers(config: RunConfig) -> None:
    """Refuse a logger whose package is not installed."""
    for name in config.train.loggers:
        if name in EXTRAS and find_spec(name) is None:
            raise BadInput(
                f"train.loggers = {name!r} needs a package that is not installed: "
                f"pip install 'lookalike[{name}]'"
            )


@contextmanager
def open_loggers(config: RunConfig, run: Run | None, epoch: int) -> Iterator[list[LogEpoch]]:
    """The loggers of a run that continues at ``epoch``, with its settings; closed at the end.

    Without a run there are none.
    """
    if run is None:
        yield []
        return
    settings = flattened(config.identity())
    with naming(run.folder), quiet_writers():
        try:
            with ExitStack() as stack:
                yield [
                    stack.enter_context(LOGGERS[name](run, epoch, settings))
                    for name in dict.fromkeys(config.train.loggers)
                ]
        except ValueError as error:  # what Fabric makes of every error of TensorBoard
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from error
            raise


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


@contextmanager
def tensorboard(run: Run, epoch: int, settings: dict[str, Any]) -> Iterator[LogEpoch]:
    """Fabric's TensorBoard logger, in the run's folder; a resumed run drops the later epochs."""
    logger = TensorBoardLogger(
        run.folder, "tensorboard", version="", default_hp_metric=False, purge_step=epoch + 1
    )
    try:
        logger.log_hyperparams(settings)
        yield logger.log_metrics
    finally:
        logger.finalize("")


@contextmanager
def csv_table(run: Run, _epoch: int, _settings: dict[str, Any]) -> Iterator[LogEpoch]:
    """``metrics.csv``: the run's log as a table, for spreadsheets.

    The whole table is written again: it is small, and correct after any interruption. (Fabric's
    CSVLogger deletes the epochs before a resumption.)
    """

    def log(_scores: Mapping[str, float], _epoch: int) -> None:
        rows = run.epochs()
        names = dict.fromkeys(name for row in rows for name in row)
        with (
            atomically(run.folder / "metrics.csv") as draft,
            draft.open("w", newline="", encoding="utf-8") as file,
        ):
            table = csv.DictWriter(file, list(names))
            table.writeheader()
            table.writerows(rows)

    yield log


@contextmanager
def mlflow(run: Run, _epoch: int, settings: dict[str, Any]) -> Iterator[LogEpoch]:
    """MLflow: the server of MLFLOW_TRACKING_URI, or files in ``mlruns`` beside the runs.

    An interrupted run resumes under the same name. MLflow does not allow '@' in names.
    """
    from mlflow import MlflowClient

    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri is None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # required by MLflow 3
        uri = (run.folder.parent / "mlruns").resolve().as_uri()
    client, own = MlflowClient(uri), run.folder.name
    project = client.get_experiment_by_name(PROJECT)
    number = project.experiment_id if project else client.create_experiment(PROJECT)
    query = f"attributes.run_name = '{own}'"
    former = client.search_runs([number], query, max_results=1)
    found = former[0] if former else client.create_run(number, run_name=own)
    there, status = found.info.run_id, "KILLED"

    def log(scores: Mapping[str, float], epoch: int) -> None:
        for name, value in scores.items():
            client.log_metric(there, name.replace("@", " at "), value, step=epoch)

    try:
        client.update_run(there, status="RUNNING")
        for name, value in settings.items():
            client.log_param(there, name, value)
        yield log
        status = "FINISHED"
    finally:
        client.set_terminated(there, status)


@contextmanager
def weights_and_biases(run: Run, _epoch: int, settings: dict[str, Any]) -> Iterator[LogEpoch]:
    """Weights & Biases, by the settings of its own environment (WANDB_MODE, WANDB_API_KEY)."""
    import wandb

    own, exit_code = run.folder.name, 1
    opened = wandb.init(project=PROJECT, id=own, name=own, resume="allow", dir=run.folder)
    try:
        opened.config.update(settings, allow_val_change=True)
        yield lambda scores, epoch: opened.log(dict(scores), step=epoch)
        exit_code = 0
    finally:
        opened.finish(exit_code=exit_code)


LOGGERS: dict[str, Callable[[Run, int, dict[str, Any]], AbstractContextManager[LogEpoch]]] = {
    "tensorboard": tensorboard,
    "csv": csv_table,
    "mlflow": mlflow,
    "wandb": weights_and_biases,
}
