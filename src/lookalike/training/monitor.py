"""What is known of a run while it trains: its progress, the monitor of its losses, its loggers.

A logger, besides the run's own ``metrics.jsonl``, is a context that gives a function of the scores
of an epoch: TensorBoard, CSV, MLflow, W&B. None has an influence on the outcome.
"""

import csv
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import torch
from lightning_fabric.loggers.tensorboard import TensorBoardLogger
from torch import Tensor

from lookalike.config import RunConfig, TrainConfig
from lookalike.config.keys import flattened
from lookalike.data import Subset
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically, naming
from lookalike.progress import Watcher
from lookalike.runs.run import Run
from lookalike.training.checkpoint import explain_failed_write

SECONDS_BETWEEN_FLUSHES = 0.5


@dataclass
class TrainingProgress:
    """The counters of a run and its log, as a checkpoint stores them."""

    step: int = 0
    seconds: float = 0.0
    epoch_loss: float = 0.0
    best_score: float = -math.inf
    best_epoch: int = 0
    last_score: float = -math.inf
    """On the validation classes, of the last epoch that was validated."""
    stale: int = 0
    stopped: bool = False
    log: str = ""

    def take_score(self, score: float, epoch: int, config: TrainConfig) -> bool:
        """Count the validation of an epoch, and stop where patience runs out.

        Returns:
            Whether the score is the best so far.
        """
        better = score > self.best_score
        self.last_score = score
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best_score, self.best_epoch = score, epoch
        if config.patience_epochs is not None:
            self.stopped = epoch - self.best_epoch > config.patience_epochs
        else:
            self.stopped = self.stale == config.patience
        return better

    def write_log(self, path: Path) -> None:
        """Write the log whole: it is short, and a killed process leaves none of it."""
        with explain_failed_write(path), atomically(path) as draft:
            draft.write_text(self.log, encoding="utf-8")


@dataclass
class StepMonitor:
    """Checks that losses are finite, reports them, and counts the time.

    Losses stay on the device between two flushes, so that no step waits for the device.
    """

    progress: TrainingProgress
    subset: Subset
    watcher: Watcher
    total: int
    per_epoch: int
    losses: list[Tensor] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)
    flushed_at: float = field(default_factory=time.monotonic)
    counted_at: float = field(default_factory=time.monotonic)

    def record(self, positions: list[int], loss: Tensor) -> None:
        """Keep the loss of a step; flush when the last flush is old enough."""
        self.losses.append(loss)
        self.batches.append(positions)
        if time.monotonic() - self.flushed_at > SECONDS_BETWEEN_FLUSHES:
            self.flush()

    def flush(self) -> None:
        """Raise at the first loss that is not finite; report the mean of the others."""
        if not self.losses:
            return
        values = torch.stack(self.losses).double().cpu()
        first = self.progress.step - len(values)
        invalid = (~torch.isfinite(values)).nonzero().flatten()
        if len(invalid):
            at = int(invalid[0])
            names = [self.subset.images.files[self.subset.indices[i]] for i in self.batches[at]]
            raise LookalikeError(
                f"the loss is {float(values[at])} at step {first + at + 1} (epoch "
                f"{(first + at) // self.per_epoch + 1}): {_cause(first + at)}; its batch began "
                f"with {', '.join(names[:3])}"
            )
        for value in values.tolist():  # one by one: the sum must not depend on the flushes
            self.progress.epoch_loss += value
        seconds = max(time.monotonic() - self.flushed_at, 1e-9)
        images = sum(len(batch) for batch in self.batches)
        self.watcher.stage(
            "training",
            self.progress.step,
            self.total,
            f"loss {values.mean():.4f}, {images / seconds:.0f} images/s",
        )
        self.losses, self.batches = [], []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure the speed from now on."""
        self.flushed_at = time.monotonic()

    def count_time(self) -> None:
        """Add the time since the last count to the run's."""
        now = time.monotonic()
        self.progress.seconds += now - self.counted_at
        self.counted_at = now


def _cause(steps_before: int) -> str:
    """What usually makes a loss infinite, by when it happens."""
    if steps_before == 0:
        return (
            "with the starting weights, so the loss itself gives it for these similarities (a "
            "fractional power or logarithm of a negative number, a division by 0)"
        )
    return (
        "earlier losses were finite, so either the weights have grown without limit (try a smaller "
        "optim.lr, or optim.clip_norm=1) or the loss is not defined for all similarities"
    )


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
