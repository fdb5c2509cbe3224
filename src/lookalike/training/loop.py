"""The training loop: plain, resumable at any step, tested once at the end."""

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Adam

from lookalike import data, models, samplers
from lookalike.config import RunConfig, without_effect
from lookalike.data import ImageSet, PixelStore, Preset, Split, Subset
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.metrics import check_metrics
from lookalike.files import atomically
from lookalike.progress import Watcher
from lookalike.runs.run import Run, run_name
from lookalike.training import checkpoint
from lookalike.training.activation_checkpointing import recompute_blocks
from lookalike.training.batches import TrainingBatches, embed_together
from lookalike.training.building import (
    HeadStart,
    Learner,
    build_learner,
    build_sampler,
    check_model,
    head_start,
)
from lookalike.training.compiling import compile_parts, telling_of_failed_compilers
from lookalike.training.distributed.batch_norm import share_statistics
from lookalike.training.distributed.devices import check_devices, must_launch, prepared_fabric
from lookalike.training.distributed.gather import average_gradients, in_step
from lookalike.training.distributed.launch import launch
from lookalike.training.distributed.ranks import (
    from_first,
    is_first,
    telling_of_lost_ranks,
    world_size,
)
from lookalike.training.ema import Average, lent
from lookalike.training.forward import Passes, Prepared
from lookalike.training.grad_cache import backward_by_chunks
from lookalike.training.loggers import check_loggers, open_loggers
from lookalike.training.objective import build_objective, check_parts
from lookalike.training.optimizer import QuickStep, build_optimizer, build_schedule
from lookalike.training.randomness import PassRandom
from lookalike.training.score import chance, format_score, more_is_better, score
from lookalike.training.signals import Interrupted, stop_signals
from lookalike.training.untrained import untrained_scores

__all__ = ["Interrupted", "Learning", "Training", "check", "splits_of", "train"]

SECONDS_BETWEEN_LOOKS = 0.5
FEATURES_AT_A_TIME = 8
"""Batches of frozen features that are read together."""


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    seconds: float = 0.0
    epoch_loss: float = 0.0
    best_score: float = -math.inf
    best_epoch: int = 0
    stale: int = 0
    stopped: bool = False
    log_bytes: int = 0


def train(config: RunConfig, watcher: Watcher | None = None) -> Run:
    """Train and test what ``config`` describes, or go on with it, or find it done."""
    watcher = watcher if watcher and is_first() else Watcher()
    check(config)
    preset = data.preset(config.data.transform)
    images = data.load(config.data.name, config.data.root, config.data.skip_unreadable)
    split = chosen_split(config, images)
    weights = models.fingerprint(config.model.network, config.model.weights)
    run = Run(config.runs_dir.expanduser() / run_name(config, images.fingerprint, weights))
    if run.done:
        return run
    for sentence in without_effect(config):
        watcher.note(sentence)
    store = data.open_store(
        images, preset.short_side, progress=lambda a, b: watcher.stage("decoding", a, b)
    )
    if must_launch(config):
        launch(config, watcher)
        return run
    with telling_of_lost_ranks(), run.locked() if is_first() else nullcontext():
        fabric = prepared_fabric(config.train)
        if from_first(lambda: run.done):  # by another process, meanwhile
            return run
        training = Training(config, fabric, run, split, store, preset, watcher)
        with telling_of_failed_compilers():
            training.complete(
                {"data_fingerprint": images.fingerprint, "weights_fingerprint": weights},
                {"unreadable": list(images.unreadable), "processes": world_size()},
            )
    return run


def check(config: RunConfig) -> None:
    """Refuse what cannot be trained, before anything is read."""
    check_parts(config)
    check_model(config)
    check_devices(config)
    check_loggers(config)
    check_metrics((config.train.metric, *config.protocol.metrics))
    if config.train.patience is not None and config.train.patience_epochs is not None:
        raise BadInput(
            "train.patience (validations) and train.patience_epochs (epochs) exclude each other"
        )
    if not more_is_better(config.train.metric):
        raise BadInput(f"train.metric = {config.train.metric!r}: more of it is not better")


class Learning:
    """What learns, from its first step to the model that validation chose; it writes nothing."""

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

        self.model, self.source = self.learner.model, self.learner.source
        self.objective = build_objective(config, split.train.class_count, self.model.dim)
        self.objective.to(self.fabric.device)
        if world_size() > 1 and config.train.accumulate == 1:
            share_statistics(self.model, self.fabric.device)
        if config.train.activation_checkpointing:
            recompute_blocks(self.model)
        if config.train.compile:
            compile_parts(self.model, self.objective, frozen=config.model.frozen)

        self.batches = TrainingBatches(
            split.train,
            self.source,
            build_sampler(config, split.train),
            config.seed,
            self.fabric.device,
            at_a_time=FEATURES_AT_A_TIME if config.model.frozen else 1,
        )
        self.per_epoch = config.train.batches_per_epoch or len(self.batches.sampler)
        self.total = config.train.epochs * self.per_epoch
        # Fabric cannot clip what a fused optimiser scales back itself, in 16-mixed.
        precision = self.fabric.strategy.precision.precision
        fused = precision != "16-mixed"
        optimizer = build_optimizer(config.optim, self.model, [self.objective], fused=fused)
        passes, self.optimizer = self.fabric.setup(Passes(self.model), optimizer)
        self.schedule = build_schedule(config.optim, optimizer, self.per_epoch, config.train.epochs)
        self.backpropagate: Callable[[Tensor], Any] = self.fabric.backward
        self.move: Callable[[], Any] = self.optimizer.step
        if world_size() == 1 and precision == "32-true":
            # Fabric would only look on, and a short step would wait for it
            passes, self.backpropagate = passes.module, torch.autograd.backward
            self.move = (
                QuickStep(optimizer) if fused and isinstance(optimizer, Adam) else optimizer.step
            )
        self.pass_random = PassRandom(config.seed)
        apart = world_size() > 1 and config.train.accumulate == 1
        self.prepared = Prepared(passes, self.pass_random) if apart else Prepared(passes)
        self.moving = nn.ModuleList([self.model, self.objective])
        self.weights = list(self.moving.parameters())
        self.average: Average | None = None

    def learn(self, start: HeadStart | None = None) -> None:
        """Train to the end and take the model that validation chose.

        ``start``: where the head starts, where that is known already.
        """
        if not self.resume():
            start = start or head_start(self.config, self.model, self.split.train, self.source)
            if start is not None:
                self.model.head.start_from(*start)
            in_step([*self.moving.parameters(), *self.moving.buffers()])
            self.begin_average()
            self.keep_start()
        unvalidated = self.progress.step == 0 and self.split.validation is not None
        if unvalidated or (self.progress.step < self.total and not self.progress.stopped):
            self.fit()
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.average is not None:
            self.model.load_state_dict(self.average.weights)

    def fit(self) -> None:
        """Validate the state before training; step until the last epoch or the end of patience."""
        look = Look(self)
        with (
            stop_signals(heeded=is_first()) as asked_to_stop,
            self.loggers() as loggers,
        ):
            if self.progress.step == 0:
                self.end_epoch(loggers)
            if self.progress.step < self.total:
                self.make_steps(look, loggers, asked_to_stop)
        look.count_time()

    def make_steps(
        self, look: "Look", loggers: list[Logger] | None, asked_to_stop: list[int]
    ) -> None:
        """Step until the last epoch is done, patience has run out, or a signal asks to stop."""
        self.fill_store()
        look.looked = time.monotonic()  # the speed of training, without validation
        for positions, images in self.batches:
            if self.progress.step % self.per_epoch == 0:
                self.begin_epoch(self.progress.step // self.per_epoch)
            loss = self.step(positions, images)
            self.progress.step += 1
            look.saw(positions, loss)
            if self.progress.step % self.per_epoch == 0:
                look.at_losses()
                self.end_epoch(loggers)
                look.looked = time.monotonic()
            look.save_if_due(force=bool(asked_to_stop))
            if self.progress.step == self.total or self.progress.stopped:
                break
            if asked_to_stop:
                raise Interrupted(
                    f"stopped at step {self.progress.step} of {self.total}; "
                    "the same command goes on from there"
                )

    def loggers(self) -> AbstractContextManager[list[Logger] | None]:
        """What shows the run's numbers; none here."""
        return nullcontext()

    def log(self, loggers: list[Logger], epoch: int, scores: dict[str, float]) -> None:
        """Write down an epoch, if this is kept anywhere."""

    def fill_store(self) -> None:
        """Give a sampler that chooses by embeddings those of all training images."""
        sampler = self.batches.sampler
        if isinstance(sampler, samplers.StoreSampler) and sampler.store is None:
            sampler.fill(self.embed(self.split.train, "filling the store"))

    def begin_average(self) -> None:
        """Start to average the weights from where they are, if the configuration says so."""
        if self.config.train.ema is not None:
            self.average = Average(self.model, self.config.train.ema)

    def chosen_weights(self) -> AbstractContextManager[None]:
        """Meanwhile the model has the weights that are validated: averaged ones, if there are."""
        return nullcontext() if self.average is None else self.average.inside(self.model)

    def begin_epoch(self, epoch: int) -> None:
        """Let the backbone stand still while the run warms up."""
        self.model.set_backbone_trainable(epoch >= self.config.optim.warmup_epochs)
        self.model.train()

    def step(self, positions: list[int], images: Tensor) -> Tensor:
        """One batch forward, backward and into the weights; the loss stays on the device."""
        images = images.to(self.fabric.device, non_blocking=True)
        labels = torch.from_numpy(self.split.train.labels[positions])
        self.pass_random.begin(self.progress.step)
        for weight in self.weights:
            weight.grad = None
        loss, embeddings = self.backward(images, labels)
        average_gradients(self.objective.parameters())
        self.clip_gradients()
        self.move()
        self.schedule.step()
        if self.average is not None:
            self.average.follow(self.model)
        if self.batches.sampler.uses_embeddings:
            self.batches.sampler.observe(torch.as_tensor(positions), embeddings.detach())
        value: Tensor = loss.detach()
        return value

    def clip_gradients(self) -> None:
        """Clip as configured.

        Gradients that are not finite are no error here: in half precision the scaler has seen
        them, skips the step and lowers its scale; otherwise the next loss is no number either,
        and the run stops there with the step and the batch's files.
        """
        optim = self.config.optim
        if optim.clip_value is not None:
            self.fabric.clip_gradients(self.moving, self.optimizer, clip_val=optim.clip_value)
        if optim.clip_norm is not None:
            self.fabric.clip_gradients(
                self.moving, self.optimizer, max_norm=optim.clip_norm, error_if_nonfinite=False
            )

    def backward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch and its embeddings; the gradients lie at the weights."""
        if self.config.train.accumulate > 1:
            return backward_by_chunks(
                self.fabric,
                self.objective,
                self.prepared,
                images,
                labels,
                chunks=self.config.train.accumulate,
                random=self.pass_random,
            )
        loss, embeddings = self.objective(self.prepared, images, labels)
        self.backpropagate(loss)
        return loss, embeddings

    def end_epoch(self, loggers: list[Logger] | None) -> None:
        """Log the epoch; validate it if it is time. Epoch 0 is the state before training."""
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
        """The scores of an epoch on validation classes; the best one is remembered."""
        progress, config = self.progress, self.config.train
        with self.chosen_weights():
            found = self.score(subset, "validating")
            if found[config.metric] > progress.best_score:
                progress.best_score, progress.best_epoch = found[config.metric], epoch
                progress.stale = 0
                self.best = {name: t.clone() for name, t in self.model.state_dict().items()}
            else:
                progress.stale += 1
        progress.stopped = self.out_of_patience(epoch)
        return found

    def out_of_patience(self, epoch: int) -> bool:
        """Whether the best of the validated epochs lies too far back, now that it is ``epoch``."""
        progress, config = self.progress, self.config.train
        if config.patience_epochs is not None:
            return epoch - progress.best_epoch > config.patience_epochs
        return progress.stale == config.patience

    def score(self, subset: Subset, stage: str) -> dict[str, float]:
        """Every metric of the protocol, and the one that chooses, on a subset."""
        embeddings = self.embed(subset, stage)
        metrics = dict.fromkeys((self.config.train.metric, *self.config.protocol.metrics))
        return score(embeddings, subset.labels, subset.query, subset.gallery, tuple(metrics))

    def embed(self, subset: Subset, stage: str) -> Tensor:
        """The embeddings of a subset by the model as it is now."""
        return embed_together(
            self.model,
            subset,
            self.source,
            batch_size=self.config.train.eval_batch_size,
            progress=lambda done, total: self.watcher.stage(stage, done, total),
        )

    def keep_start(self) -> None:
        """Keep the weights before training, if they are asked for at the end."""

    def save(self) -> None:
        """Write a checkpoint of everything, if this is kept anywhere."""

    def resume(self) -> bool:
        """Take up the last checkpoint, if there is one."""
        return False


class Training(Learning):
    """One run with a folder: resumable at any step, tested once, its result written last."""

    def __init__(
        self,
        config: RunConfig,
        fabric: Fabric,
        run: Run,
        split: Split,
        store: PixelStore,
        preset: Preset,
        watcher: Watcher,
    ) -> None:
        self.run = run
        images = split.train.images
        learner = build_learner(config, images, store, preset, fabric.device, watcher)
        super().__init__(config, fabric, split, learner, watcher)

    def complete(self, identity: dict[str, Any], record: dict[str, Any]) -> None:
        """Train to the end, choose the model, test it once, write the result."""
        if is_first():
            self.run.prepare(self.config, identity | record)
        self.learn()
        if is_first():
            checkpoint.save_weights(self.run.weights, self.model.state_dict())
        result = identity | {
            "run": self.run.folder.name,
            "seed": self.config.seed,
            "protocol": self.split.description,
            "train_images": len(self.split.train.indices),
            "train_classes": self.split.train.class_count,
            "parameters": self.learner.parameters,
            "steps": self.progress.step,
            "epochs": self.progress.step // self.per_epoch,
        }
        if self.split.validation is not None:
            known = self.split.validation
            result["chosen_epoch"] = self.progress.best_epoch
            result["validation_classes"] = known.class_count
            result["validation_chance"] = chance(known.labels, known.query, known.gallery)
            result["validation"] = {self.config.train.metric: self.progress.best_score}
        if self.config.protocol.test:
            result |= self.final_test()
        if is_first():
            self.run.finish(result, self.progress.seconds)
            checkpoint.remove_all(self.run.checkpoints)

    def loggers(self) -> AbstractContextManager[list[Logger] | None]:
        """What shows the run's numbers, in the process that writes."""
        if not is_first():
            return nullcontext()
        return open_loggers(self.config, self.run, self.progress.step // self.per_epoch)

    def log(self, loggers: list[Logger], epoch: int, scores: dict[str, float]) -> None:
        """One line in the run's own log, and whatever else shows it."""
        rates = {"lr": self.optimizer.param_groups[0]["lr"]}
        self.progress.log_bytes = append_line(
            self.run,
            self.progress.log_bytes,
            {"epoch": epoch, "step": self.progress.step} | scores | rates,
        )
        for logger in loggers:
            logger.log_metrics(scores, epoch)
        told = ", ".join(f"{name} {format_score(name, value)}" for name, value in scores.items())
        self.watcher.note(f"epoch {epoch}{'' if epoch else ', before training'}: {told}")

    def final_test(self) -> dict[str, Any]:
        """The one look at the test classes: by the chosen model, and by that before training.

        Nothing is chosen by what is found here.
        """
        test = self.split.final_test()
        embeddings = self.embed(test, "testing")
        if is_first():
            with atomically(self.run.folder / "test.safetensors") as draft:
                indices = torch.from_numpy(test.indices)
                save_file({"embeddings": embeddings, "indices": indices}, str(draft))
        scores = self.test_scores(test, embeddings)
        return {
            "test_images": len(test.indices),
            "test_classes": test.class_count,
            "test_chance": chance(test.labels, test.query, test.gallery),
            "test": scores,
        } | self.test_before_training(test, scores)

    def test_scores(self, test: Subset, embeddings: Tensor) -> dict[str, float]:
        """Every metric of the protocol on the test classes."""
        metrics = self.config.protocol.metrics
        return score(embeddings, test.labels, test.query, test.gallery, metrics)

    def test_before_training(
        self, test: Subset, trained: dict[str, float]
    ) -> dict[str, dict[str, float]]:
        """The test scores of the weights before training, if they were kept."""
        start = from_first(lambda: checkpoint.read_start(self.run.checkpoints))
        if start is None:
            return {}
        with lent(self.model, start):
            rows = embed_together(
                self.model.without_linear(),
                test,
                self.source,
                batch_size=self.config.train.eval_batch_size,
                progress=lambda done, total: self.watcher.stage("testing the start", done, total),
            )
            found = untrained_scores(self.model.head, rows, partial(self.test_scores, test))
        if self.split.validation is not None and self.progress.best_epoch == 0:
            found["untrained"] = dict(trained)  # it is this model that was chosen and tested
        return found

    def keep_start(self) -> None:
        """Write down the weights before training, for the final test."""
        protocol = self.config.protocol
        if is_first() and self.total and protocol.test and protocol.test_untrained:
            checkpoint.save_start(self.run.checkpoints, self.model.state_dict())

    def save(self) -> None:
        """Write a checkpoint of everything."""
        weights = {"model": self.model.state_dict(), "objective": self.objective.state_dict()}
        if self.best:
            weights["best"] = self.best
        if self.average is not None:
            weights["average"] = self.average.weights
        state = {
            "progress": vars(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "batches": self.batches.state_dict(),
            "random": checkpoint.random_states(),
            "precision": self.fabric.strategy.precision.state_dict(),
        }
        checkpoint.save(self.run.checkpoints, weights, state)

    def resume(self) -> bool:
        """Take up the last checkpoint, if there is one."""
        found = from_first(lambda: checkpoint.latest(self.run.checkpoints))
        if found is not None:
            weights, state = found
            self.progress = Progress(**state["progress"])
            self.model.load_state_dict(weights["model"])
            self.objective.load_state_dict(weights.get("objective", {}))
            self.best = weights.get("best", {})
            self.begin_average()
            if self.average is not None:
                self.average.restart(weights["average"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            self.batches.load_state_dict(state["batches"], self.progress.step)
            if state.get("precision"):  # the scale of half-precision gradients
                self.fabric.strategy.precision.load_state_dict(state["precision"])
            epoch = self.progress.step // self.per_epoch
            self.begin_epoch(epoch)
            checkpoint.restore_random(state["random"])
            self.watcher.note(f"going on from step {self.progress.step} of {self.total}")
        return found is not None


class Look:
    """Now and then: are the losses numbers, how fast is it, is a checkpoint due.

    Losses stay on the device between two looks, so that no step waits for it.
    """

    def __init__(self, training: Learning) -> None:
        self.training = training
        self.losses: list[Tensor] = []
        self.batches: list[list[int]] = []
        self.looked = self.saved = self.counted = time.monotonic()

    def saw(self, positions: list[int], loss: Tensor) -> None:
        """Keep the loss of a step; look at them all when it is time."""
        self.losses.append(loss)
        self.batches.append(positions)
        if time.monotonic() - self.looked > SECONDS_BETWEEN_LOOKS:
            self.at_losses()

    def at_losses(self) -> None:
        """Stop at the first loss that is not a number; tell the watcher the rest."""
        training, progress = self.training, self.training.progress
        if not self.losses:
            return
        values = torch.stack(self.losses).double().cpu()
        first = progress.step - len(values)
        broken = (~torch.isfinite(values)).nonzero().flatten()
        if len(broken):
            at = int(broken[0])
            subset = training.split.train
            names = [subset.images.files[subset.indices[i]] for i in self.batches[at]]
            raise LookalikeError(
                f"the loss is {float(values[at])} at step {first + at + 1} (epoch "
                f"{(first + at) // training.per_epoch + 1}); the batch was: {', '.join(names)}"
            )
        for value in values.tolist():  # one by one: the sum must not depend on when we look
            progress.epoch_loss += value
        now = time.monotonic()
        images = sum(len(batch) for batch in self.batches)
        training.watcher.stage(
            "training",
            progress.step,
            training.total,
            f"loss {values.mean():.4f}, {images / max(now - self.looked, 1e-9):.0f} images/s",
        )
        self.losses, self.batches, self.looked = [], [], now

    def save_if_due(self, force: bool) -> None:
        """Write a checkpoint when the last one is old enough; the first process does."""
        if not is_first():
            return
        if force or time.monotonic() - self.saved >= self.training.config.train.checkpoint_seconds:
            self.at_losses()
            self.count_time()
            self.training.save()
            self.saved = time.monotonic()

    def count_time(self) -> None:
        """Add the time since the last count to the run's."""
        now = time.monotonic()
        self.training.progress.seconds += now - self.counted
        self.counted = now


def chosen_split(config: RunConfig, images: ImageSet) -> Split:
    """The split that a run trains on: the only one of its protocol, or the fold it asks for."""
    protocol, splits = config.protocol, splits_of(config, images)
    if protocol.fold >= len(splits):
        raise BadInput(
            f"protocol.fold = {protocol.fold}: '{protocol.name}' has {len(splits)}, from 0"
        )
    chosen = splits[protocol.fold]
    return chosen if protocol.test else chosen.for_tuning()


def splits_of(config: RunConfig, images: ImageSet) -> list[Split]:
    """All folds of a run's protocol."""
    protocol = config.protocol
    return data.make_splits(
        images,
        protocol.name,
        seed=config.seed if protocol.seed is None else protocol.seed,
        ratio=protocol.ratio,
        folds=protocol.folds,
        order=protocol.order,
    )


def append_line(run: Run, at: int, values: dict[str, Any]) -> int:
    """Write one line of the log at byte ``at``, dropping what a killed process wrote after it."""
    line = (json.dumps(values) + "\n").encode()
    with run.log.open("r+b" if run.log.exists() else "w+b") as log:
        log.seek(at)
        log.truncate()
        log.write(line)
        log.flush()
        os.fsync(log.fileno())
    return at + len(line)
