"""The time of a training step, by stage."""

import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

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
        training.fill_store()
        training.begin_epoch(config.optim.warmup_epochs)
        clock, rows = StageClock(training), []
        stream = iter(training.batches)
        for number in range(steps + 3):
            clock.begin()
            positions, images = next(stream)
            clock.end("data")
            training.step(positions, images)
            clock.end("other")
            training.progress.step += 1
            rows.append(dict(clock.spent) | {"step": sum(clock.spent.values())})
            if watcher is not None:
                watcher.stage("profiling", number + 1, steps + 3)
        stream.close()  # type: ignore[attr-defined]
    return {name: median(row.get(name, 0.0) for row in rows[3:]) for name in (*STAGES, "step")}


def prepare_training(config: RunConfig, run: Run, watcher: Watcher | None = None) -> TrainingLoop:
    """The training of ``config`` in the folder of ``run``, ready for its first step."""
    check(config)
    parts = PreparedParts(watcher or Watcher())
    fabric, bundle = parts.fabric(config), parts.bundle(config)
    return TrainingLoop(config, fabric, parts.split(config), bundle, parts.watcher, run)


class StageClock:
    """Seconds by stage: the time since the last stage ended is that of the stage that ends now."""

    def __init__(self, training: TrainingLoop) -> None:
        self.device = training.fabric.device
        training.objective.register_forward_pre_hook(lambda *_: self.end("other"))
        training.network.register_forward_pre_hook(lambda *_: self.end("loss"))
        training.network.register_forward_hook(lambda *_: self.end("forward"))
        training.objective.register_forward_hook(lambda *_: self.end("loss"))
        optimizer = training.schedule.optimizer
        optimizer.register_step_pre_hook(lambda *_: self.end("backward"))
        optimizer.register_step_post_hook(lambda *_: self.end("optimiser"))
        self.begin()

    def begin(self) -> None:
        """Begin a step."""
        self.spent: dict[str, float] = defaultdict(float)
        self.ended = self._now()

    def end(self, stage: str) -> None:
        """Add the time since the last end to a stage."""
        now = self._now()
        self.spent[stage] += now - self.ended
        self.ended = now

    def _now(self) -> float:
        """Seconds, after the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
