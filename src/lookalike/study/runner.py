"""Tasks, and what executes them: data, features and initial heads stay in memory between tasks.

A task and its record are plain values, so that any process can execute it.
"""

import errno
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from lightning_fabric import Fabric
from pydantic import BaseModel
from torch import Tensor

from lookalike.config import RunConfig, parse
from lookalike.config.keys import feature_values
from lookalike.data import ImageSet, ImageStore, Preset, Split, Subset
from lookalike.data.presets import NETWORK, preset_name
from lookalike.errors import LookalikeError, WriteFailed
from lookalike.files import FULL
from lookalike.models import multi_view
from lookalike.models.head import l2_normalise
from lookalike.progress import Watcher
from lookalike.runs.run import Run, RunIsBusy, test_embeddings
from lookalike.study.baselines import FoldFeatures, baselines, final_scores
from lookalike.study.classes import WHOLE
from lookalike.study.result_files import without_folders
from lookalike.training.batches import embed
from lookalike.training.building import (
    HeadWeights,
    ModelBundle,
    build_bundle,
    bundle_of_features,
    feeding_of,
    frozen_features,
    initial_head,
    load_images,
    open_store,
    splits_of,
)
from lookalike.training.distributed.devices import prepared_fabric
from lookalike.training.loop import TrainingLoop
from lookalike.training.runner import train
from lookalike.training.score import TrainingRows, needs_training
from lookalike.training.signals import Interrupted

Made = TypeVar("Made")
Kind = Literal["validate", "repeat", "baselines"]

UNWRITTEN = "unwritten"
"""The key of a record that says which file could not be written."""
BUSY_SECONDS = 0.5
KEPT = {"features": 2, "store": 4}
"""How much stays in memory where the rows of a study differ in data sets and networks."""


@dataclass(frozen=True)
class Task:
    """One unit of work.

    ``validate``: train one fold without the test set. ``repeat``: train every fold and test.
    ``baselines``: what needs no training.
    """

    key: str
    kind: Kind
    config: dict[str, Any]
    """A resolved ``RunConfig``."""
    checkpoints: bool = False
    """Whether runs have folders, in which they can be resumed."""
    keep: bool = True
    """Whether the folders of repeats are kept."""
    title: str = ""
    """What error messages call it."""


@dataclass(frozen=True)
class TaskResult:
    """The record of a task, or None if every process that executed it died."""

    task: Task
    record: dict[str, Any] | None
    reason: str = ""
    """Why there is no record."""


class TaskRunner:
    """Executes tasks one after the other; what several of them need is made once."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.watcher = watcher or Watcher()
        self.cache: dict[str, dict[str, Any]] = {}
        self.preparing_seconds = 0.0
        """Spent on images, networks and features that several tasks share."""

    def run(self, task: Task) -> dict[str, Any]:
        """The record of a task; an exception becomes a record with an ``error``.

        Where a disk failed, which says nothing about the task, it is ``unwritten`` instead.

        Raises:
            Interrupted: A signal stopped the task, which says nothing about it.
        """
        begun, prepared = time.monotonic(), self.preparing_seconds
        work: dict[str, Callable[[RunConfig, Task], dict[str, Any]]] = {
            "validate": self.validate,
            "repeat": self.repeat,
            "baselines": lambda config, _: self.baselines(config),
        }
        try:
            found = self.when_free(lambda: work[task.kind](parse(task.config, task.title), task))
        except Interrupted:  # this process is to end; the task is executed again
            raise
        except Exception as error:  # a loss may raise anything; the study goes on
            found = failure_of(error)
        preparing = self.preparing_seconds - prepared
        seconds = time.monotonic() - begun - preparing
        return found | {"seconds": round(seconds, 3), "preparing_seconds": round(preparing, 3)}

    def when_free(self, work: Callable[[], Made]) -> Made:
        """The result of ``work``, once no other process trains the same run.

        That is a worker whose driver was killed, until it notices.
        """
        while True:
            try:
                return work()
            except RunIsBusy:
                time.sleep(BUSY_SECONDS)

    def validate(self, config: RunConfig, task: Task) -> dict[str, Any]:
        """Train one fold without the test set; the validation score of the best and last epoch."""
        if task.checkpoints:
            run = train(config, self.watcher)
            value = run.result["validation"][config.train.metric]
            shutil.rmtree(run.folder, ignore_errors=True)  # the score is all that is kept
            if not math.isfinite(value):
                raise LookalikeError(f"the validation score is {value}")
            return {"score": float(value)}
        progress = self.learned(config, self.tuning_split(config)).progress
        if not math.isfinite(progress.best_score):
            raise LookalikeError(f"the validation score is {progress.best_score}")
        return {"score": float(progress.best_score), "last": float(progress.last_score)}

    def repeat(self, config: RunConfig, task: Task) -> dict[str, Any]:
        """Train every fold; test each model, and their concatenated embeddings."""
        metric, metrics = config.train.metric, config.protocol.metrics
        validation, embedded, tested = [], [], []
        runs: list[Run] = []
        training: list[TrainingRows] = []
        test: Subset | None = None
        images, _, _ = self.store(config)
        for fold, split in enumerate(splits_of(config, images)):
            # the untrained network is a baseline of the study already
            changes = {"fold": fold, "test_untrained": False}
            protocol = config.protocol.model_copy(update=changes)
            one = config.model_copy(update={"protocol": protocol})
            if task.checkpoints:
                run = train(one, self.watcher)
                runs.append(run)
                if split.validation is not None:
                    validation.append(float(run.result["validation"][metric]))
                embedded.append(l2_normalise(test_embeddings(run, images).embeddings))
                tested.append(run.result["test"])
                test = split.final_test()
            else:
                learning = self.learned(one, split)
                if split.validation is not None:
                    validation.append(float(learning.progress.best_score))
                test = split.final_test()
                embedded.append(l2_normalise(learning.embed(test, "testing", exact=True)))
                if needs_training(metrics):
                    rows = learning.embed(split.train, "testing", exact=True)
                    training.append((rows, split.train.labels))
        if test is None:
            raise LookalikeError("the protocol has no folds")
        scores = final_scores(embedded, test, metrics, training)
        separate, together = scores.separate, scores.concatenated
        if tested:  # by the runs themselves, which have the embeddings of their training images
            separate, together = tested, together if len(tested) > 1 else tested[0]
        found: dict[str, Any] = {
            "validation": validation,
            "separate": separate,
            "concatenated": together,
        }
        if scores.classes.separate:
            found["classes"] = {WHOLE: scores.classes}
        if runs and task.keep:
            found["runs"] = [run.folder.name for run in runs]
        for run in () if task.keep else runs:
            shutil.rmtree(run.folder, ignore_errors=True)
        return found

    def baselines(self, config: RunConfig) -> dict[str, Any]:
        """Raw features, PCA and LDA."""
        folds, metrics = self.fold_features(config), config.protocol.metrics
        rows, classes = baselines(folds, config.model.dim, config.train.metric, metrics)
        return {"rows": rows, "classes": classes}

    def fold_features(self, config: RunConfig) -> list[FoldFeatures]:
        """Every fold, and the inputs of the head by subset; no test label is read."""
        images, _, _ = self.store(config)
        learner = self.learner(config)
        plain = multi_view(learner.model.without_linear(), learner.views)
        size, feeding = config.train.eval_batch_size, feeding_of(config)

        def features(subset: Subset) -> Tensor:
            return embed(plain, subset, learner.source, batch_size=size, feeding=feeding)

        return [FoldFeatures(split, features) for split in splits_of(config, images)]

    def learned(self, config: RunConfig, split: Split) -> TrainingLoop:
        """A model trained on a split, without a run folder; validation uses one metric."""
        chooser = config.protocol.model_copy(update={"metrics": (config.train.metric,)})
        scored = config.model_copy(update={"protocol": chooser})
        learning = TrainingLoop(
            scored, self.fabric(config), split, self.learner(config), self.watcher
        )
        learning.learn(self.start(config, learning))
        return learning

    def learner(self, config: RunConfig) -> ModelBundle:
        """The model and its source."""
        images, store, preset = self.store(config)
        device = self.fabric(config).device
        if not config.model.frozen:
            begun = time.monotonic()
            learner = build_bundle(config, images, store, preset, device, self.watcher)
            self.preparing_seconds += time.monotonic() - begun
            return learner
        features = self.cached(
            lambda: frozen_features(config, images, store, preset, device, self.watcher),
            "features", config.data, config.model.weights, feature_values(config),
        )  # fmt: skip
        return bundle_of_features(config, features, device)

    def start(self, config: RunConfig, learning: TrainingLoop) -> HeadWeights | None:
        """The initial head; on frozen features it is the same for all trials of a fold."""
        if not config.model.frozen:
            return None
        split = learning.split
        return self.cached(
            lambda: initial_head(config, learning.model, split.train, learning.source),
            "start", config.data, config.model, config.protocol, split.fold,
        )  # fmt: skip

    def tuning_split(self, config: RunConfig) -> Split:
        """The classes of one fold, without the test images."""
        images, _, _ = self.store(config)
        return self.cached(
            lambda: splits_of(config, images)[config.protocol.fold].for_tuning(),
            "split", config.data, config.protocol, config.seed,
        )  # fmt: skip

    def store(self, config: RunConfig) -> tuple[ImageSet, ImageStore, Preset]:
        """The images of a data set, decoded."""

        def opened() -> tuple[ImageSet, ImageStore, Preset]:
            images, preset = load_images(config)
            return images, open_store(config.data, images, preset, self.watcher), preset

        given = config.data
        own = config.model.network if preset_name(given.transform) == NETWORK else ""
        halves = config.protocol.order, config.protocol.seed
        return self.cached(opened, "store", given, own, *halves)

    def fabric(self, config: RunConfig) -> Fabric:
        """The device and precision."""
        train = config.train
        return self.cached(lambda: prepared_fabric(train), "fabric", train.device, train.precision)

    def cached(self, make: Callable[[], Made], kind: str, *key: Any) -> Made:
        """What was made for ``key``, or what ``make`` returns; the oldest of a kind are dropped."""
        parts = (p.model_dump_json() if isinstance(p, BaseModel) else repr(p) for p in key)
        name = "|".join(parts)
        kept = self.cache.setdefault(kind, {})
        begun = time.monotonic()
        made: Made = kept.pop(name) if name in kept else make()
        if kind in KEPT:
            self.preparing_seconds += time.monotonic() - begun
        kept[name] = made  # the newest is the last
        while len(kept) > KEPT.get(kind, 64):
            del kept[next(iter(kept))]
        return made


def failure_of(error: Exception) -> dict[str, str]:
    """The record of a task that raised an exception."""
    kind = "" if isinstance(error, LookalikeError) else f"{type(error).__name__}: "
    sentence = " ".join(f"{kind}{error}".split())
    full = isinstance(error, OSError) and error.errno in (*FULL, errno.EROFS)
    if full or isinstance(error, WriteFailed):
        return {UNWRITTEN: sentence}
    return {"error": without_folders(sentence)}
