"""The time of a training step, by stage."""

import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lookalike.config import RunConfig
from lookalike.progress import Watcher
from lookalike.runs.run import Run
from lookalike.training.building import PreparedParts
from lookalike.training.loop import TrainingLoop
from lookalike.training.runner import check

STAGES = ("data", "forward", "loss", "backward", "optimiser", "other")


def profile(config: RunConfig, watcher: Watcher | None = None, steps: int = 20) -> dict[str, float]:
    """Median seconds of each stage of a step, and of the whole step; nothing is stored.

    The first three steps are not counted.
    """
    with TemporaryDirectory() as folder:
        training = prepare_training(config, Run(Path(folder)), watcher)
        clock = StageClock(training)
        training.fill_store()
        training.begin_epoch(config.optim.warmup_epochs)
        rows = []
        stream = iter(training.batches)
        for number in range(steps + 3):
            clock.spent.clear()
            began = clock.now()
            positions, images = next(stream)
            clock.spent["data"] = clock.now() - began
            training.step(positions, images)
            training.progress.step += 1
            rows.append(dict(clock.spent) | {"step": clock.now() - began})
            if watcher is not None:
                watcher.stage("profiling", number + 1, steps + 3)
        stream.close()  # type: ignore[attr-defined]
    return summary(rows[3:])


def prepare_training(config: RunConfig, run: Run, watcher: Watcher | None = None) -> TrainingLoop:
    """The training of ``config`` in the folder of ``run``, ready for its first step."""
    check(config)
    watcher = watcher or Watcher()
    parts = PreparedParts(watcher)
    fabric, bundle = parts.fabric(config), parts.bundle(config)
    return TrainingLoop(config, fabric, parts.split(config), bundle, watcher, run)


class StageClock:
    """Seconds by stage, measured around the parts of a training."""

    def __init__(self, training: TrainingLoop) -> None:
        self.device = training.fabric.device
        self.spent: dict[str, float] = defaultdict(float)
        self.measure(training, "network", "forward")
        self.measure(training, "objective", "objective")
        self.measure(training.fabric, "backward", "backward")  # of a batch in chunks
        self.measure(training, "backpropagate", "backward")
        self.measure(training, "optimizer_step", "optimiser")

    def now(self) -> float:
        """Seconds, after the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def measure(self, owner: Any, name: str, stage: str) -> None:
        """Count the calls of ``owner.name`` as ``stage``."""
        setattr(owner, name, Timed(getattr(owner, name), self, stage))


class Timed:
    """A callable that adds the time of its calls to a stage."""

    def __init__(self, inner: Any, clock: StageClock, stage: str) -> None:
        self.inner, self.clock, self.stage = inner, clock, stage

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the call."""
        began = self.clock.now()
        try:
            return self.inner(*args, **kwargs)
        finally:
            self.clock.spent[self.stage] += self.clock.now() - began

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    """Medians; the time of the objective outside the passes through the model is the loss."""
    for row in rows:
        row["loss"] = row.pop("objective", 0.0) - row.get("forward", 0.0)
        row["other"] = row["step"] - sum(row.get(stage, 0.0) for stage in STAGES)
    return {stage: median(row.get(stage, 0.0) for row in rows) for stage in (*STAGES, "step")}
