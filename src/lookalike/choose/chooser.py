"""From a folder of images to a recommendation, within a budget of time.

Everything that takes long is kept: features in the cache, finished trainings in the folder of the
study, whose name hashes the images and settings. The same call resumes.

Validation classes decide everything: the method, its settings and epochs, the best of what needs no
training, and whether training is worth it. The last of these on each fold with settings that the
other folds chose, at the last epoch: the best epoch of a fold is the best *on that fold*, and the
start is among them, so by it a training never loses to its start. Then all are tested once, and
:mod:`lookalike.compare` says what the test shows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from lookalike import evaluation
from lookalike.choose import candidates
from lookalike.choose.images import (
    FILE_DATASETS,
    Classes,
    Look,
    feature_device,
    look_at,
)
from lookalike.compare.comparison import OnDataset, compare
from lookalike.compare.contenders import BASELINES, ResultSet, gather
from lookalike.compare.uncertainty import Bounds, Difference, class_intervals
from lookalike.config import RunConfig, parse
from lookalike.config.loading import merge
from lookalike.data import ImageSet
from lookalike.errors import BadInput, LookalikeError, did_you_mean
from lookalike.evaluation.class_table import ClassTable
from lookalike.progress import Watcher
from lookalike.study.config import StudyConfig
from lookalike.study.driver import Clock, Executor, run_study
from lookalike.study.intervals import Interval, interval
from lookalike.study.methods import hash_of
from lookalike.study.plan import make_plan
from lookalike.study.results import BaselineRow, MethodRow, StudyResults
from lookalike.study.tasks import TaskRunner
from lookalike.training.building import PreparedParts, load_images
from lookalike.training.features import Features

RESERVE_SECONDS = 30.0
"""Kept for statistics and the page; a fifth of a budget that is short."""
ONE_SIDED = 0.9
"""The level of a two-sided interval whose lower end is that of a one-sided one of 95 %."""


@dataclass(frozen=True)
class Candidate:
    """A method with its scores.

    Attributes:
        name: As in tables.
        dim: Numbers of an embedding.
        validation: The score that chose it, on validation classes.
        score: The score on test classes, the mean over trainings.
        bounds: The 95 % interval over trainings and test classes, where there is one.
        row: The row of the study that it is.
    """

    name: str
    dim: int
    validation: float
    score: float
    bounds: Bounds | None
    row: MethodRow | BaselineRow

    @property
    def trained(self) -> bool:
        """Whether it was trained."""
        return isinstance(self.row, MethodRow)


@dataclass(frozen=True)
class Decision:
    """What is recommended, and why.

    Attributes:
        candidates: All that were tested, the best on validation classes first.
        trained: The first of them that was trained; None where none was finished.
        untrained: The first of them that was not.
        validated: What training gains on the validation classes, over folds, as a one-sided 95 %
            interval (its ``low``); None where none was trained.
        compared: What their test scores show, as ``lookalike compare`` has it.
        gathered: The results behind it.
    """

    candidates: tuple[Candidate, ...]
    trained: Candidate | None
    untrained: Candidate
    validated: Interval | None
    compared: OnDataset
    gathered: ResultSet

    @property
    def trainings(self) -> int:
        """How often each method was trained and tested."""
        return max(self.compared.trainings, 1)

    @property
    def training_helps(self) -> bool:
        """Whether the trained one is shown to be better on the validation classes."""
        return self.validated is not None and self.validated.low > 0

    @property
    def chosen(self) -> Candidate:
        """The recommendation."""
        return self.trained if self.trained and self.training_helps else self.untrained

    def between(self, one: Candidate, other: Candidate) -> Difference | None:
        """What the test classes show of a pair."""
        pair = {one.name, other.name}
        return next((d for d in self.compared.differences if {d.better, d.worse} == pair), None)

    @property
    def gain(self) -> Difference | None:
        """The difference between the trained and the untrained one on the test classes."""
        return None if self.trained is None else self.between(self.trained, self.untrained)

    @property
    def confirmed(self) -> bool:
        """Whether the test shows the same, for other classes too."""
        gain = self.gain
        return bool(gain and gain.holds and gain.worse == self.untrained.name)

    @property
    def tied(self) -> tuple[str, ...]:
        """The candidates to which no difference of the recommended one can be shown."""
        found = ((one, self.between(one, self.chosen)) for one in self.candidates)
        return tuple(one.name for one, pair in found if pair and not pair.holds)

    @property
    def beaten(self) -> tuple[str, ...]:
        """The candidates that the recommended one is better than, for other classes too."""
        mine = self.chosen.name
        return tuple(d.worse for d in self.compared.differences if d.holds and d.better == mine)


def decide(gathered: ResultSet, metric: str) -> Decision:
    """The recommendation by the results of one study.

    Args:
        gathered: The finished methods of the study, and its baselines.
        metric: What the scores of the recommendation are.

    Returns:
        The decision.
    """
    (compared,) = compare(gathered, metric, allow_unfair=True).datasets
    baselines = [row for study in gathered.studies for row in study.baselines]
    named = {BASELINES.get(row.baseline, row.baseline): row for row in baselines}
    found = []
    for one in compared.contenders:
        row = one.row or named[one.name]
        validation = row.validation if isinstance(row, MethodRow) else fmean(row.validation)
        score = fmean(model.scores[metric] for model in one.models)
        bounds = compared.bounds.get(one.name)
        found.append(Candidate(one.name, one.dim or 0, validation or 0.0, score, bounds, row))
    found.sort(key=lambda one: -one.validation)
    untrained = next(one for one in found if not one.trained)
    methods = [one.row for one in found if isinstance(one.row, MethodRow)]
    gains = validated_gains(methods, named[untrained.name].validation)
    return Decision(
        candidates=tuple(found),
        trained=next((one for one in found if one.trained), None),
        untrained=untrained,
        validated=interval(gains, ONE_SIDED) if gains else None,
        compared=compared,
        gathered=gathered,
    )


def validated_gains(rows: Sequence[MethodRow], untrained: Sequence[float]) -> list[float]:
    """What training gains on each fold, with the method and settings that the other folds chose.

    Args:
        rows: The methods with their trials.
        untrained: The validation score of each fold of what is not trained.

    Returns:
        One gain for each fold, of the last epoch; empty where there are fewer than two folds.
    """
    trials = [trial for row in rows for trial in row.trials if trial.state == "complete"]
    folds = len(untrained)
    if folds < 2 or not trials:
        return []
    gains = []
    for fold in range(folds):
        others = [at for at in range(folds) if at != fold]
        best = max(trials, key=lambda trial: fmean(trial.folds[at] for at in others))
        gains.append((best.last or best.folds)[fold] - untrained[fold])
    return gains


@dataclass(frozen=True)
class Untrained:
    """The scores of the network's own features, of which every class is a test class.

    Attributes:
        metric: The metric.
        score: The score.
        bounds: The interval over classes, where there are enough.
        classes: How many classes could be scored.
        dim: Numbers of an embedding.
    """

    metric: str
    score: float
    bounds: Bounds | None
    classes: int
    dim: int


def score_untrained(features: Features, images: ImageSet, metric: str) -> Untrained:
    """The score of the network's own features over all classes, none of which trained it."""
    rows = features.views[0].flatten(1).float().numpy()
    found = evaluation.score(rows, images.labels, (metric,))
    table = ClassTable.of(found, images.class_names)
    if table is None:
        raise LookalikeError(f"{metric} is no mean over queries")
    bounds = class_intervals({"raw": table.column(metric)[None]}, table.queries).get("raw")
    return Untrained(metric, found.scores[metric], bounds, len(table.classes), rows.shape[1])


@dataclass(frozen=True)
class Recommendation:
    """What the command found.

    Attributes:
        folder: Where everything is.
        label: The name of the data set.
        look: What was found in the images, and the features that fitted in the budget.
        wanted_views: The views that were asked for.
        unknown: What cannot be known, and why; empty where there are enough classes.
        decision: The recommendation; None where there are too few classes.
        untrained: The network's own features, where there are too few classes.
        recipe: The run that is recommended.
        alternative: The trained run, where an untrained one is recommended.
        not_tried: Candidates that no time was left for.
        failed: Candidates that failed, with the reason.
        seconds: The time that was used.
    """

    folder: Path
    label: str
    look: Look
    wanted_views: int
    unknown: tuple[str, ...]
    decision: Decision | None
    untrained: Untrained | None
    recipe: RunConfig
    alternative: RunConfig | None
    not_tried: tuple[str, ...]
    failed: tuple[str, ...]
    seconds: float


@dataclass
class TimedWatcher(Watcher):
    """Another watcher until the time is up; then the next stage ends the work.

    Attributes:
        inner: Who is told.
        clock: The time that is left.
    """

    inner: Watcher
    clock: Clock

    def stage(self, name: str, done: int, total: int, detail: str = "") -> None:
        """Pass it on, if there is time for the rest; what is finished is kept."""
        if self.clock.left < 0 and done < total:
            raise LookalikeError(
                f"the time was up after {done:,} of {total:,} steps of '{name}', which were slower "
                "than measured at the start; give more --minutes"
            )
        self.inner.stage(name, done, total, detail)

    def note(self, text: str) -> None:
        """Pass it on."""
        self.inner.note(text)


def clock_of(minutes: float, begun: float | None = None) -> Clock:
    """The clock of a choice: a few seconds at its end are for statistics and the page.

    Args:
        minutes: The whole budget.
        begun: When it began, by ``time.monotonic``; now if not given.

    Raises:
        BadInput: It is no budget.
    """
    if not minutes > 0:
        raise BadInput(f"--minutes {minutes:g} is invalid: it must be above 0")
    return Clock(60 * minutes, begun, reserve=min(RESERVE_SECONDS, 12 * minutes))


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
    metrics = candidates.shipped()["study"]["protocol"]["metrics"]
    if metric not in metrics:
        raise BadInput(f"there is no metric '{metric}'; {did_you_mean(metric, metrics)}")
    seed = settings.get("seed", 0)
    config = parse({**settings, "seed": seed, "protocol": {"seed": seed}}, "choose")
    images, _ = load_images(config)
    label = label_of(config)
    without_root = {key: value for key, value in settings["data"].items() if key != "root"}
    identity = hash_of({**settings, "data": without_root}, images.fingerprint)
    folder = folder or Path("results") / f"choose-{label}-{identity[:8]}"
    Classes.of(images)  # refuses what has too few, before anything is written
    guarded = TimedWatcher(watcher, clock)
    found, images, data = look_at(config, images, identity, clock, folder, guarded)
    views = {"frozen_views": found.extraction.views}
    used = merge(settings, {"data": data, "model": views})
    known = Classes.of(images)
    run = parse(used, "choose")
    features = PreparedParts(guarded, images).features(run, feature_device(run))
    own = settings["data"] | {"skip_unreadable": bool(found.survey.unreadable)}
    decision = untrained = alternative = None
    tested: set[str] = set()
    failed: dict[str, str] = {}
    if known.unknown:
        untrained = score_untrained(features, images, metric)
        changes = {
            "data": own,
            "model": {"dim": 0, "head_init": "random"},
            "train": {"epochs": 0, "batches_per_epoch": None},
            "protocol": {"name": "paper", "test": False},
        }
        recipe = parse(merge({**used, "data": {}}, changes), "the recipe")
    else:
        study = candidates.study_of(used, known.folds, folder.name, label)
        if used["model"].get("head_init") == "auto":
            shrink = chosen_shrink(folder, found, study, guarded)
            study = candidates.study_of(used, known.folds, folder.name, label, shrink)
        results = run_study(study, executor, folder=folder, watcher=watcher, clock=clock)
        gathered, failed = finished(results)
        decision = decide(gathered, metric)
        tested = {one.name for one in decision.candidates}
        # Results are shown to others and name no folders: those come from the settings.
        places = {"data": own, "model": {"weights": run.model.weights}}
        recipe = parse(merge(decision.chosen.row.config, places), "the recipe")
        if decision.trained and not decision.training_helps:
            alternative = parse(merge(decision.trained.row.config, places), "the recipe")
    return Recommendation(
        folder=folder,
        label=label,
        look=found,
        wanted_views=config.model.frozen_views,
        unknown=known.unknown,
        decision=decision,
        untrained=untrained,
        recipe=recipe,
        alternative=alternative,
        not_tried=tuple(n for n in candidates.names() if n not in tested and n not in failed),
        failed=tuple(f"{name}: {reason}" for name, reason in failed.items()),
        seconds=clock.used,
    )


def label_of(config: RunConfig) -> str:
    """The name of the user's own folder or file, else that of the data set."""
    root = config.data.root
    if config.data.name not in FILE_DATASETS or root is None:
        return config.data.name
    path = root.expanduser().resolve()
    return (path.stem if config.data.name == "csv" else path.name).strip(".") or config.data.name


def chosen_shrink(folder: Path, found: Look, study: StudyConfig, watcher: Watcher) -> float:
    """The shrinkage of the LDA where the heads start, chosen once on the validation classes.

    With ``model.head_init=auto`` every fold and worker would choose its own, which takes far longer
    than the training of a head.

    Args:
        folder: The folder of the results, which keeps it.
        found: What is kept there already.
        study: The study, whose baseline it is.
        watcher: Receives progress.

    Returns:
        The best for all folds.
    """
    if found.shrink is not None:
        return found.shrink
    rows, runner = make_plan(study, folder).rows, TaskRunner(watcher)
    lda = next(row for row in rows if row.method.baseline and row.method.name == "lda")
    while not lda.tuned:
        for task in lda.ready:
            lda.take(task.key, runner.run(task))
    if lda.best is None:
        raise LookalikeError(f"LDA failed: {lda.row.trials[0].error}")
    shrink = float(lda.row.tuned["model.head_shrink"])
    replace(found, shrink=shrink).write(folder)
    return shrink


def finished(results: StudyResults) -> tuple[ResultSet, dict[str, str]]:
    """The finished methods and the baselines, and the methods that failed with the reason."""
    if not results.baselines:
        raise LookalikeError(
            "the time was up before a candidate was tuned and tested; what was computed is kept, "
            "so the same command with more --minutes goes on"
        )
    failed = {}
    for row in results.rows:
        reasons = [*row.errors, *(t.error for t in row.trials if t.error)]
        if reasons and not row.finished and len(row.trials) == row.trials_asked:
            failed[row.method] = reasons[0]
    gathered = gather([results.folder])
    kept = tuple(one for one in gathered.contenders if one.row is None or one.row.finished)
    return replace(gathered, contenders=kept), failed
