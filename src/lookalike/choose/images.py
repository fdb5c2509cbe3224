"""The look at the images: what is wrong with them, what cannot be known, how many fit in the time.

What was found is kept in the folder of the results, so that the same command resumes with the same
images and views.
"""

import csv
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter

from lookalike import data, models
from lookalike.compare.uncertainty import FEWEST_CLASSES
from lookalike.config import DataConfig, RunConfig
from lookalike.data import CheckReport, ImageSet, UnreadableImage
from lookalike.data.cache import resized
from lookalike.errors import BadInput
from lookalike.files import atomically, read_json, write_json
from lookalike.progress import Watcher
from lookalike.study.driver import Clock
from lookalike.training.building import load_images, pooled_features
from lookalike.training.distributed.launch import prepared_fabric

FEWEST_TRAINING_CLASSES = 4
"""Two parts that take turns to train and to validate; each needs two classes."""
CLASSES_PER_FOLD = 5
MOST_FOLDS = 4
FILE_DATASETS = ("folder", "csv")
"""Data sets of image files, of which a table can list some."""
KEPT = "choose.json"
"""The file of a :class:`Look`; written before anything is trained."""
MEASURED = 48
"""Images that are decoded and embedded to measure the pace."""
EXTRACTION_SHARE = 0.4
"""Of the budget, at most, for looking at the images and computing features."""
FEWEST_IMAGES = 4
"""Of a class, where not all of its images fit in."""
MARGIN = 1.25
"""How much slower than measured the work may be, since other work runs beside it."""


@dataclass(frozen=True)
class Classes:
    """The classes that can be used: those with two images or more.

    Attributes:
        training: In the training half.
        test: In the test half.
    """

    training: int
    test: int

    @staticmethod
    def of(images: ImageSet) -> "Classes":
        """The usable classes of a data set.

        Raises:
            BadInput: There are fewer than two.
        """
        sizes = [
            np.bincount(images.labels[half], minlength=len(images.class_names))
            for half in (~images.test, images.test)
        ]
        usable = int((np.sum(sizes, axis=0) > 1).sum())
        if usable < 2:
            raise BadInput(
                f"'{images.name}' has {usable} class(es) of two images or more: to find an image "
                "of the same class among others takes two such classes"
            )
        training, test = (int((half > 1).sum()) for half in sizes)
        if images.query is not None and images.gallery is not None:
            queries, items = images.labels[images.query], images.labels[images.gallery]
            test = len(np.intersect1d(queries, items))
        return Classes(training, test)

    @property
    def folds(self) -> int:
        """Into how many parts the training classes are cut."""
        return max(2, min(MOST_FOLDS, self.training // CLASSES_PER_FOLD))

    @property
    def unknown(self) -> tuple[str, ...]:
        """What cannot be known with so few classes, and why; empty where there are enough."""
        found = []
        training, test = _count(self.training, "class"), _count(self.test, "class")
        if self.training < FEWEST_TRAINING_CLASSES:
            found.append(
                f"which method is best: {training} of two images or more can train, and to train "
                f"on some and choose on others takes {FEWEST_TRAINING_CLASSES}"
            )
        if self.test < FEWEST_CLASSES:
            found.append(
                f"whether training helps on classes it has not seen: {test} of two images or more "
                f"can test, and no test over fewer than {FEWEST_CLASSES} can tell a difference "
                "from chance"
            )
        return tuple(found)


@dataclass(frozen=True)
class Survey:
    """What was found in the images.

    Attributes:
        images: How many can be read.
        classes: How many there are.
        smallest: Images of the smallest class.
        median: Images of a class in the middle.
        largest: Images of the largest class.
        single: Names of classes with one image.
        unreadable: Files that cannot be decoded, with the reason.
        duplicates: Groups of identical images.
        mislabelled: Those of them that lie in more than one class.
    """

    images: int
    classes: int
    smallest: int
    median: float
    largest: int
    single: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...]
    duplicates: tuple[tuple[str, ...], ...]
    mislabelled: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(images: ImageSet, report: CheckReport) -> "Survey":
        """The survey of a data set, by its check."""
        bad = {file for file, _ in report.unreadable}
        kept = np.array([file not in bad for file in images.files])
        sizes = np.bincount(images.labels[kept], minlength=len(images.class_names))
        return Survey(
            images=int(kept.sum()),
            classes=int((sizes > 0).sum()),
            smallest=int(sizes.min()),
            median=float(np.median(sizes)),
            largest=int(sizes.max()),
            single=tuple(images.class_names[i] for i in np.flatnonzero(sizes == 1)),
            unreadable=report.unreadable,
            duplicates=report.duplicates,
            mislabelled=report.mislabelled,
        )

    @property
    def summary(self) -> str:
        """The sizes in one line."""
        return (
            f"{self.images:,} images of {self.classes:,} classes, {self.smallest:,} to "
            f"{self.largest:,} of a class (median {self.median:g})"
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each thing that should be mended."""
        found = []
        if self.unreadable:
            file, reason = self.unreadable[0]
            found.append(
                f"{_count(len(self.unreadable), 'image')} cannot be read and left out, "
                f"such as {file} ({reason})."
            )
        if self.duplicates:
            found.append(
                f"{_count(len(self.duplicates), 'group')} of identical images, such as "
                f"{' = '.join(self.duplicates[0][:2])}: an image finds its copy, which makes every "
                "score too high; 'lookalike duplicates' finds near-duplicates too."
            )
        if self.mislabelled:
            found.append(
                f"{_count(len(self.mislabelled), 'group')} of identical images in more than one "
                f"class, such as {' = '.join(self.mislabelled[0][:2])}: one label must be wrong."
            )
        if self.single:
            found.append(
                f"{_count(len(self.single), 'class')} of one image, such as "
                f"'{self.single[0]}': nothing is to be found for it, so it is no query."
            )
        return tuple(found)


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"1 {noun}" if number == 1 else f"{number:,} {plural}"


@dataclass(frozen=True)
class Extraction:
    """The features that fit in the budget.

    Attributes:
        views: Augmented views of each image.
        per_class: Images of a class at most; None: all.
    """

    views: int
    per_class: int | None = None


@dataclass(frozen=True)
class Look:
    """What was found in the images, and decided about them; the file :data:`KEPT`.

    Attributes:
        identity: A hash of images and settings.
        extraction: The features that fit in the budget.
        survey: What was found.
        shrink: The shrinkage of the LDA from which heads start, once it is chosen.
    """

    identity: str
    extraction: Extraction
    survey: Survey
    shrink: float | None = None

    @staticmethod
    def read(folder: Path) -> "Look | None":
        """What an earlier call kept in the folder of the results, if there was one."""
        path = folder / KEPT
        return TypeAdapter(Look).validate_python(read_json(path)) if path.is_file() else None

    def write(self, folder: Path) -> None:
        """Keep it in the folder of the results."""
        write_json(folder / KEPT, asdict(self))


def look_at(
    config: RunConfig,
    images: ImageSet,
    identity: str,
    clock: Clock,
    folder: Path,
    watcher: Watcher,
) -> tuple[Look, ImageSet, dict[str, Any]]:
    """Measure the pace, take a sample if need be, and look at the images; or read what was found.

    Args:
        config: The data, the transform and the network.
        images: The whole data set.
        identity: A hash of images and settings.
        clock: The budget.
        folder: The folder of the results.
        watcher: Receives progress.

    Returns:
        What was found, the images as they are used, and the settings of these: a sample, or
        without unreadable images.

    Raises:
        BadInput: The folder is of other images or settings, or the budget is too small.
    """
    stored = Look.read(folder)
    if stored and stored.identity != identity:
        raise BadInput(
            f"'{folder}' was made from other images or settings; give another --output, or remove "
            "it"
        )
    given, views = config.data, config.model.frozen_views
    whole = given.name not in FILE_DATASETS or images.query is not None
    extraction = (
        stored.extraction
        if stored
        else plan_extraction(measure(config, images), images.labels, clock.seconds, views, whole)
    )
    used: dict[str, Any] = {}
    if extraction.per_class is not None:
        sample = folder / "sample.csv"
        root = (given.root or Path()).expanduser()
        place = root if given.name == "folder" else root.parent
        write_sample(sample, place, images, extraction.per_class)
        used, images = {"name": "csv", "root": str(sample)}, data.load("csv", sample)
    if stored is None:
        report = data.check(images, lambda done, all: watcher.stage("looking at images", done, all))
        stored = Look(identity, extraction, Survey.of(images, report))
    if stored.survey.unreadable:
        used["skip_unreadable"] = True
        values = given.model_dump(mode="json") | used
        skipping = config.model_copy(update={"data": DataConfig.model_validate(values)})
        images, _ = load_images(skipping)
        Classes.of(images)
    stored.write(folder)
    return stored, images, used


@dataclass(frozen=True)
class Pace:
    """Seconds that one image takes on this machine.

    Attributes:
        decode: To read and decode it.
        forward: To pass one view of it through the network.
    """

    decode: float
    forward: float

    def seconds(self, images: int, views: int) -> float:
        """The time for features, with a margin.

        Args:
            images: How many; each is decoded twice, to be looked at and to be stored.
            views: Augmented views of each, besides the one of the test transform.
        """
        return MARGIN * images * (2 * self.decode + (1 + views) * self.forward)


def measure(config: RunConfig, images: ImageSet) -> Pace:
    """Decode some images and embed them by the network, and time it.

    Raises:
        BadInput: None of the images that were drawn can be read.
    """
    wanted = config.model
    preset = models.preset_of(config.data.transform, wanted.network)
    drawn = np.random.default_rng(0).permutation(len(images))[:MEASURED]
    begun = time.monotonic()
    pixels = []
    for index in drawn:
        with suppress(UnreadableImage):
            found = resized(images.decode(int(index)), preset.resize)
            pixels.append(torch.from_numpy(found.copy()).permute(2, 0, 1))
    decode = (time.monotonic() - begun) / len(drawn)
    if not pixels:
        raise BadInput(f"none of {len(drawn)} images of '{images.name}' can be read")
    model = models.build(
        wanted.network,
        weights=wanted.weights,
        dim=0,
        pooling=wanted.pooling,
        image_size=preset.size,
    )
    device = feature_device(config)
    embed = pooled_features(model.to(device))
    with torch.no_grad():
        embed(model.normalisation(preset.centre(pixels[:2])).to(device)).cpu()  # warm-up
        begun = time.monotonic()
        embed(model.normalisation(preset.centre(pixels)).to(device)).cpu()
    return Pace(decode, (time.monotonic() - begun) / len(pixels))


def feature_device(config: RunConfig) -> torch.device:
    """The best device of this machine; heads are trained on that of the configuration."""
    return prepared_fabric(config.train.model_copy(update={"device": "auto"})).device


def plan_extraction(
    pace: Pace, labels: NDArray[np.int64], seconds: float, views: int, whole: bool = False
) -> Extraction:
    """The most views, then the most images of each class, whose features fit in.

    Args:
        pace: Seconds for one image.
        labels: The class of each image.
        seconds: The whole budget.
        views: The augmented views that are wanted.
        whole: Whether all images must be used.

    Returns:
        What fits into the budget's share for features.

    Raises:
        BadInput: All images, or a few of each class, would take too long already.
    """
    sizes = np.bincount(labels)
    choices = [Extraction(fewer) for fewer in range(views, -1, -1)]
    if not whole:
        choices += [Extraction(0, n) for n in range(int(sizes.max()) - 1, FEWEST_IMAGES - 1, -1)]
    for choice in choices:
        used = int(np.minimum(sizes, choice.per_class or len(labels)).sum())
        needed = pace.seconds(used, choice.views) / EXTRACTION_SHARE
        if needed <= seconds:
            return choice
    which = (
        f"{choice.per_class} images of each class" if choice.per_class else f"all {used:,} images"
    )
    raise BadInput(
        f"--minutes {seconds / 60:g} is too little: the features of {which} need a budget of about "
        f"{-(-needed // 60):.0f} minutes on this machine"
    )


def write_sample(path: Path, root: Path, images: ImageSet, per_class: int) -> None:
    """Write a CSV of some images of each class, as the data set ``csv`` reads it.

    Args:
        path: The file.
        root: The folder that the names of the files are relative to.
        images: The whole data set; of the same labels the same images are drawn.
        per_class: Images of each class, at most.
    """
    random = np.random.default_rng(0)
    of_classes = (np.flatnonzero(images.labels == label) for label in np.unique(images.labels))
    drawn = np.concatenate([random.permutation(found)[:per_class] for found in of_classes])
    with atomically(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "split"))
        for index in np.sort(drawn):
            label = images.class_names[images.labels[index]]
            half = "test" if images.test[index] else "train"
            writer.writerow(((root / images.files[index]).resolve(), label, half))
