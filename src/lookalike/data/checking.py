"""Problems of a data set: unreadable and duplicate images, classes with one image."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookalike.data.cache import decoded
from lookalike.data.image_set import ImageSet, UnreadableImage, digest
from lookalike.data.official import Counts
from lookalike.data.split import make_splits
from lookalike.errors import BadInput


@dataclass(frozen=True)
class CheckReport:
    """The result of :func:`check`; ``str`` returns it as text, ``as_dict`` for a program.

    Attributes:
        name: The data set.
        counts: Its images and classes.
        unreadable: Files that cannot be decoded, with the reason.
        duplicates: Groups of images with exactly the same pixels.
        mislabelled: Those groups that contain more than one class.
        single_image_classes: Classes with one image.
        refusals: Why ``lookalike train`` would refuse the data set, and what to do.
    """

    name: str
    counts: Counts
    unreadable: tuple[tuple[str, str], ...]
    duplicates: tuple[tuple[str, ...], ...]
    mislabelled: tuple[tuple[str, ...], ...]
    single_image_classes: tuple[str, ...]
    refusals: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The report as plain lists, numbers and texts."""
        return asdict(self)

    def __str__(self) -> str:
        problems = {
            "unreadable images": [": ".join(entry) for entry in self.unreadable],
            "groups of identical images": [" = ".join(group) for group in self.duplicates],
            "of these with different labels": [" = ".join(group) for group in self.mislabelled],
            "classes with one image": self.single_image_classes,
        }
        lines = [f"{self.name}: {self.counts}"]
        for problem, found in problems.items():
            lines += [f"{problem}: {len(found):,}", *(f"  {entry}" for entry in found[:10])]
            lines += [f"  and {len(found) - 10:,} more"] if len(found) > 10 else []
        lines += [f"train will refuse it: {reason}" for reason in self.refusals]
        return "\n".join(lines)


def check(images: ImageSet, progress: Callable[[int, int], None] | None = None) -> CheckReport:
    """Decode every image once and report the problems of a data set.

    Args:
        images: The data set.
        progress: Is called with the images decoded so far, and all.

    Returns:
        The report.
    """
    unreadable: list[tuple[str, str]] = []
    by_content: dict[str, list[int]] = defaultdict(list)
    for index, pixels in enumerate(decoded(images, None)):
        if isinstance(pixels, UnreadableImage):
            unreadable.append((pixels.file, pixels.reason))
        else:
            by_content[digest(str(pixels.shape), pixels)].append(index)
        if progress:
            progress(index + 1, len(images))
    groups = [group for group in by_content.values() if len(group) > 1]
    crossing = [group for group in groups if len(set(images.labels[group].tolist())) > 1]
    sizes = np.bincount(images.labels, minlength=len(images.class_names))
    return CheckReport(
        name=images.name,
        counts=Counts.of(images),
        unreadable=tuple(unreadable),
        duplicates=_named(images, groups),
        mislabelled=_named(images, crossing),
        single_image_classes=tuple(images.class_names[i] for i in np.flatnonzero(sizes == 1)),
        refusals=tuple(_refusals(images, len(unreadable))),
    )


def _refusals(images: ImageSet, unreadable: int) -> Iterator[str]:
    if unreadable:
        yield f"{unreadable:,} unreadable images; data.skip_unreadable=true leaves them out"
    try:
        make_splits(images, "fixed-validation")
    except BadInput as error:
        yield str(error)


def _named(images: ImageSet, groups: list[list[int]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(images.files[index] for index in group) for group in groups)
