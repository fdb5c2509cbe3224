"""The tasks of a study, and what executes them: one fold of a trial, or one repeat of a winner.

A task and its record are plain values, so that any process can execute it. Data, features and
initial heads stay in memory between tasks.
"""

import errno
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from lookalike.config import RunConfig, parse
from lookalike.data import Split, Subset
from lookalike.errors import LookalikeError, WriteFailed
from lookalike.evaluation.class_table import ClassTable
from lookalike.files import FULL
from lookalike.models.head import l2_normalise
from lookalike.progress import Watcher
from lookalike.runs.run import Run, RunIsBusy, test_embeddings
from lookalike.signals import Interrupted
from lookalike.study.records import JOINED, LAST, VALIDATION, Record, TaskKey
from lookalike.training.building import PreparedParts, splits_of
from lookalike.training.runner import train, train_once
from lookalike.training.score import TrainingRows, needs_training, score_with_classes

BUSY_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """One unit of work: a trial trains one fold without the test set, a repeat every fold."""

    row: int
    """The place of its row in the plan."""
    key: TaskKey
    config: dict[str, Any]
    """A resolved ``RunConfig``."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The hyper-parameters of a trial."""
    asked: int = 0
    """Of how many trials the setting of a repeat was the best."""
    checkpoints: bool = False
    """Whether runs have folders, in which they can be resumed."""
    keep: bool = True
    """Whether the folders of repeats are kept."""
    title: str = ""
    """What error messages call it."""

    @property
    def name(self) -> tuple[int, TaskKey]:
        """What tells it from all others of the study."""
        return self.row, self.key


@dataclass(frozen=True)
class TaskResult:
    """The record of a task, or None if every process that executed it died."""

    task: Any
    record: Any
    reason: str = ""
    """Why there is no record."""


@dataclass(frozen=True)
class TrainedFold:
    """A model that was trained on one fold: its embeddings of the test images, and its scores."""

    validation: float | None
    last: float | None
    """The validation score of the last epoch, where it is known."""
    test: Subset | None = None
    embeddings: Tensor | None = None
    training: TrainingRows | None = None
    """The embeddings of the training images, for metrics that need them."""
    run: Run | None = None


class TaskRunner:
    """Executes tasks one after the other; what several of them need is made once."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.parts = PreparedParts(watcher or Watcher())

    def run(self, task: Task) -> Record:
        """The record of a task; an exception becomes a record with an ``error``.

        Where a disk failed, which says nothing about the task, it is ``unwritten`` instead.

        Raises:
            Interrupted: A signal stopped the task, which says nothing about it.
        """
        begun, prepared = time.monotonic(), self.parts.preparing_seconds
        while True:
            try:
                config = parse(task.config, task.title)
                found = (
                    self.trial(config, task) if task.key.repeat < 0 else self.repeat(config, task)
                )
            except Interrupted:  # this process is to end; the task is executed again
                raise
            except RunIsBusy:  # by a worker whose driver was killed, until it notices
                time.sleep(BUSY_SECONDS)
                continue
            except Exception as error:  # a loss may raise anything; the study goes on
                found = failure_of(error)
            break
        preparing = self.parts.preparing_seconds - prepared
        seconds = time.monotonic() - begun - preparing
        return replace(
            found,
            seconds=round(seconds, 3),
            preparing_seconds=round(preparing, 3),
            parameters=task.parameters if task.key.repeat < 0 else {},
            seed=int(task.config.get("seed", 0)),
            asked=task.asked,
        )

    def trial(self, config: RunConfig, task: Task) -> Record:
        """Train one fold without the test set; the validation score of the best and last epoch."""
        trained = self.train_fold(config, self.parts.split(config), task)
        if trained.run is not None:
            shutil.rmtree(trained.run.folder, ignore_errors=True)  # the score is all that is kept
        score, metric = trained.validation, config.train.metric
        if score is None or not math.isfinite(score):
            raise LookalikeError(f"the validation score is {score}")
        last = {} if trained.last is None else {LAST + metric: trained.last}
        return Record({task.key.fold: {VALIDATION + metric: score} | last})

    def repeat(self, config: RunConfig, task: Task) -> Record:
        """Train every fold; test each model, and their concatenated embeddings."""
        trained = []
        for fold, split in enumerate(splits_of(config, self.parts.images(config))):
            # the untrained network is a baseline of the study already
            changes = {"fold": fold, "test_untrained": False}
            protocol = config.protocol.model_copy(update=changes)
            one = config.model_copy(update={"protocol": protocol})
            trained.append(self.train_fold(one, split, task))
        record = final_scores(trained, config.protocol.metrics)
        for fold, model in enumerate(trained):
            if model.validation is not None:
                chosen = {VALIDATION + config.train.metric: model.validation}
                record.scores[fold] = chosen | record.scores[fold]
        runs = [model.run for model in trained if model.run is not None]
        if task.keep:
            return replace(record, runs=tuple(run.folder.name for run in runs))
        for run in runs:
            shutil.rmtree(run.folder, ignore_errors=True)
        return record

    def train_fold(self, config: RunConfig, split: Split, task: Task) -> TrainedFold:
        """Train on one fold, in the folder of a run or without; embed the test images, if any."""
        metric, tests = config.train.metric, config.protocol.test
        if task.checkpoints:
            run = train(config, parts=self.parts)
            found = run.result.get("validation", {}).get(metric)
            if not tests:
                return TrainedFold(found, None, run=run)
            rows = test_embeddings(run, self.parts.images(config)).embeddings
            return TrainedFold(found, None, split.final_test(), l2_normalise(rows), run=run)
        chooser = config.protocol.model_copy(update={"metrics": (metric,)})
        one = config.model_copy(update={"protocol": chooser})
        training = train_once(one, self.parts, split)
        progress, validated = training.progress, split.validation is not None
        best, last = (progress.best_score, progress.last_score) if validated else (None, None)
        if not tests:
            return TrainedFold(best, last)
        test = split.final_test()
        rows = l2_normalise(training.embed(test, "testing", exact=True))
        known = None
        if needs_training(config.protocol.metrics):
            known = training.embed(split.train, "testing", exact=True), split.train.labels
        return TrainedFold(best, last, test, rows, known)


def final_scores(trained: Sequence[TrainedFold], metrics: tuple[str, ...]) -> Record:
    """The test scores of each model, and of their concatenated embeddings where there are several.

    Equal embeddings (raw features) are scored once: concatenated they rank the same. Metrics that
    need the training images have no concatenated value: each fold has its own training classes.
    """
    scores: dict[int, dict[str, float]] = {}
    classes: dict[int, ClassTable] = {}
    embedded = [one.embeddings for one in trained if one.embeddings is not None]
    first, test = embedded[0], trained[0].test
    if test is None:
        raise LookalikeError("the protocol has no test images")
    same = all(torch.equal(one, first) for one in embedded[1:])
    for fold, (model, rows) in enumerate(zip(trained, embedded, strict=True)):
        if fold and same and model.training is None:
            scores[fold], table = scores[0], classes.get(0)
        else:
            scores[fold], table = score_with_classes(rows, test, metrics, model.training)
        if model.run is not None:  # its result has those that need the training images, too
            scores[fold] = model.run.result["test"]
        if table is not None:
            classes[fold] = table
    if len(trained) > 1:
        joined, table = scores[0], classes.get(0)
        if not same or trained[0].training is not None:
            joined, table = score_with_classes(torch.cat(embedded, 1), test, metrics)
        scores[JOINED] = joined
        if table is not None:
            classes[JOINED] = table
    return Record(scores, classes=classes)


def failure_of(error: Exception) -> Record:
    """The record of a task that raised an exception."""
    kind = "" if isinstance(error, LookalikeError) else f"{type(error).__name__}: "
    sentence = " ".join(f"{kind}{error}".split())
    full = isinstance(error, OSError) and error.errno in (*FULL, errno.EROFS)
    if full or isinstance(error, WriteFailed):
        return Record(unwritten=sentence)
    return Record(error=sentence)
