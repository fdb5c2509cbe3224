"""One run: trained, resumed after an interruption, tested once, its result written last."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from lookalike import models
from lookalike.config import RunConfig, without_effect
from lookalike.data import ImageSet, Split
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation.metrics import check_metrics, more_is_better
from lookalike.progress import Watcher
from lookalike.runs.run import Run, run_name
from lookalike.training import building
from lookalike.training.building import PreparedParts
from lookalike.training.distributed import ranks
from lookalike.training.distributed.launch import check_devices, launch, must_launch
from lookalike.training.distributed.ranks import from_first, is_first
from lookalike.training.final_test import finish, test_again
from lookalike.training.loggers import check_loggers
from lookalike.training.loop import TrainingLoop
from lookalike.training.objective import check_parts


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
