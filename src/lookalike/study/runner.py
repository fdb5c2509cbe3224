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

from torch import Tensor

from lookalike.config import RunConfig, parse
from lookalike.data import Split, Subset
from lookalike.errors import LookalikeError, WriteFailed
from lookalike.files import FULL
from lookalike.models.head import l2_normalise
from lookalike.progress import Watcher
from lookalike.runs.run import Run, RunIsBusy, test_embeddings
from lookalike.signals import Interrupted
from lookalike.study.baselines import FoldFeatures, baselines, final_scores
from lookalike.study.classes import WHOLE
from lookalike.study.result_files import without_folders
from lookalike.training.batches import embed
from lookalike.training.building import PreparedParts, feeding_of, splits_of
from lookalike.training.loop import TrainingLoop
from lookalike.training.runner import train, train_once
from lookalike.training.score import TrainingRows, needs_training

Made = TypeVar("Made")
Kind = Literal["validate", "repeat", "baselines"]

UNWRITTEN = "unwritten"
"""The key of a record that says which file could not be written."""
BUSY_SECONDS = 0.5


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
        self.parts = PreparedParts(watcher or Watcher())

    def run(self, task: Task) -> dict[str, Any]:
        """The record of a task; an exception becomes a record with an ``error``.

        Where a disk failed, which says nothing about the task, it is ``unwritten`` instead.

        Raises:
            Interrupted: A signal stopped the task, which says nothing about it.
        """
        begun, prepared = time.monotonic(), self.parts.preparing_seconds
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
        preparing = self.parts.preparing_seconds - prepared
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
            run = train(config, parts=self.parts)
            value = run.result["validation"][config.train.metric]
            shutil.rmtree(run.folder, ignore_errors=True)  # the score is all that is kept
            if not math.isfinite(value):
                raise LookalikeError(f"the validation score is {value}")
            return {"score": float(value)}
        tuning = config.protocol.model_copy(update={"test": False})
        split = self.parts.split(config.model_copy(update={"protocol": tuning}))
        progress = self.learned(config, split).progress
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
        images = self.parts.images(config)
        for fold, split in enumerate(splits_of(config, images)):
            # the untrained network is a baseline of the study already
            changes = {"fold": fold, "test_untrained": False}
            protocol = config.protocol.model_copy(update=changes)
            one = config.model_copy(update={"protocol": protocol})
            if task.checkpoints:
                run = train(one, parts=self.parts)
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
        bundle = self.parts.bundle(config)
        plain = bundle.model.without_linear()
        size, feeding = config.train.eval_batch_size, feeding_of(config)

        def features(subset: Subset) -> Tensor:
            return embed(plain, subset, bundle.source, batch_size=size, feeding=feeding)

        splits = splits_of(config, self.parts.images(config))
        return [FoldFeatures(split, features) for split in splits]

    def learned(self, config: RunConfig, split: Split) -> TrainingLoop:
        """A model trained on a split, without a run folder; validation uses one metric."""
        chooser = config.protocol.model_copy(update={"metrics": (config.train.metric,)})
        return train_once(config.model_copy(update={"protocol": chooser}), self.parts, split)


def failure_of(error: Exception) -> dict[str, str]:
    """The record of a task that raised an exception."""
    kind = "" if isinstance(error, LookalikeError) else f"{type(error).__name__}: "
    sentence = " ".join(f"{kind}{error}".split())
    full = isinstance(error, OSError) and error.errno in (*FULL, errno.EROFS)
    if full or isinstance(error, WriteFailed):
        return {UNWRITTEN: sentence}
    return {"error": without_folders(sentence)}
