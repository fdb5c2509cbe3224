"""One run: trained, resumed after an interruption, tested once, its result written last."""

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.logger import Logger
from torch import Tensor

from lookalike import models
from lookalike.config import RunConfig, without_effect
from lookalike.data import ImageSet, ImageStore, Preset, Split, Subset
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.class_table import ClassTable
from lookalike.evaluation.metrics import check_metrics, more_is_better
from lookalike.files import atomically
from lookalike.models.lora import merge_lora, merged_state
from lookalike.models.weights import read_tensors
from lookalike.progress import Watcher
from lookalike.runs.run import Run, run_name
from lookalike.training import building, checkpoint
from lookalike.training.distributed import ranks
from lookalike.training.distributed.devices import (
    check_devices,
    may_be_unused,
    must_launch,
    prepared_fabric,
)
from lookalike.training.distributed.launch import launch
from lookalike.training.distributed.ranks import from_first, is_first
from lookalike.training.loggers import check_loggers, open_loggers
from lookalike.training.loop import TrainingLoop
from lookalike.training.monitor import Progress
from lookalike.training.objective import check_parts
from lookalike.training.score import (
    chance,
    format_score,
    needs_training,
    score_with_classes,
    to_evaluation_device,
    untrained_embeddings,
)
from lookalike.training.summary import first_line

TRAINING_STAGE = "embedding the training images"


def train(config: RunConfig, watcher: Watcher | None = None, images: ImageSet | None = None) -> Run:
    """Train and test what ``config`` describes, resume it, or find it done.

    A finished run whose test lacks metrics of ``config`` is tested again by those.

    Args:
        config: The configuration, as :func:`lookalike.config.load` returns it.
        watcher: Receives progress and notes.
        images: The data set of ``config``, where it is loaded already.

    Returns:
        The finished run.

    Raises:
        BadInput: The configuration or the data are invalid.
        Interrupted: SIGINT or SIGTERM stopped the run; the same call resumes it.
    """
    watcher = watcher if watcher and is_first() else Watcher()
    check(config)
    with ranks.disconnected_after():
        return _train(config, watcher, images)


def _train(config: RunConfig, watcher: Watcher, images: ImageSet | None) -> Run:
    connected = None
    if ranks.launched():
        connected = prepared_fabric(config.train, find_unused=may_be_unused(config))
    if not ranks.on_all_ranks(images is not None):  # torchrun: not each looks at every file
        images = ranks.from_first_of_machine(
            lambda: building.load_images(config, watcher=watcher)[0]
        )
    images, preset = building.load_images(config, images)
    config = building.with_chosen_store(config, images, preset, watcher)
    split = building.chosen_split(config, images)
    weights = models.fingerprint(config.model.network, config.model.weights)
    run = Run(config.runs_dir.expanduser() / run_name(config, images.fingerprint, weights))
    for sentence in without_effect(config):
        watcher.note(sentence)
    if run.done and not unmeasured(run, config, split):
        return run
    models.require_weights(config.model.network, config.model.weights)  # the store may be large
    store = building.open_store(config.data, images, preset, watcher)
    if must_launch(config):
        launch(config, watcher, images)
        return run
    with run.locked() if is_first() else nullcontext():
        fabric = connected or prepared_fabric(config.train)
        done = from_first(lambda: run.done)
        if done and not from_first(lambda: unmeasured(run, config, split)):
            return run  # by another process, meanwhile
        training = TrainingRun(config, fabric, run, split, store, preset, watcher)
        if done:
            training.add_scores()
            return run
        with explain_compiler_errors():
            training.complete(
                {"data_fingerprint": images.fingerprint, "weights_fingerprint": weights},
                {"unreadable": list(images.unreadable), "processes": ranks.world_size()},
            )
    return run


def unmeasured(run: Run, config: RunConfig, split: Split) -> list[str]:
    """The metrics of ``config`` by which a finished run was not tested."""
    known = run.scores
    return [m for m in config.protocol.metrics if m not in known] if split.has_test else []


def check(config: RunConfig) -> None:
    """Refuse a configuration that cannot be trained, before any data are read."""
    check_parts(config)
    building.check_model(config)
    check_devices(config)
    check_loggers(config)
    check_metrics((config.train.metric, *config.protocol.metrics))
    if not more_is_better(config.train.metric):
        raise BadInput(f"train.metric = {config.train.metric!r}: more of it is not better")


@contextmanager
def explain_compiler_errors() -> Iterator[None]:
    """Turn an error of torch's compiler, or of the C++ compiler it calls, into one sentence.

    torch has no public name for these errors, so they are recognised by their modules.
    """
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise LookalikeError(
            f"train.compile=true: the compiler failed ({reason}); the same command without "
            "train.compile trains the same model"
        ) from error


class TrainingRun(TrainingLoop):
    """A training loop with a run folder: resumable at any step, tested once at the end."""

    def __init__(
        self,
        config: RunConfig,
        fabric: Fabric,
        run: Run,
        split: Split,
        store: ImageStore,
        preset: Preset,
        watcher: Watcher,
    ) -> None:
        self.run = run
        self.checkpoints = checkpoint.Writer(run.checkpoints)
        images = split.train.images
        learner = building.build_learner(config, images, store, preset, fabric.device, watcher)
        super().__init__(config, fabric, split, learner, watcher)

    def complete(self, identity: dict[str, Any], record: dict[str, Any]) -> None:
        """Train to the end, choose the model, test it once, write the result."""
        if is_first():
            self.run.prepare(self.config, identity | record)
        self.watcher.note(first_line(self.split, self.config.train.epochs, self.per_epoch))
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
        given = self.config.data.transform
        if ":" in preset_name(given):  # who reads the run need not import the code
            keys = models.transform_as_keys(given, self.config.model.network)
            result["transform"] = keys.model_dump(mode="json", exclude_none=True)
        if self.split.validation is not None:
            subset = self.split.validation
            result["chosen_epoch"] = self.progress.best_epoch
            result["validation_classes"] = subset.class_count
            result["validation_chance"] = chance(subset.labels, subset.query, subset.gallery)
            result["validation"] = {self.config.train.metric: self.progress.best_score}
        if self.split.has_test:
            result |= self.final_test()
        if is_first():
            self.run.finish(result, self.progress.seconds)
            shutil.rmtree(self.run.checkpoints, ignore_errors=True)

    def loggers(self) -> AbstractContextManager[list[Logger] | None]:
        """The configured loggers, in the process that writes."""
        if not is_first():
            return nullcontext()
        return open_loggers(self.config, self.run, self.progress.step // self.per_epoch)

    def write_log(self) -> None:
        """Write the run's own log, whole: it is short, and a killed process leaves none of it."""
        with checkpoint.explain_failed_write(self.run.log), atomically(self.run.log) as draft:
            draft.write_text(self.progress.log, encoding="utf-8")

    def log(self, loggers: list[Logger], epoch: int, scores: dict[str, float]) -> None:
        """Write one line to the run's own log, and to its loggers."""
        rates = {"lr": self.optimizer.param_groups[0]["lr"]}
        line = {"epoch": epoch, "step": self.progress.step} | scores | rates
        self.progress.log += json.dumps(line) + "\n"
        self.write_log()
        for logger in loggers:
            logger.log_metrics(scores, epoch)
        text = ", ".join(f"{name} {format_score(name, value)}" for name, value in scores.items())
        self.watcher.note(f"epoch {epoch}{'' if epoch else ', before training'}: {text}")

    def final_test(self) -> dict[str, Any]:
        """The only test: of the chosen model, and of the model before training.

        Nothing is chosen by its scores.
        """
        test = self.split.final_test()
        embeddings = self.embed(test, "testing", exact=True)
        if is_first():
            tensors = {"embeddings": embeddings, "indices": torch.from_numpy(test.indices)}
            checkpoint.save_weights(self.run.folder / "test.safetensors", tensors)
        with_training = needs_training(self.config.protocol.metrics)
        scores, classes = self.test_scores(test, embeddings, self.training_embeddings())
        if is_first() and classes is not None:
            self.run.write_classes(classes)
        return {
            "test_images": len(test.indices),
            "test_classes": test.class_count,
            "test_chance": chance(test.labels, test.query, test.gallery),
            "test": scores,
        } | self.test_before_training(test, scores, with_training)

    def add_scores(self) -> None:
        """Test the trained model by the metrics that the protocol got since, and keep the others.

        The weights before training are gone, so their scores get no new metric.
        """
        merge_lora(self.model)
        checkpoint.load_weights(self.model, read_tensors(self.run.checked(self.run.weights.name)))
        former = self.run.result
        metrics = dict.fromkeys((*former["test"], *self.config.protocol.metrics))
        protocol = self.config.protocol.model_copy(update={"metrics": tuple(metrics)})
        self.config = self.config.model_copy(update={"protocol": protocol})
        test = self.split.final_test()
        embeddings = self.embed(test, "testing", exact=True)
        scores, classes = self.test_scores(test, embeddings, self.training_embeddings())
        if is_first():
            if classes is not None:
                self.run.write_classes(classes)
            self.run.finish(former | {"test": scores | former["test"]}, self.run.seconds)

    def training_embeddings(self) -> Tensor | None:
        """The embeddings of the training images, where a metric needs them."""
        if not needs_training(self.config.protocol.metrics):
            return None
        return self.embed(self.split.train, TRAINING_STAGE, exact=True)

    def test_scores(
        self, test: Subset, embeddings: Tensor, training: Tensor | None
    ) -> tuple[dict[str, float], ClassTable | None]:
        """Every metric of the protocol on the test classes, and by class."""
        metrics, device = self.config.protocol.metrics, self.fabric.device
        known = None
        if training is not None:
            known = (to_evaluation_device(training, device), self.split.train.labels)
        return score_with_classes(to_evaluation_device(embeddings, device), test, metrics, known)

    def test_before_training(
        self, test: Subset, trained: dict[str, float], with_training: bool
    ) -> dict[str, dict[str, float]]:
        """The test scores of the weights before training, if they were kept."""
        start = from_first(lambda: checkpoint.read_start(self.run.checkpoints))
        if start is None:
            return {}
        with checkpoint.temporary_weights(self.model, start):
            head = self.model.head
            rows = self.embed(test, "testing the start", without_linear=True, exact=True)
            states, training = untrained_embeddings(head, rows), {}
            if with_training:
                rows = self.embed(self.split.train, TRAINING_STAGE, without_linear=True, exact=True)
                training = untrained_embeddings(head, rows)
        found = {
            state: self.test_scores(test, embeddings, training.get(state))[0]
            for state, embeddings in states.items()
        }
        if self.split.validation is not None and self.progress.best_epoch == 0:
            found["untrained"] = dict(trained)  # this is the model that was chosen and tested
        return found

    def keep_start(self) -> None:
        """Store the weights before training, for the final test."""
        protocol = self.config.protocol
        if self.total and self.split.has_test and protocol.test_untrained and is_first():
            checkpoint.save_start(self.run.checkpoints, merged_state(self.model))

    def save(self) -> None:
        """Write a checkpoint: weights, optimiser, schedule, sampler, random states, counters."""
        weights = {"model": self.model.state_dict(), "objective": self.objective.state_dict()}
        if self.best:
            weights["best"] = self.best
        if self.ema is not None:
            weights["average"] = self.ema.weights
        state = {
            "progress": vars(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "batches": self.batches.state_dict(),
            "random": checkpoint.random_states(),
            "precision": self.fabric.strategy.precision.state_dict(),
        }
        self.checkpoints.save(weights, state)

    def finish_saving(self) -> None:
        """Wait until the last checkpoint is written."""
        self.checkpoints.wait()

    def resume(self) -> bool:
        """Load the last checkpoint; whether there was one."""
        found = checkpoint.latest_on_all_ranks(self.run.checkpoints)
        if found is not None:
            weights, state = found
            try:
                self.progress = Progress(**state["progress"])
            except TypeError as error:
                raise LookalikeError(
                    f"the checkpoint in '{self.run.checkpoints}' is of another version of "
                    "lookalike; remove the run's folder, and the same command begins anew"
                ) from error
            if is_first():
                self.write_log()  # as it was then, whatever has become of the file
            checkpoint.load_weights(self.model, weights["model"])
            self.objective.load_state_dict(weights.get("objective", {}))
            self.best = weights.get("best", {})
            self.start_ema()
            if self.ema is not None:
                self.ema.load(weights["average"])
            checkpoint.load_optimizer(self.optimizer, state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
            self.batches.load_state_dict(state["batches"], self.progress.step)
            if state.get("precision"):  # the scale of half-precision gradients
                self.fabric.strategy.precision.load_state_dict(state["precision"])
            self.begin_epoch(self.progress.step // self.per_epoch)
            checkpoint.restore_random(state["random"])
            self.watcher.note(f"going on from step {self.progress.step} of {self.total}")
        return found is not None
