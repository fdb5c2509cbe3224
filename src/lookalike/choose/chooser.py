"""From a folder of images to a recommendation, within a budget of time.

Everything that takes long is kept: features in the cache, finished trainings in the folder of the
study, whose name hashes the images and settings. The same call resumes.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lookalike.choose import candidates
from lookalike.choose.budget import Extraction, TimedWatcher
from lookalike.choose.decision import Decision, decide
from lookalike.choose.extraction import compute_features
from lookalike.choose.preparation import FILE_DATASETS, chosen_shrink, prepare, usable_classes
from lookalike.choose.recipe import run_of, untrained_run
from lookalike.choose.survey import Classes, Survey
from lookalike.choose.untrained import Untrained, score_untrained
from lookalike.compare.contenders import ResultSet, gather
from lookalike.config import RunConfig, parse
from lookalike.errors import BadInput, LookalikeError, did_you_mean
from lookalike.progress import Watcher
from lookalike.study.driver import Clock, Executor, run_study
from lookalike.study.methods import base_config, hash_of
from lookalike.study.table import is_study, load_results
from lookalike.training.building import load_images


@dataclass(frozen=True)
class Recommendation:
    """What the command found.

    Attributes:
        folder: Where everything is.
        label: The name of the data set.
        survey: What was found in the images.
        extraction: The features that fitted in the budget.
        wanted_views: The views that were asked for.
        unknown: What cannot be known, and why; empty where there are enough classes.
        decision: The recommendation; None where there are too few classes.
        gathered: The results behind it; None where there are too few classes.
        untrained: The network's own features, where there are too few classes.
        recipe: The run that is recommended.
        alternative: The trained run, where an untrained one is recommended.
        not_tried: Candidates that no time was left for.
        failed: Candidates that failed, with the reason.
        seconds: The time that was used.
    """

    folder: Path
    label: str
    survey: Survey
    extraction: Extraction
    wanted_views: int
    unknown: tuple[str, ...]
    decision: Decision | None
    gathered: ResultSet | None
    untrained: Untrained | None
    recipe: RunConfig
    alternative: RunConfig | None
    not_tried: tuple[str, ...]
    failed: tuple[str, ...]
    seconds: float


def choose(
    settings: Mapping[str, Any],
    clock: Clock,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    metric: str = "recall@1",
    folder: Path | None = None,
    watcher: Watcher | None = None,
) -> Recommendation:
    """Look at the images, try the candidates under one protocol, and recommend.

    Args:
        settings: What :func:`lookalike.choose.candidates.settings_of` returned, with the data.
        clock: The budget.
        executor: Opens what executes trainings.
        metric: What is claimed; settings and methods are chosen by MAP@R.
        folder: The folder of the results; ``results/choose-NAME-HASH`` if not given.
        watcher: Receives progress and notes.

    Returns:
        The outcome.

    Raises:
        BadInput: The data or settings are invalid, or the budget is too small for the features.
        LookalikeError: The time was up before anything was tested.
    """
    watcher = watcher or Watcher()
    if metric not in candidates.METRICS:
        raise BadInput(f"there is no metric '{metric}'; {did_you_mean(metric, candidates.METRICS)}")
    seed = settings.get("seed", 0)
    config = parse({**settings, "seed": seed, "protocol": {"seed": seed}}, "choose")
    images, _ = load_images(config)
    label = label_of(config)
    classes = usable_classes(images)
    identity = hash_of({**settings, "data": _without_root(settings)}, images.fingerprint)
    folder = folder or Path("results") / f"choose-{label}-{identity[:8]}"
    checked = candidates.study_of(settings, classes.folds, folder.name, label)
    base_config(checked, checked.data[0])  # refuses invalid keys before anything is written
    guarded = TimedWatcher(watcher, clock)
    found = prepare(config, settings, images, identity, clock, folder, guarded)
    known = Classes.of(found.images)
    run = parse(found.settings, "choose")
    features = compute_features(run, found.images, guarded)
    own = settings["data"] | {"skip_unreadable": bool(found.survey.unreadable)}
    common: dict[str, Any] = {
        "folder": folder,
        "label": label,
        "survey": found.survey,
        "extraction": found.extraction,
        "wanted_views": config.model.frozen_views,
        "unknown": known.unknown,
    }
    if known.unknown:
        rows = features.views[0].flatten(1).float().numpy()
        recipe = untrained_run(
            parse({**found.settings, "data": own, "protocol": {"name": "paper", "test": False}}),
            {"dim": 0, "head_init": "random"},
        )
        return Recommendation(
            **common,
            decision=None,
            gathered=None,
            untrained=score_untrained(rows, found.images, metric),
            recipe=recipe,
            alternative=None,
            not_tried=candidates.names(),
            failed=(),
            seconds=clock.used,
        )
    study = candidates.study_of(found.settings, known.folds, folder.name, label)
    if found.settings["model"].get("head_init") == "auto":
        shrink = chosen_shrink(folder, study, guarded)
        study = candidates.study_of(found.settings, known.folds, folder.name, label, shrink)
    run_study(study, executor, folder=folder, watcher=watcher, clock=clock)
    gathered, failed = _finished(folder)
    decision = decide(gathered, metric)
    named = candidates.study_of({**found.settings, "data": own}, known.folds, label, label)
    base = base_config(named, named.data[0])
    trained = decision.trained
    tested = [one.name for one in decision.candidates] + [name for name, _ in failed]
    return Recommendation(
        **common,
        decision=decision,
        gathered=gathered,
        untrained=None,
        recipe=run_of(decision.chosen, base),
        alternative=run_of(trained, base) if trained and not decision.training_helps else None,
        not_tried=tuple(name for name in candidates.names() if name not in tested),
        failed=tuple(f"{name}: {reason}" for name, reason in failed),
        seconds=clock.used,
    )


def label_of(config: RunConfig) -> str:
    """The name of the data in tables and folders.

    Args:
        config: The configuration.

    Returns:
        The name of the user's own folder or file, else that of the data set.
    """
    root = config.data.root
    if config.data.name not in FILE_DATASETS or root is None:
        return config.data.name
    path = root.expanduser().resolve()
    return (path.stem if config.data.name == "csv" else path.name).strip(".") or config.data.name


def _without_root(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings["data"].items() if key != "root"}


def _finished(folder: Path) -> tuple[ResultSet, list[tuple[str, str]]]:
    """The finished methods and the baselines, and the methods that failed with the reason."""
    results = load_results(folder) if is_study(folder) else None
    if results is None or not results.baselines:
        raise LookalikeError(
            "the time was up before a candidate was tuned and tested; what was computed is kept, "
            "so the same command with more --minutes goes on"
        )
    failed = []
    for row in results.rows:
        reasons = [*row.errors, *(t.error for t in row.trials if t.error)]
        if reasons and not row.finished and len(row.trials) == row.trials_asked:
            failed.append((row.method, reasons[0]))
    gathered = gather([folder])
    kept = tuple(one for one in gathered.contenders if one.row is None or one.row.finished)
    return replace(gathered, contenders=kept), failed
