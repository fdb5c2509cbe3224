"""The end of a run: its model is stored and tested once, and the result is written last.

Nothing is chosen by the scores of the test.
"""

import shutil
from typing import Any

import torch
from torch import Tensor

from lookalike import models
from lookalike.config import RunConfig
from lookalike.data import Subset
from lookalike.data.presets import preset_name
from lookalike.evaluation.class_table import ClassTable
from lookalike.models.lora import merge_lora
from lookalike.models.weights import read_tensors
from lookalike.runs.run import Run
from lookalike.training import checkpoint
from lookalike.training.distributed.ranks import from_first, is_first
from lookalike.training.loop import TrainingLoop
from lookalike.training.score import (
    chance,
    needs_training,
    score_with_classes,
    to_evaluation_device,
    untrained_embeddings,
)

TRAINING_STAGE = "embedding the training images"


def finish(training: TrainingLoop, run: Run, identity: dict[str, Any]) -> None:
    """Store the trained model, test it, write the result, and drop the checkpoints."""
    if is_first():
        checkpoint.save_weights(run.weights, training.model.state_dict())
    result = identity | description(training, run)
    if training.split.has_test:
        result |= final_test(training, run)
    if is_first():
        run.finish(result, training.progress.seconds)
        shutil.rmtree(run.checkpoints, ignore_errors=True)


def description(training: TrainingLoop, run: Run) -> dict[str, Any]:
    """What was trained, for how long, and what validation chose."""
    config, split, progress = training.config, training.split, training.progress
    result = {
        "run": run.folder.name,
        "seed": config.seed,
        "protocol": split.description,
        "train_images": len(split.train.indices),
        "train_classes": split.train.class_count,
        "parameters": training.bundle.parameters,
        "steps": progress.step,
        "epochs": progress.step // training.per_epoch,
    }
    given = config.data.transform
    if ":" in preset_name(given):  # who reads the run need not import the code
        keys = models.transform_as_keys(given, config.model.network)
        result["transform"] = keys.model_dump(mode="json", exclude_none=True)
    if (subset := split.validation) is not None:
        result["chosen_epoch"] = progress.best_epoch
        result["validation_classes"] = subset.class_count
        result["validation_chance"] = chance(subset.labels, subset.query, subset.gallery)
        result["validation"] = {config.train.metric: progress.best_score}
    return result


def final_test(training: TrainingLoop, run: Run) -> dict[str, Any]:
    """The only test: of the chosen model, and of the model before training."""
    test = training.split.final_test()
    scores = test_model(training, run, test)
    return {
        "test_images": len(test.indices),
        "test_classes": test.class_count,
        "test_chance": chance(test.labels, test.query, test.gallery),
        "test": scores,
    } | test_before_training(training, run, test, scores)


def test_again(training: TrainingLoop, run: Run) -> None:
    """Test the model of a finished run by the metrics that the protocol got since.

    Known scores stay. The weights before training are gone, so theirs get no new metric.
    """
    merge_lora(training.model)
    training.model.load_state_dict(read_tensors(run.checked(run.weights.name)))
    former = run.result
    training.config = with_metrics(training.config, tuple(former["test"]))
    scores = test_model(training, run, training.split.final_test())
    if is_first():
        run.finish(former | {"test": scores | former["test"]}, run.seconds)


def with_metrics(config: RunConfig, first: tuple[str, ...]) -> RunConfig:
    """The configuration with more metrics, before its own."""
    metrics = tuple(dict.fromkeys((*first, *config.protocol.metrics)))
    protocol = config.protocol.model_copy(update={"metrics": metrics})
    return config.model_copy(update={"protocol": protocol})


def test_model(training: TrainingLoop, run: Run, test: Subset) -> dict[str, float]:
    """The scores of the model on the test classes; embeddings and scores per class are stored."""
    embeddings = training.embed(test, "testing", exact=True)
    known = None
    if needs_training(training.config.protocol.metrics):
        known = training.embed(training.split.train, TRAINING_STAGE, exact=True)
    scores, classes = test_scores(training, test, embeddings, known)
    if is_first():
        tensors = {"embeddings": embeddings, "indices": torch.from_numpy(test.indices)}
        checkpoint.save_weights(run.folder / "test.safetensors", tensors)
        if classes is not None:
            run.write_classes(classes)
    return scores


def test_scores(
    training: TrainingLoop, test: Subset, embeddings: Tensor, known: Tensor | None
) -> tuple[dict[str, float], ClassTable | None]:
    """Every metric of the protocol on the test classes, and by class.

    ``known`` are the embeddings of the training images, for metrics that read them.
    """
    metrics, device = training.config.protocol.metrics, training.fabric.device
    rows = None
    if known is not None:
        rows = (to_evaluation_device(known, device), training.split.train.labels)
    return score_with_classes(to_evaluation_device(embeddings, device), test, metrics, rows)


def test_before_training(
    training: TrainingLoop, run: Run, test: Subset, trained: dict[str, float]
) -> dict[str, dict[str, float]]:
    """The test scores of the weights before training, if they are asked for."""
    if not training.tests_start:
        return {}
    start = from_first(lambda: checkpoint.read(run.start))
    with checkpoint.temporary_weights(training.model, start):
        head = training.model.head
        rows = training.embed(test, "testing the start", without_linear=True, exact=True)
        states, known = untrained_embeddings(head, rows), {}
        if needs_training(training.config.protocol.metrics):
            subset = training.split.train
            rows = training.embed(subset, TRAINING_STAGE, without_linear=True, exact=True)
            known = untrained_embeddings(head, rows)
    found = {
        state: test_scores(training, test, embeddings, known.get(state))[0]
        for state, embeddings in states.items()
    }
    if training.split.validation is not None and training.progress.best_epoch == 0:
        found["untrained"] = dict(trained)  # this is the model that was chosen and tested
    return found
