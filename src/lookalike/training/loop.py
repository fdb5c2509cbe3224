"""A training from top to bottom: build, learn, step, validate, save, resume.

``train`` (``runner.py``) makes what it takes and tests the model that comes out
(``final_test.py``); a study does the same without the folder of a run.
"""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from lookalike.config import RunConfig
from lookalike.data import Split, Subset
from lookalike.errors import LookalikeError
from lookalike.models.lora import merge_lora, merged_state
from lookalike.progress import Watcher
from lookalike.runs.run import Run
from lookalike.samplers import StoreSampler
from lookalike.signals import Interrupted, stop_signals
from lookalike.training import checkpoint
from lookalike.training.batches import TrainingBatches, embed
from lookalike.training.building import (
    HeadWeights,
    ModelBundle,
    build_sampler,
    feeding_of,
)
from lookalike.training.distributed.gather import (
    average_gradients,
    broadcast_from_first,
    share_statistics,
)
from lookalike.training.distributed.ranks import from_first, is_first, world_size
from lookalike.training.forward import DropoutRNG, ForwardDispatch, recompute_blocks
from lookalike.training.monitor import LogEpoch, StepMonitor, TrainingProgress, open_loggers
from lookalike.training.objective import build_objective
from lookalike.training.optimizer import (
    WeightAverage,
    build_optimizer,
    build_schedule,
    clip_gradients,
)
from lookalike.training.score import first_line, format_score, score, to_evaluation_device


class TrainingLoop:
    """Trains a model from its first step to the epoch that validation chooses.

    Args:
        config: The configuration.
        fabric: The devices and the precision, connected to the other processes.
        split: The classes to train, to validate and to test on.
        bundle: The model, and where its inputs come from.
        watcher: Receives progress and notes.
        run: The folder for checkpoints, from which the training resumes, and for its log; None:
            nothing is written.
    """

    def __init__(
        self,
        config: RunConfig,
        fabric: Fabric,
        split: Split,
        bundle: ModelBundle,
        watcher: Watcher,
        run: Run | None = None,
    ) -> None:
        self.config = config
        self.fabric = fabric
        self.split = split
        self.bundle = bundle
        self.watcher = watcher
        self.run = run
        self.checkpoints = None if run is None else checkpoint.CheckpointWriter(run.last)
        self.progress = TrainingProgress()
        self.best: dict[str, Tensor] = {}

        # The model and what it minimises
        torch.set_float32_matmul_precision(config.train.matmul_precision)
        self.model, self.source = bundle.model, bundle.source
        self.objective = build_objective(config, split.train.class_count, self.model.dim)
        self.objective.to(fabric.device)
        self.trainable = nn.ModuleList([self.model, self.objective])
        self.parameters = list(self.trainable.parameters())
        if world_size() > 1 and config.train.accumulate == 1:
            share_statistics(self.model, fabric.device)
        if config.train.activation_checkpointing:
            recompute_blocks(self.model)
        if config.train.compile:  # the network, or for frozen features the head with its loss
            (self.objective if config.model.frozen else self.model.backbone).compile()

        # Its batches
        train, sampler = split.train, build_sampler(config, split.train)
        self.batches = TrainingBatches(
            train, self.source, sampler, config.seed, fabric.device, feeding=feeding_of(config)
        )
        self.per_epoch = config.train.batches_per_epoch or len(self.batches.sampler)
        self.total = config.train.epochs * self.per_epoch
        # whether the final test, which can be taken once, is of the weights before training too
        self.tests_start = split.has_test and config.protocol.test_untrained and self.total > 0

        # Forward, backward and optimiser step, by Fabric where it has something to do
        precision = fabric.strategy.precision.precision
        # Fabric cannot clip gradients that a fused optimiser unscales itself, in 16-mixed.
        fused = precision != "16-mixed"
        optimizer = build_optimizer(config.optim, self.model, self.objective, fused=fused)
        self.dropout_rng = DropoutRNG(config.seed)
        rng = self.dropout_rng if world_size() > 1 else None
        chunks = config.train.accumulate
        dispatch = ForwardDispatch(self.model, self.source.inputs, rng, chunks)
        self.optimizer: Any
        self.network: Any
        self.network, self.optimizer = fabric.setup(dispatch, optimizer)
        self.schedule = build_schedule(config.optim, optimizer, self.per_epoch, config.train.epochs)
        self.backpropagate: Callable[[Tensor], Any] = fabric.backward
        self.optimizer_step: Callable[[], Any] = self.optimizer.step
        if world_size() == 1 and precision == "32-true":  # its wrappers slow down a short step
            self.network, self.backpropagate = dispatch, torch.autograd.backward
            self.optimizer_step = optimizer.step
        average = config.train.ema
        self.ema = None if average is None else WeightAverage(self.model, average)

        # What a checkpoint holds the state of, besides progress, best weights and random states
        self.resumable: dict[str, Any] = {
            "model": self.model,
            "objective": self.objective,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "batches": self.batches,
            "precision": fabric.strategy.precision,  # the scale of half-precision gradients
        }
        if self.ema is not None:
            self.resumable["ema"] = self.ema

    def learn(self, initial_head: Callable[[], HeadWeights | None]) -> None:
        """Train to the end, then load the weights of the best epoch.

        Adapters are merged then: what is tested and stored is a network without them.

        Args:
            initial_head: Computes the initial weights of the head; None: they are random.
        """
        if self.run is not None:
            self.watcher.note(first_line(self.split, self.config.train.epochs, self.per_epoch))
        if not self.resume():
            if (head := initial_head()) is not None:
                self.model.head.start_from(*head)
            broadcast_from_first([*self.trainable.parameters(), *self.trainable.buffers()])
            if self.ema is not None:
                self.ema.load_state_dict(self.model.state_dict())
            self.save_start()
        unvalidated = self.progress.step == 0 and self.split.validation is not None
        if unvalidated or (self.progress.step < self.total and not self.progress.stopped):
            self.fit()
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.ema is not None:
            self.model.load_state_dict(self.ema.weights)
        merge_lora(self.model)

    def fit(self) -> None:
        """Validate the model before training, then step until the end."""
        monitor = StepMonitor(
            self.progress, self.split.train, self.watcher, self.total, self.per_epoch
        )
        run = self.run if is_first() else None
        with (
            stop_signals(enabled=is_first()) as signals,
            open_loggers(self.config, run, self.progress.step // self.per_epoch) as loggers,
        ):
            if self.progress.step == 0:
                self.end_epoch(loggers)
            if self.progress.step < self.total:
                try:
                    self.run_steps(monitor, loggers, signals)
                finally:
                    if self.checkpoints is not None:
                        self.checkpoints.wait()
        monitor.count_time()

    def run_steps(self, monitor: StepMonitor, loggers: list[LogEpoch], signals: list[int]) -> None:
        """Step until the last epoch is done, patience has run out, or a signal has come."""
        self.fill_store()
        saved = time.monotonic()
        monitor.restart_clock()  # the speed of training, without validation
        for positions, images in self.batches:
            if self.progress.step % self.per_epoch == 0:
                self.begin_epoch(self.progress.step // self.per_epoch)
            loss = self.step(positions, images)
            self.progress.step += 1
            monitor.record(positions, loss)
            if self.progress.step % self.per_epoch == 0:
                monitor.flush()
                self.end_epoch(loggers)
                monitor.restart_clock()
            due = time.monotonic() - saved >= self.config.train.checkpoint_seconds
            if is_first() and (signals or due):
                monitor.flush()
                monitor.count_time()
                self.save()
                saved = time.monotonic()
            if self.progress.step == self.total or self.progress.stopped:
                break
            if signals:
                raise Interrupted(
                    f"stopped at step {self.progress.step} of {self.total}; "
                    "the same command resumes from there"
                )

    def begin_epoch(self, epoch: int) -> None:
        """Set the training mode; the backbone does not learn during warm-up."""
        self.model.set_backbone_trainable(epoch >= self.config.optim.warmup_epochs)
        self.model.train()

    def step(self, positions: list[int], images: Tensor) -> Tensor:
        """Forward, backward and optimiser step of one batch; the loss stays on the device."""
        images = images.to(self.fabric.device, non_blocking=True)
        labels = torch.from_numpy(self.split.train.labels[positions])
        self.dropout_rng.begin(self.progress.step)
        for parameter in self.parameters:
            parameter.grad = None
        loss: Tensor
        loss, embeddings = self.objective(self.network, images, labels)
        self.backpropagate(loss)
        average_gradients(self.objective.parameters())
        clip_gradients(self.config.optim, self.fabric, self.trainable, self.optimizer)
        self.optimizer_step()
        self.schedule.step()
        if self.ema is not None:
            self.ema.update(self.model)
        if self.batches.sampler.uses_embeddings:
            self.batches.sampler.observe(torch.as_tensor(positions), embeddings.detach())
        return loss.detach()

    def end_epoch(self, loggers: list[LogEpoch]) -> None:
        """Validate the epoch if it is due, and log it. Epoch 0 is the model before training."""
        progress, config = self.progress, self.config.train
        epoch = progress.step // self.per_epoch
        scores: dict[str, float] = {}
        if epoch:
            scores["loss"] = progress.epoch_loss / self.per_epoch
            progress.epoch_loss = 0.0
        due = epoch % config.validate_every == 0 or epoch == config.epochs
        if self.split.validation is not None and due:
            found = self.validate(self.split.validation, epoch)
            scores |= {f"validation {name}": value for name, value in found.items()}
        if self.run is None or not is_first() or not scores:
            return
        rates = {"lr": self.optimizer.param_groups[0]["lr"]}
        progress.log += json.dumps({"epoch": epoch, "step": progress.step} | scores | rates) + "\n"
        progress.write_log(self.run.log)
        for log_epoch in loggers:
            log_epoch(scores, epoch)
        text = ", ".join(f"{name} {format_score(name, value)}" for name, value in scores.items())
        self.watcher.note(f"epoch {epoch}{'' if epoch else ', before training'}: {text}")

    def validate(self, subset: Subset, epoch: int) -> dict[str, float]:
        """The scores of an epoch on the validation classes; the best weights are kept."""
        config = self.config.train
        averaged = None if self.ema is None else self.ema.weights
        with (
            nullcontext()
            if averaged is None
            else checkpoint.temporary_weights(self.model, averaged)
        ):
            found = self.score(subset, "validating")
            if self.progress.take_score(found[config.metric], epoch, config):
                self.best = {name: t.clone() for name, t in self.model.state_dict().items()}
        return found

    def score(self, subset: Subset, stage: str) -> dict[str, float]:
        """Every metric of the protocol, and the one that chooses, on a subset."""
        embeddings = to_evaluation_device(self.embed(subset, stage), self.fabric.device)
        metrics = dict.fromkeys((self.config.train.metric, *self.config.protocol.metrics))
        return score(embeddings, subset, tuple(metrics))

    def embed(
        self, subset: Subset, stage: str, *, without_linear: bool = False, exact: bool = False
    ) -> Tensor:
        """The embeddings of a subset, or the inputs of the head's linear layer.

        In the precision of training, or with ``exact`` in full precision, as an exported model
        computes them.
        """
        model = self.model.without_linear() if without_linear else self.model
        return embed(
            model,
            subset,
            self.source,
            batch_size=self.config.train.eval_batch_size,
            progress=lambda done, total: self.watcher.stage(stage, done, total),
            distributed=True,
            autocast=nullcontext if exact else self.fabric.autocast,
            feeding=feeding_of(self.config),
        )

    def fill_store(self) -> None:
        """Give a sampler that chooses by embeddings those of all training images."""
        sampler = self.batches.sampler
        if isinstance(sampler, StoreSampler) and sampler.store is None:
            sampler.fill(self.embed(self.split.train, "filling the store"))

    def save_start(self) -> None:
        """Store the weights before training, for the final test."""
        if (run := self.run) is not None and self.tests_start:
            from_first(lambda: checkpoint.write(run.start, merged_state(self.model)))

    def save(self) -> None:
        """Write a checkpoint."""
        if self.checkpoints is None:
            return
        state = {name: part.state_dict() for name, part in self.resumable.items()}
        random = checkpoint.random_states()
        progress = vars(self.progress)
        self.checkpoints.save(state | {"progress": progress, "best": self.best, "random": random})

    def resume(self) -> bool:
        """Load the last checkpoint; whether there was one."""
        if self.run is None:
            return False
        state = checkpoint.read_on_all_ranks(self.run.last)
        if state is None:
            return False
        try:
            self._restore(state)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, LookalikeError) or "memory" in str(error):
                raise
            raise LookalikeError(
                f"the checkpoint in '{self.run.checkpoints}' is of another version of lookalike; "
                "remove the run's folder, and the same command begins anew"
            ) from error
        if is_first():
            self.progress.write_log(self.run.log)  # as it was then, whatever has become of the file
        self.begin_epoch(self.progress.step // self.per_epoch)
        checkpoint.restore_random(state["random"])  # once more: what an epoch draws is before it
        self.watcher.note(f"going on from step {self.progress.step} of {self.total}")
        return True

    def _restore(self, state: checkpoint.CheckpointState) -> None:
        """Load the content of a checkpoint; any of these exceptions: it has another content."""
        parts = {*self.resumable, "progress", "best", "random"}
        if state.keys() != parts or state["progress"].keys() != vars(self.progress).keys():
            raise ValueError("it has other parts")
        self.progress = TrainingProgress(**state["progress"])
        self.best = state["best"]
        for name, part in self.resumable.items():
            if name == "optimizer":
                checkpoint.load_optimizer(part, state[name])
            else:
                part.load_state_dict(state[name])
        checkpoint.restore_random(state["random"])
