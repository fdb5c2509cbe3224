"""A look at the images: how many there are of each class, what is wrong, what cannot be known."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookalike.compare.uncertainty import FEWEST_CLASSES
from lookalike.data import CheckReport, ImageSet

FEWEST_TRAINING_CLASSES = 4
"""Two parts that take turns to train and to validate; each needs two classes."""
CLASSES_PER_FOLD = 5
MOST_FOLDS = 4


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
        """The usable classes of a data set."""
        halves = []
        for half in (~images.test, images.test):
            sizes = np.bincount(images.labels[half], minlength=len(images.class_names))
            halves.append(int((sizes > 1).sum()))
        if images.query is not None and images.gallery is not None:
            queries, items = images.labels[images.query], images.labels[images.gallery]
            halves[1] = len(np.intersect1d(queries, items))
        return Classes(*halves)

    @property
    def folds(self) -> int:
        """Into how many parts the training classes are cut."""
        return max(2, min(MOST_FOLDS, self.training // CLASSES_PER_FOLD))

    @property
    def unknown(self) -> tuple[str, ...]:
        """What cannot be known with so few classes, and why; empty where there are enough."""
        found = []
        if self.training < FEWEST_TRAINING_CLASSES:
            found.append(
                f"which method is best: {_classes(self.training)} of two images or more can train, "
                f"and to train on some and choose on others takes {FEWEST_TRAINING_CLASSES}"
            )
        if self.test < FEWEST_CLASSES:
            found.append(
                f"whether training helps on classes it has not seen: {_classes(self.test)} of two "
                f"images or more can test, and no test over fewer than {FEWEST_CLASSES} can tell a "
                "difference from chance"
            )
        return tuple(found)


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count} classes" if count else "no class"


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
        """The survey of a data set.

        Args:
            images: The data set.
            report: Its check.

        Returns:
            The survey.
        """
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

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a file."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "Survey":
        """What :meth:`as_dict` returned, or its JSON."""
        lists = ("unreadable", "duplicates", "mislabelled")
        groups = {name: tuple(tuple(one) for one in values[name]) for name in lists}
        return Survey(**{**values, "single": tuple(values["single"]), **groups})

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
                f"{_count(self.unreadable, 'image')} cannot be read and left out, "
                f"such as {file} ({reason})."
            )
        if self.duplicates:
            found.append(
                f"{_count(self.duplicates, 'group')} of identical images, such as "
                f"{' = '.join(self.duplicates[0][:2])}: an image finds its copy, which makes every "
                "score too high; 'lookalike duplicates' finds near-duplicates too."
            )
        if self.mislabelled:
            found.append(
                f"{_count(self.mislabelled, 'group')} of identical images in more than one class, "
                f"such as {' = '.join(self.mislabelled[0][:2])}: one label must be wrong."
            )
        if self.single:
            found.append(
                f"{_count(self.single, 'class', 'classes')} of one image, such as "
                f"'{self.single[0]}': nothing is to be found for it, so it is no query."
            )
        return tuple(found)


def _count(found: tuple[Any, ...], one: str, many: str = "") -> str:
    return f"{len(found):,} {one if len(found) == 1 else many or one + 's'}"
