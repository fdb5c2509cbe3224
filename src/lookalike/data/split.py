"""The classes to train, validate and test on; the test set is returned only once."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lookalike.data.image_set import ImageSet
from lookalike.errors import BadInput, LookalikeError, did_you_mean

PROTOCOLS = ("paper", "fixed-validation", "cross-validation", "all")
ORDERS = ("sequential", "random")


@dataclass(frozen=True, eq=False)
class Subset:
    """Some classes of a data set.

    Attributes:
        images: The data set.
        indices: The indices of the images.
        labels: Their classes, counted from 0 in class order.
        classes: The class of the data set for each label.
        query: A mask over ``indices``; None: every image is a query.
        gallery: A mask over ``indices``; None: every image is in the gallery.
    """

    images: ImageSet
    indices: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: NDArray[np.int64]
    query: NDArray[np.bool_] | None = None
    gallery: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def class_count(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def super_labels(self) -> NDArray[np.int64] | None:
        """The super-class of each image, where the data set has such."""
        found = self.images.super_labels
        return None if found is None else found[self.indices]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, by label."""
        return tuple(self.images.class_names[number] for number in self.classes)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the images, in the order of ``indices``."""
        return tuple(self.images.files[index] for index in self.indices)


class Split:
    """Classes to train on, to validate on, and to test on once.

    Args:
        train: The training classes.
        validation: The validation classes; None: there are none.
        test: The test classes, which only :meth:`final_test` returns; None: there are none.
        protocol: The name of the protocol.
        fold: The index of the fold.
        folds: The number of folds.
    """

    def __init__(
        self,
        train: Subset,
        validation: Subset | None,
        test: Subset | None,
        *,
        protocol: str,
        fold: int = 0,
        folds: int = 1,
    ) -> None:
        self.train = train
        self.validation = validation
        self.protocol = protocol
        self.fold = fold
        self.folds = folds
        parts = {"training": train, "validation": validation, "test": test}
        counts = [f"{one.class_count:,} {name}" for name, one in parts.items() if one is not None]
        of_folds = f", fold {fold + 1} of {folds}" if folds > 1 else ""
        self.description = f"{protocol}{of_folds}: {', '.join(counts)} classes"
        self._held_back = test

    @property
    def has_test(self) -> bool:
        """Whether there are test classes that were not handed out yet."""
        return self._held_back is not None

    @property
    def test(self) -> Subset:
        """Not available: :meth:`final_test` returns the test set, once."""
        raise LookalikeError(
            "the test set is not available before the end; final_test() returns it, once"
        )

    def final_test(self) -> Subset:
        """The test set, for the one final test; a second call is refused."""
        if self._held_back is None:
            raise LookalikeError(
                "the test set is not available: it was used already, or this split is for tuning"
            )
        test, self._held_back = self._held_back, None
        return test

    def for_tuning(self) -> "Split":
        """The same training and validation classes, without the test images.

        The labels and file names of the test images are blank, so that nothing can use them while
        hyper-parameters are chosen; :meth:`final_test` refuses.
        """
        images = self.train.images
        gone = np.ones(len(images), dtype=bool)
        gone[self.train.indices] = False
        if self.validation is not None:
            gone[self.validation.indices] = False
        blind = replace(
            images,
            labels=np.where(gone, 0, images.labels),
            files=tuple("" if g else file for g, file in zip(gone, images.files, strict=True)),
        )
        split = copy(self)
        split.train = replace(self.train, images=blind)
        if self.validation is not None:
            split.validation = replace(self.validation, images=blind)
        split._held_back = None
        return split


def draw_test_half(images: ImageSet, seed: int) -> ImageSet:
    """The same images with test classes drawn by ``seed``, unless the data set has its own.

    Args:
        images: The data set.
        seed: Draws half of the classes, whatever images they have.

    Returns:
        The data set with another mask of test images; its fingerprint is that of the content.
    """
    if images.has_split:
        return images
    classes = len(images.class_names)
    drawn = np.random.default_rng(seed).permutation(classes)[(classes + 1) // 2 :]
    return replace(images, test=np.isin(images.labels, drawn))


def make_splits(
    images: ImageSet,
    protocol: str,
    *,
    seed: int = 0,
    ratio: float = 0.9,
    folds: int = 10,
    order: str = "random",
) -> list[Split]:
    """The splits of a protocol; always class-disjoint, the test half as the data set has it.

    - ``paper``: train on the whole training half, no validation.
    - ``fixed-validation``: the classes that the data set names validate; where it names none,
      ``ratio`` of the training classes train and the others, drawn by ``seed``, validate.
    - ``cross-validation``: the training classes in ``folds`` parts; each validates once.
    - ``all``: train on every class, for use; nothing is validated or tested.

    Args:
        images: The data set.
        protocol: One of ``PROTOCOLS``.
        seed: Draws the validation classes or the folds.
        ratio: The share of the training classes that train.
        folds: The number of folds.
        order: Of the classes in folds: "random" (drawn by ``seed``) or "sequential" (in class
            order, as in Reality Check).

    Returns:
        One split per fold.

    Raises:
        BadInput: The data set has too few classes or images for the protocol.
    """
    if protocol not in PROTOCOLS:
        raise BadInput(f"there is no protocol '{protocol}'; {did_you_mean(protocol, PROTOCOLS)}")
    if protocol == "all":
        return [Split(_subset(images, np.unique(images.labels)), None, None, protocol=protocol)]
    classes, test_classes = _halves(images)
    test = _subset(images, test_classes, retrieval=True)
    if test.query is None and np.bincount(test.labels).max() < 2:
        raise BadInput(f"the test classes of '{images.name}' have one image each: nothing to find")
    if protocol == "paper":
        return [Split(_subset(images, classes), None, test, protocol=protocol)]
    if protocol == "fixed-validation":
        named = _named_for_validation(images, classes)
        parts: Sequence[NDArray[np.int64]] = [
            _held_out(classes, ratio, seed) if named is None else named
        ]
    else:
        parts = _folds(classes, folds, order, seed)
    return [
        Split(
            _subset(images, np.setdiff1d(classes, part)),
            _subset(images, part),
            test,
            protocol=protocol,
            fold=fold,
            folds=len(parts),
        )
        for fold, part in enumerate(parts)
    ]


def _halves(images: ImageSet) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    train, test = np.unique(images.labels[~images.test]), np.unique(images.labels[images.test])
    both = np.intersect1d(train, test)
    if len(both):
        raise BadInput(
            f"'{images.name}' has {len(both)} class(es) in both halves (the first: "
            f"'{images.class_names[both[0]]}'), but training and test classes must differ"
        )
    for half, found in (("training", train), ("test", test)):
        if not len(found):
            raise BadInput(f"'{images.name}' has no {half} classes")
    return train, test


def _named_for_validation(images: ImageSet, classes: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The classes that the data set itself names for validation; None: it names none."""
    if images.validation is None:
        return None
    named = np.unique(images.labels[images.validation])
    both = np.intersect1d(named, images.labels[~images.validation])
    if len(both):
        raise BadInput(
            f"'{images.name}' has {len(both)} class(es) both for validation and for something else "
            f"(the first: '{images.class_names[both[0]]}'), but these classes must differ"
        )
    if len(named) < 2 or len(named) == len(classes):
        raise BadInput(
            f"'{images.name}' names {len(named)} of {len(classes)} classes for validation; two at "
            "least are needed, and some to train on"
        )
    return named


def _held_out(classes: NDArray[np.int64], ratio: float, seed: int) -> NDArray[np.int64]:
    if not 0 < ratio < 1:
        raise BadInput(f"ratio must lie between 0 and 1, not {ratio}")
    count = max(2, round(len(classes) * (1 - ratio)))  # one class alone scores 100 % always
    if count >= len(classes):
        raise BadInput(
            f"protocol.ratio = {ratio} and two validation classes at least leave none of "
            f"{len(classes)} training classes to train on; protocol.name=paper needs no validation"
        )
    return np.sort(np.random.default_rng(seed).permutation(classes)[:count])


def _folds(
    classes: NDArray[np.int64], folds: int, order: str, seed: int
) -> list[NDArray[np.int64]]:
    if order not in ORDERS:
        raise BadInput(f"there is no order '{order}' of folds; {did_you_mean(order, ORDERS)}")
    if not 2 <= folds <= len(classes) // 2:
        raise BadInput(
            f"protocol.folds = {folds} must lie between 2 and {len(classes) // 2}: each fold needs "
            f"two of the {len(classes)} training classes"
        )
    if order == "random":
        classes = np.random.default_rng(seed).permutation(classes)
    return [np.sort(part) for part in np.array_split(classes, folds)]


def _subset(images: ImageSet, classes: NDArray[np.int64], retrieval: bool = False) -> Subset:
    indices = np.flatnonzero(np.isin(images.labels, classes))
    labels = np.searchsorted(classes, images.labels[indices])
    if not retrieval or images.query is None or images.gallery is None:
        return Subset(images, indices, labels, classes)
    return Subset(images, indices, labels, classes, images.query[indices], images.gallery[indices])
