"""Images of a data set as data URIs in a page: single ones, and many on one sheet."""

import base64
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from PIL import Image

from lookalike.config import RunConfig
from lookalike.data import ImageSet, ImageStore
from lookalike.errors import LookalikeError
from lookalike.inference.pictures import read_picture
from lookalike.search import Index
from lookalike.training.building import load_images, open_store

TINY = 64


@dataclass(frozen=True)
class Sheet:
    """One picture of square thumbnails in rows: number ``i`` is in column ``i % columns``."""

    uri: str
    columns: int
    rows: int


class Pictures:
    """Reads from an image store. Tiny pictures keep their size; photos become thumbnails."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    @classmethod
    def of_run(cls, config: RunConfig, images: ImageSet) -> Self:
        """The pixels that a run of this configuration reads, so that nothing is decoded again."""
        _, preset = load_images(config, images)
        return cls(open_store(config.data, images, preset))

    def are_tiny(self, indices: Sequence[int]) -> bool:
        """Whether all of them are so small that a page should enlarge them, pixel by pixel."""
        return all(max(self._store.read(index).shape[1:]) <= TINY for index in indices)

    def uri(self, index: int, side: int) -> str:
        """One picture as a data URI, no side longer than ``side``."""
        return _encoded(self._thumbnail(index, side))

    def sheet(self, indices: Sequence[int], side: int) -> Sheet:
        """Many pictures, each centred in a square, as one data URI."""
        thumbnails = [self._thumbnail(index, side) for index in indices]
        if not thumbnails:
            return Sheet("", 1, 1)
        cell = max(max(thumbnail.size) for thumbnail in thumbnails)
        columns = int(np.ceil(np.sqrt(len(thumbnails))))
        rows = -(-len(thumbnails) // columns)
        mode = "RGB" if any(thumbnail.mode == "RGB" for thumbnail in thumbnails) else "L"
        whole = Image.new(mode, (columns * cell, rows * cell))
        for number, thumbnail in enumerate(thumbnails):
            row, column = divmod(number, columns)
            left, top = ((cell - length) // 2 for length in thumbnail.size)
            whole.paste(thumbnail.convert(mode), (column * cell + left, row * cell + top))
        return Sheet(_encoded(whole, lossless=cell <= TINY), columns, rows)

    def _thumbnail(self, index: int, side: int) -> Image.Image:
        pixels = self._store.read(index).permute(1, 2, 0).numpy()
        picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return picture


def _encoded(picture: Image.Image, lossless: bool | None = None) -> str:
    """PNG where every pixel counts, JPEG for photos, which are a fifth of the size that way."""
    lossless = max(picture.size) <= TINY if lossless is None else lossless
    kind = "png" if lossless else "jpeg"
    data = io.BytesIO()
    picture.save(data, kind, quality=82, optimize=True)  # PNG has no quality and ignores it
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def file_uri(index: Index, id: int, side: int = 176) -> str:
    """An indexed picture as a data URI; empty where its file is missing or broken."""
    try:
        picture = read_picture(index.file_of(id))
    except LookalikeError:
        return ""
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return _encoded(picture, lossless=False)


def class_label(name: str) -> str:
    """A class name that can be read: a single character gets its code, as fonts may lack it.

    >>> class_label("A"), class_label("036.Northern_Flicker")
    ('A 0041', '036.Northern Flicker')
    """
    if len(name) != 1:
        return name.replace("_", " ")
    carrier = "\u25cc" if unicodedata.category(name).startswith("M") else ""
    return f"{carrier}{name} {ord(name):04X}"


def class_title(name: str) -> str:
    """The long form of a class name.

    >>> class_title("A"), class_title("036.Northern_Flicker")
    ('U+0041 LATIN CAPITAL LETTER A', '036.Northern Flicker')
    """
    if len(name) != 1:
        return name.replace("_", " ")
    return f"U+{ord(name):04X} {unicodedata.name(name, '')}".strip()
