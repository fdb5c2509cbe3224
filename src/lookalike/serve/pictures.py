"""Small copies of indexed pictures, made when asked for and kept in bounded memory."""

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from lookalike.data.image_files import open_rgb
from lookalike.errors import LookalikeError
from lookalike.search.index import Index
from lookalike.serve.limits import Refusal

__all__ = ["BoundedCache", "Pictures", "Thumbnail"]

_LOSSLESS_SIDE = 96
"""Drawings smaller than this are served as they are: JPEG would blur them."""


@dataclass(frozen=True)
class Thumbnail:
    """An encoded picture and its media type."""

    data: bytes
    media_type: str


class BoundedCache:
    """The thumbnails used last, up to so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._kept: OrderedDict[str, Thumbnail] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Thumbnail]) -> Thumbnail:
        """What is kept under ``key``, made first where it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self.held_bytes += len(made.data)
            while self.held_bytes > self.most_bytes and self._kept:
                self.held_bytes -= len(self._kept.popitem(last=False)[1].data)
        return made


class Pictures:
    """The pictures of an index, found by id only.

    They are always encoded anew: what a camera or a program hid in a file does not get out.
    """

    def __init__(self, index: Index, most_bytes: int) -> None:
        self.index = index
        self.cache = BoundedCache(most_bytes)

    def file(self, id: int) -> Path:
        """The file of an item: a real file inside an indexed folder."""
        try:
            return self.index.file_of(id)
        except LookalikeError as error:
            raise Refusal(404, f"{error}.") from error

    def tag(self, id: int, size: int) -> str:
        """What changes when the picture does."""
        path = self.file(id)
        try:
            status = path.stat()
        except OSError as error:
            raise Refusal(404, f"The file of picture {id} is gone.") from error
        text = f"{path}|{status.st_mtime_ns}|{status.st_size}|{size}"
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=12).hexdigest()

    def thumbnail(self, id: int, size: int, tag: str) -> Thumbnail:
        """The picture, its longer side at most ``size``."""
        return self.cache.get(tag, lambda: encoded(self.whole(id, size), size))

    def whole(self, id: int, size: int | None = None) -> Image.Image:
        """The picture as RGB; with ``size`` it may be decoded smaller, but not below that."""
        try:
            return open_rgb(self.file(id), at_least=size)
        except Refusal:
            raise
        except Exception as error:  # the file may have changed since it was indexed
            raise Refusal(404, f"The file of picture {id} can no longer be read.") from error


def encoded(image: Image.Image, size: int) -> Thumbnail:
    """``image`` made small, as JPEG or, where it is tiny, as PNG."""
    lossless = max(image.size) <= _LOSSLESS_SIDE
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    if lossless:
        image.save(out, "PNG")
        return Thumbnail(out.getvalue(), "image/png")
    image.save(out, "JPEG", quality=85)
    return Thumbnail(out.getvalue(), "image/jpeg")
