"""Progress of a run, and the monitor that checks its losses and reports its speed."""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from lookalike.config import TrainConfig
from lookalike.data import Subset
from lookalike.errors import LookalikeError
from lookalike.files import atomically
from lookalike.progress import Watcher
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
