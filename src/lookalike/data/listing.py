"""Reading the text files of the official data sets, and holding them to the published counts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lookalike.data.image_set import ImageSet
from lookalike.errors import BadInput

__all__ = ["Counts", "check_counts", "numbered_lines", "read_lines"]


@dataclass(frozen=True)
class Counts:
    """How many images and classes each half of a data set has; query and gallery where defined."""

    train_images: int
    test_images: int
    train_classes: int
    test_classes: int
    query_images: int | None = None
    gallery_images: int | None = None

    def __str__(self) -> str:
        text = (
            f"{self.train_images:,} training images of {self.train_classes:,} classes and "
            f"{self.test_images:,} test images of {self.test_classes:,} classes"
        )
        if self.query_images is not None:
            text += f" ({self.query_images:,} query, {self.gallery_images:,} gallery)"
        return text

    @staticmethod
    def of(images: ImageSet) -> "Counts":
        """The counts of a data set as it was found."""
        test = images.test
        return Counts(
            train_images=int((~test).sum()),
            test_images=int(test.sum()),
            train_classes=len(np.unique(images.labels[~test])),
            test_classes=len(np.unique(images.labels[test])),
            query_images=None if images.query is None else int(images.query.sum()),
            gallery_images=None if images.gallery is None else int(images.gallery.sum()),
        )


def check_counts(images: ImageSet, expected: Counts, home: Path) -> None:
    """Refuse a data set that is not the published one."""
    found = Counts.of(images)
    if found != expected:
        raise BadInput(f"'{images.name}' in {home}: found {found}; expected {expected}")


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, stripped, without empty ones."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def numbered_lines(path: Path) -> dict[int, str]:
    """A file of lines ``number text`` as a table, in the order of the file."""
    table: dict[int, str] = {}
    for line in read_lines(path):
        number, _, text = line.partition(" ")
        if not number.isdecimal() or not text:
            raise BadInput(f"{path}: expected a number and a text, found '{line}'")
        table[int(number)] = text.strip()
    return table
