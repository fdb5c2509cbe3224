"""The data before the study: what fits in the budget, and what is wrong with the images.

What was measured and found is kept in the folder of the results, so that the same command resumes
with the same images and views.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike import data
from lookalike.choose.budget import Extraction, plan_extraction
from lookalike.choose.extraction import measure, write_sample
from lookalike.choose.survey import Classes, Survey
from lookalike.config import DataConfig, RunConfig
from lookalike.data import ImageSet
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import read_json, write_json
from lookalike.models import preset_of
from lookalike.progress import Watcher
from lookalike.study.config import StudyConfig
from lookalike.study.driver import Clock
from lookalike.study.plan import make_plan
from lookalike.study.tasks import TaskRunner
from lookalike.training.building import load_images

FILE_DATASETS = ("folder", "csv")
"""Data sets of image files, of which a table can list some."""
PLAN = "choose.json"
"""What was measured and found in the images; written before anything is trained."""


@dataclass(frozen=True)
class Prepared:
    """The data after the first look, and what was decided about them.

    Attributes:
        settings: With the data as they are used: a sample, or without unreadable images.
        images: The same data.
        survey: What was found in them.
        extraction: The features that fit in the budget.
    """

    settings: Mapping[str, Any]
    images: ImageSet
    survey: Survey
    extraction: Extraction


def usable_classes(images: ImageSet) -> Classes:
    """The classes of two images or more.

    Args:
        images: The data set.

    Returns:
        How many train and test.

    Raises:
        BadInput: There are fewer than two.
    """
    sizes = np.bincount(images.labels, minlength=len(images.class_names))
    if (sizes > 1).sum() < 2:
        raise BadInput(
            f"'{images.name}' has {(sizes > 1).sum()} class(es) of two images or more: to find an "
            "image of the same class among others takes two such classes"
        )
    return Classes.of(images)


def prepare(
    config: RunConfig,
    settings: Mapping[str, Any],
    images: ImageSet,
    identity: str,
    clock: Clock,
    folder: Path,
    watcher: Watcher,
) -> Prepared:
    """Measure the pace, take a sample if need be, and look at the images; or read what was found.

    Args:
        config: The data, the transform and the network.
        settings: The same as nested settings.
        images: The whole data set.
        identity: A hash of images and settings.
        clock: The budget.
        folder: The folder of the results.
        watcher: Receives progress.

    Returns:
        The data as they are used.

    Raises:
        BadInput: The folder is of other images or settings, or the budget is too small.
    """
    path = folder / PLAN
    stored = read_json(path) if path.is_file() else None
    if stored and stored["identity"] != identity:
        raise BadInput(
            f"'{folder}' was made from other images or settings; give another --output, or remove "
            "it"
        )
    if stored:
        extraction = Extraction.from_dict(stored["extraction"])
    else:
        pace = measure(config, images, preset_of(config.data.transform, config.model.network))
        extraction = plan_extraction(
            pace,
            images.labels,
            clock.seconds,
            config.model.frozen_views,
            whole=config.data.name not in FILE_DATASETS or images.query is not None,
        )
    used = dict(settings["data"])
    if extraction.per_class is not None:
        used = _sample(config, images, extraction.per_class, folder)
        images = data.load("csv", used["root"])
    if stored:
        survey = Survey.from_dict(stored["survey"])
    else:
        report = data.check(images, lambda done, all: watcher.stage("looking at images", done, all))
        survey = Survey.of(images, report)
    if survey.unreadable:
        used["skip_unreadable"] = True
        skipping = config.model_copy(update={"data": DataConfig.model_validate(used)})
        images, _ = load_images(skipping)
        usable_classes(images)
    if not stored:
        kept = {"extraction": extraction.as_dict(), "survey": survey.as_dict()}
        write_json(path, {"identity": identity} | kept)
    views = {"frozen_views": extraction.views}
    changed = {**settings, "data": used, "model": {**settings["model"], **views}}
    return Prepared(changed, images, survey, extraction)


def chosen_shrink(folder: Path, study: StudyConfig, watcher: Watcher) -> float:
    """The shrinkage of the LDA where the heads start, chosen once on the validation classes.

    With ``model.head_init=auto`` every fold and worker would choose its own, which takes far longer
    than the training of a head.

    Args:
        folder: The folder of the results, which keeps it.
        study: The study, whose baseline it is.
        watcher: Receives progress.

    Returns:
        The best for all folds.
    """
    stored = read_json(folder / PLAN)
    if "shrink" not in stored:
        rows, runner = make_plan(study, folder).rows, TaskRunner(watcher)
        lda = next(row for row in rows if row.method.baseline and row.method.name == "lda")
        while not lda.tuned:
            for task in lda.ready:
                lda.take(task.key, runner.run(task))
        if lda.best is None:
            raise LookalikeError(f"LDA failed: {lda.row.trials[0].error}")
        stored["shrink"] = lda.row.tuned["model.head_shrink"]
        write_json(folder / PLAN, stored)
    return float(stored["shrink"])


def _sample(config: RunConfig, images: ImageSet, per_class: int, folder: Path) -> dict[str, Any]:
    """The data settings of some images of each class."""
    given, root = config.data, config.data.root or Path()
    place = root.expanduser() if given.name == "folder" else root.expanduser().parent
    write_sample(folder / "sample.csv", place, images, per_class)
    changes = {"name": "csv", "root": str(folder / "sample.csv")}
    return given.model_dump(mode="json") | changes
