"""One run: trained, resumed after an interruption, tested once, its result written last."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookalike import models
from lookalike.config import RunConfig, load_trusted, without_effect
from lookalike.data import ImageSet, Split, Subset
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation import EmbeddingsFile, read_embeddings
from lookalike.evaluation.class_table import ClassTable
from lookalike.evaluation.metrics import check_metrics, more_is_better
from lookalike.models.lora import merge_lora
from lookalike.models.weights import read_tensors
from lookalike.progress import Watcher
from lookalike.runs.run import Run, run_name, test_embeddings
from lookalike.training import building, checkpoint
from lookalike.training.building import PreparedParts
from lookalike.training.distributed import ranks
from lookalike.training.distributed.launch import check_devices, launch, must_launch
from lookalike.training.distributed.ranks import from_first, is_first
from lookalike.training.loop import TrainingLoop
from lookalike.training.monitor import check_loggers
from lookalike.training.objective import check_parts
from lookalike.training.score import (
    chance,
    needs_training,
    score_with_classes,
    to_evaluation_device,
    untrained_embeddings,
)


def train_once(
    config: RunConfig, parts: PreparedParts, split: Split, run: Run | None = None
) -> TrainingLoop:
    """Train the model of ``config`` on ``split``: as runs and trials of studies do.

    Args:
        config: The configuration.
        parts: What training runs share.
        split: The classes to train and validate on.
        run: The folder for checkpoints, from which the training resumes; None: nothing is written.

    Returns:
        The training at its end, with the weights of the best epoch.
    """
    bundle = parts.bundle(config)
    training = TrainingLoop(config, parts.fabric(config), split, bundle, parts.watcher, run)
    if run is not None and is_first():
        unreadable = list(parts.images(config).unreadable)
        record = {"unreadable": unreadable, "processes": ranks.world_size()}
        run.prepare(config, parts.identity(config) | record)
    with explain_compiler_errors():
        training.learn(lambda: parts.initial_head(config, bundle.model, split, bundle.source))
    return training


def train(
    config: RunConfig,
    watcher: Watcher | None = None,
    images: ImageSet | None = None,
    parts: PreparedParts | None = None,
) -> Run:
    """Train and test what ``config`` describes, resume it, or find it done.

    A finished run whose test lacks metrics of ``config`` is tested again by those.

    Args:
        config: The configuration, as :func:`lookalike.config.load` returns it.
        watcher: Receives progress and notes.
        images: The data set of ``config``, where it is loaded already.
        parts: What several training runs share, in place of ``watcher`` and ``images``.

    Returns:
        The finished run.

    Raises:
        BadInput: The configuration or the data are invalid.
        Interrupted: SIGINT or SIGTERM stopped the run; the same call resumes it.
    """
    watcher = watcher if watcher and is_first() else Watcher()
    check(config)
    with ranks.disconnected_after():
        return _train(config, parts or PreparedParts(watcher, images))


def _train(config: RunConfig, parts: PreparedParts) -> Run:
    watcher = parts.watcher
    if ranks.launched():
        parts.fabric(config)  # connects the processes
    images = ranks.one_of_machine_first(lambda: parts.images(config))
    config = building.with_chosen_store(config, images, parts.preset(config), watcher)
    split = parts.split(config)
    run = Run(config.runs_dir.expanduser() / run_name(config, *parts.identity(config).values()))
    for sentence in without_effect(config):
        watcher.note(sentence)
    if run.done and not unmeasured(run, config, split):
        return run
    models.require_weights(config.model.network, config.model.weights)  # the store may be large
    parts.store(config)
    if must_launch(config):
        launch(config, watcher, images)
        return run
    with run.locked() if is_first() else nullcontext():
        done = from_first(lambda: run.done)
        if done and not from_first(lambda: unmeasured(run, config, split)):
            return run  # by another process, meanwhile
        if done:
            bundle = parts.bundle(config)
            test_again(TrainingLoop(config, parts.fabric(config), split, bundle, watcher, run), run)
            return run
        finish(train_once(config, parts, split, run), run, parts.identity(config))
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


TRAINING_STAGE = "embedding the training images"


def finish(training: TrainingLoop, run: Run, identity: dict[str, Any]) -> None:
    """Store the trained model, test it, write the result last, and drop the checkpoints.

    Nothing is chosen by the scores of the test.
    """
    if is_first():
        checkpoint.save_weights(run.weights, training.model.state_dict())
    result = identity | description(training, run)
    if training.split.has_test:
        test = training.split.final_test()
        result |= {
            "test_images": len(test.indices),
            "test_classes": test.class_count,
            "test_chance": chance(test.labels, test.query, test.gallery),
            "test": test_model(training, run, test),
        }
        result |= test_start(training, run, test, result["test"])
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


def test_again(training: TrainingLoop, run: Run) -> None:
    """Test the model of a finished run by the metrics that the protocol got since.

    Known scores stay. The weights before training are gone, so theirs get no new metric.
    """
    merge_lora(training.model)
    training.model.load_state_dict(read_tensors(run.checked(run.weights.name)))
    former, protocol = run.result, training.config.protocol
    metrics = tuple(dict.fromkeys((*former["test"], *protocol.metrics)))
    protocol = protocol.model_copy(update={"metrics": metrics})
    training.config = training.config.model_copy(update={"protocol": protocol})
    scores = test_model(training, run, training.split.final_test())
    if is_first():
        run.finish(former | {"test": scores | former["test"]}, run.seconds)


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


def test_start(
    training: TrainingLoop, run: Run, test: Subset, trained: dict[str, float]
) -> dict[str, dict[str, float]]:
    """The test scores of the weights before training, if they are asked for."""
    if not training.tests_start:
        return {}
    start = from_first(lambda: checkpoint.read(run.start))
    with checkpoint.temporary_weights(training.model, start):

        def states(subset: Subset, stage: str) -> dict[str, Tensor]:
            rows = training.embed(subset, stage, without_linear=True, exact=True)
            return untrained_embeddings(training.model.head, rows)

        tested, known = states(test, "testing the start"), {}
        if needs_training(training.config.protocol.metrics):
            known = states(training.split.train, TRAINING_STAGE)
    found = {
        state: test_scores(training, test, embeddings, known.get(state))[0]
        for state, embeddings in tested.items()
    }
    if training.split.validation is not None and training.progress.best_epoch == 0:
        found["untrained"] = dict(trained)  # this is the model that was chosen and tested
    return found


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


def for_all_classes(run: Run) -> RunConfig:
    """The configuration of a run, for all classes of its data set.

    The number of epochs is that which validation chose. No classes are left to test on: what is
    known of the new model are the scores of ``run``.

    Args:
        run: A finished run that was validated.

    Returns:
        The same settings with ``protocol.name=all``.

    Raises:
        BadInput: The run is not finished or was not validated, or no epoch was better than none.
    """
    config, chosen = run.config, run.result.get("chosen_epoch")
    if chosen is None:
        raise BadInput(f"'{run.folder}' was not validated, so it does not say how long to train")
    if chosen == 0:
        raise BadInput(
            f"in '{run.folder}' no epoch was better on the validation classes than the network "
            "before training; use that one (lookalike index --network)"
        )
    return config.model_copy(
        update={
            "protocol": config.protocol.model_copy(update={"name": "all"}),
            "train": config.train.model_copy(update={"epochs": chosen}),
        }
    )


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


UNTRAINED = {
    "train.epochs": "0",
    "model.dim": "0",
    "protocol.name": "paper",
    "data.transform": "small",
    "sampler.name": "random",
    "sampler.batch_size": "1",
}


def read_embedded(
    given: Sequence[str], labels: Path | None, watcher: Watcher
) -> tuple[EmbeddingsFile, list[str]]:
    """Embeddings to evaluate, and the name of each query.

    Args:
        given: A run's folder, an ``.npz`` or ``.npy`` file, or ``key=value`` settings: of a data
            set and a network, which is evaluated untrained, without a head, on the test classes.
            Nothing is kept of it unless ``runs_dir`` is among the settings.
        labels: The file of labels, where the embeddings' file has none.
        watcher: Receives progress and notes.
    """
    if all("=" in part for part in given):
        named = {part.partition("=")[0] for part in given}
        rest = [f"{key}={value}" for key, value in UNTRAINED.items() if key not in named]
        with tempfile.TemporaryDirectory() as folder:
            config = load_trusted(None, [f"runs_dir={folder}", *rest, *given])
            if config.model.weights == "none":
                watcher.note("random weights; model.weights=imagenet takes trained ones")
            tested = test_embeddings(train(config, watcher))
            return tested.arrays(), tested.query_files()
    if len(given) > 1:
        raise BadInput(f"one run or file at a time, not {len(given)}: {', '.join(given)}")
    path = Path(given[0])
    if path.is_dir():
        tested = test_embeddings(Run(path))
        return tested.arrays(), tested.query_files()
    if not path.is_file():
        raise BadInput(f"'{path}' is neither the folder of a run nor an .npz or .npy file")
    found = read_embeddings(path, labels)
    return found, [f"row {number}" for number in range(len(found.embeddings))]
