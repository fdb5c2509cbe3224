"""The training loop: steps, validation after each epoch, and the choice of the best epoch."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from torch import Tensor, nn
from torch.optim import Adam

from lookalike.config import RunConfig
from lookalike.data import Split, Subset
from lookalike.models import multi_view
from lookalike.models.lora import merge_lora
from lookalike.progress import Watcher
from lookalike.samplers import StoreSampler
from lookalike.training.activation_checkpointing import recompute_blocks
from lookalike.training.batches import TrainingBatches, embed
from lookalike.training.building import HeadStart, Learner, build_sampler, feeding_of, head_start
from lookalike.training.checkpoint import load_weights, temporary_weights
from lookalike.training.distributed.batch_norm import share_statistics
from lookalike.training.distributed.gather import average_gradients, broadcast_from_first
from lookalike.training.distributed.ranks import is_first, world_size
from lookalike.training.ema import WeightAverage
from lookalike.training.forward import DropoutRNG, FabricModel, ForwardDispatch
from lookalike.training.grad_cache import backward_by_chunks
from lookalike.training.monitor import Progress, StepMonitor
from lookalike.training.objective import build_objective
from lookalike.training.optimizer import FunctionalStep, build_optimizer, build_schedule
from lookalike.training.score import score, to_evaluation_device
from lookalike.training.signals import Interrupted, stop_signals

FEATURE_BATCHES_PER_READ = 8
"""Batches of frozen features that are read together."""


class TrainingLoop:
    """Trains a model from its first step to the epoch that validation chooses; writes nothing."""

    def __init__(
        self,
        config: RunConfig,
        fabric: Fabric,
        split: Split,
        learner: Learner,
        watcher: Watcher,
    ) -> None:
        self.config = config
        self.fabric = fabric
        self.split = split
        self.learner = learner
        self.watcher = watcher
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.ema: WeightAverage | None = None

        torch.set_float32_matmul_precision(config.train.matmul_precision)
        self.model, self.source = learner.model, learner.source
        self.objective = build_objective(config, split.train.class_count, self.model.dim)
        self.objective.to(fabric.device)
        distributed = world_size() > 1 and config.train.accumulate == 1
        if distributed:
            share_statistics(self.model, fabric.device)
        if config.train.activation_checkpointing:
            recompute_blocks(self.model)
        if config.train.compile:  # the network, or for frozen features the head with its loss
            (self.objective if config.model.frozen else self.model.backbone).compile()

        self.feeding = feeding_of(config)
        self.batches = TrainingBatches(
            split.train,
            self.source,
            build_sampler(config, split.train),
            config.seed,
            fabric.device,
            per_read=FEATURE_BATCHES_PER_READ if config.model.frozen else 1,
            feeding=self.feeding,
        )
        self.per_epoch = config.train.batches_per_epoch or len(self.batches.sampler)
        self.total = config.train.epochs * self.per_epoch
        precision = fabric.strategy.precision.precision
        # Fabric cannot clip gradients that a fused optimiser unscales itself, in 16-mixed.
        fused = precision != "16-mixed"
        optimizer = build_optimizer(config.optim, self.model, self.objective, fused=fused)
        passes: Any
        self.optimizer: Any
        passes, self.optimizer = fabric.setup(
            ForwardDispatch(self.model, self.source.inputs), optimizer
        )
        self.schedule = build_schedule(config.optim, optimizer, self.per_epoch, config.train.epochs)
        self.backpropagate: Callable[[Tensor], Any] = fabric.backward
        self.optimizer_step: Callable[[], Any] = self.optimizer.step
        if world_size() == 1 and precision == "32-true":
            # Fabric has nothing to do here, and its wrappers would slow down a short step
            passes, self.backpropagate = passes.module, torch.autograd.backward
            self.optimizer_step = optimizer.step
            if isinstance(optimizer, Adam) and optimizer.defaults["fused"]:
                self.optimizer_step = FunctionalStep(optimizer)
        self.dropout_rng = DropoutRNG(config.seed)
        drawing = self.dropout_rng if distributed else nullcontext
        self.network = FabricModel(passes, drawing)
        self.trainable = nn.ModuleList([self.model, self.objective])
        self.parameters = list(self.trainable.parameters())
        self.averaged = list(self.objective.parameters())

    def learn(self, start: HeadStart | None = None) -> None:
        """Train to the end, from ``start`` if computed, then load the weights of the best epoch.

        Adapters are merged then: what is tested and stored is a network without them.
        """
        if not self.resume():
            start = start or head_start(self.config, self.model, self.split.train, self.source)
            if start is not None:
                self.model.head.start_from(*start)
            broadcast_from_first([*self.trainable.parameters(), *self.trainable.buffers()])
            self.start_ema()
            self.keep_start()
        unvalidated = self.progress.step == 0 and self.split.validation is not None
        if unvalidated or (self.progress.step < self.total and not self.progress.stopped):
            self.fit()
        if self.best:
            load_weights(self.model, self.best)
        elif self.ema is not None:
            load_weights(self.model, self.ema.weights)
        merge_lora(self.model)

    def fit(self) -> None:
        """Validate the model before training, then step until the end."""
        monitor = StepMonitor(
            self.progress, self.split.train, self.watcher, self.total, self.per_epoch
        )
        with stop_signals(enabled=is_first()) as signals, self.loggers() as loggers:
            if self.progress.step == 0:
                self.end_epoch(loggers)
            if self.progress.step < self.total:
                try:
                    self.run_steps(monitor, loggers, signals)
                finally:
                    self.finish_saving()
        monitor.count_time()

    def run_steps(
        self, monitor: StepMonitor, loggers: list[Logger] | None, signals: list[int]
    ) -> None:
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
                    "the same command goes on from there"
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
        loss, embeddings = self.backward(images, labels)
        average_gradients(self.averaged)
        self.clip_gradients()
        self.optimizer_step()
        self.schedule.step()
        if self.ema is not None:
            self.ema.update(self.model)
        if self.batches.sampler.uses_embeddings:
            self.batches.sampler.observe(torch.as_tensor(positions), embeddings.detach())
        detached: Tensor = loss.detach()
        return detached

    def backward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch and its embeddings; the parameters have their gradients."""
        if self.config.train.accumulate > 1:
            return backward_by_chunks(
                self.fabric,
                self.objective,
                self.network,
                images,
                labels,
                chunks=self.config.train.accumulate,
                random=self.dropout_rng,
            )
        loss, embeddings = self.objective(self.network, images, labels)
        self.backpropagate(loss)
        return loss, embeddings

    def clip_gradients(self) -> None:
        """Clip as configured.

        Gradients that are not finite are no error here: in half precision the scaler skips the
        step and lowers its scale; otherwise the next loss is not finite either, and the run stops
        there with the step and the files of the batch.
        """
        optim = self.config.optim
        if optim.clip_value is not None:
            self.fabric.clip_gradients(self.trainable, self.optimizer, clip_val=optim.clip_value)
        if optim.clip_norm is not None:
            self.fabric.clip_gradients(
                self.trainable, self.optimizer, max_norm=optim.clip_norm, error_if_nonfinite=False
            )

    def end_epoch(self, loggers: list[Logger] | None) -> None:
        """Log the epoch; validate it if it is due. Epoch 0 is the model before training."""
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
        if loggers is not None and scores:
            self.log(loggers, epoch, scores)

    def validate(self, subset: Subset, epoch: int) -> dict[str, float]:
        """The scores of an epoch on the validation classes; the best weights are kept."""
        progress, config = self.progress, self.config.train
        averaged = None if self.ema is None else self.ema.weights
        with nullcontext() if averaged is None else temporary_weights(self.model, averaged):
            found = self.score(subset, "validating")
            progress.last_score = found[config.metric]
            if found[config.metric] > progress.best_score:
                progress.best_score, progress.best_epoch = found[config.metric], epoch
                progress.stale = 0
                self.best = {name: t.clone() for name, t in self.model.state_dict().items()}
            else:
                progress.stale += 1
        if config.patience_epochs is not None:
            progress.stopped = epoch - progress.best_epoch > config.patience_epochs
        else:
            progress.stopped = progress.stale == config.patience
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
            multi_view(model, self.learner.views),
            subset,
            self.source,
            batch_size=self.config.train.eval_batch_size,
            progress=lambda done, total: self.watcher.stage(stage, done, total),
            distributed=True,
            autocast=nullcontext if exact else self.fabric.autocast,
            feeding=self.feeding,
        )

    def fill_store(self) -> None:
        """Give a sampler that chooses by embeddings those of all training images."""
        sampler = self.batches.sampler
        if isinstance(sampler, StoreSampler) and sampler.store is None:
            sampler.fill(self.embed(self.split.train, "filling the store"))

    def start_ema(self) -> None:
        """Start the exponential moving average of weights and buffers, if configured."""
        if self.config.train.ema is not None:
            self.ema = WeightAverage(self.model, self.config.train.ema)

    def loggers(self) -> AbstractContextManager[list[Logger] | None]:
        """The loggers of the run; none here."""
        return nullcontext()

    def log(self, loggers: list[Logger], epoch: int, scores: dict[str, float]) -> None:
        """Log the scores of an epoch; a subclass with a run folder does."""

    def keep_start(self) -> None:
        """Keep the weights before training; a subclass with a run folder does."""

    def save(self) -> None:
        """Write a checkpoint; a subclass with a run folder does."""

    def finish_saving(self) -> None:
        """Wait until the last checkpoint is written; a subclass with a run folder does."""

    def resume(self) -> bool:
        """Load the last checkpoint; whether there was one."""
        return False
