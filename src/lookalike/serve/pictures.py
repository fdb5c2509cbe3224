"""Pictures that go out, as thumbnails in bounded memory, and pictures that come in, as uploads."""

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from lookalike.data.image_files import FORMATS, open_rgb
from lookalike.errors import LookalikeError
from lookalike.search.index import Index
from lookalike.serve.limits import Limits, Refusal

LOSSLESS_SIDE = 96
"""Drawings smaller than this are served as PNG: JPEG would blur them."""
START_OF_SCAN = b"\xff\xda"


@dataclass(frozen=True)
class Thumbnail:
    """An encoded picture and its media type."""

    data: bytes
    media_type: str


class BoundedCache:
    """The most recently used thumbnails, up to ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._thumbnails: OrderedDict[str, Thumbnail] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Thumbnail]) -> Thumbnail:
        """The thumbnail under ``key``, made if it is not there."""
        with self._lock:
            if key in self._thumbnails:
                self._thumbnails.move_to_end(key)
                return self._thumbnails[key]
        thumbnail = make()
        with self._lock:
            if key not in self._thumbnails:
                self._thumbnails[key] = thumbnail
                self.held_bytes += len(thumbnail.data)
            while self.held_bytes > self.most_bytes and self._thumbnails:
                self.held_bytes -= len(self._thumbnails.popitem(last=False)[1].data)
        return thumbnail


class Pictures:
    """The pictures of an index, found by id only.

    They are always encoded again, so that metadata in a file (place, camera) is not served.
    """

    def __init__(self, index: Index, cache: BoundedCache) -> None:
        self.index = index
        self.cache = cache

    def file(self, id: int) -> Path:
        """The file of an item: a real file inside an indexed folder."""
        try:
            return self.index.file_of(id)
        except LookalikeError as error:
            raise Refusal(404, f"The file of picture {id} is missing.") from error

    def tag(self, id: int, size: int) -> str:
        """A hash that changes when the picture does."""
        path = self.file(id)
        try:
            status = path.stat()
        except OSError as error:
            raise Refusal(404, f"The file of picture {id} is missing.") from error
        text = f"{path}|{status.st_mtime_ns}|{status.st_size}|{size}"
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=12).hexdigest()

    def thumbnail(self, id: int, size: int, tag: str) -> Thumbnail:
        """The picture, with its longer side at most ``size``."""
        return self.cache.get(tag, lambda: encoded(self.whole(id, size), size))

    def whole(self, id: int, size: int | None = None) -> Image.Image:
        """The picture as RGB; with ``size`` it may be decoded smaller, but not below ``size``."""
        path = self.file(id)
        try:
            return open_rgb(path, at_least=size)
        except Exception as error:  # the file may have changed since it was indexed
            raise Refusal(404, f"The file of picture {id} can no longer be read.") from error


def encoded(image: Image.Image, size: int) -> Thumbnail:
    """``image`` made small, as JPEG or, where it is tiny, as PNG."""
    kind = "png" if max(image.size) <= LOSSLESS_SIDE else "jpeg"
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, kind, quality=85)  # PNG has no quality and ignores it
    return Thumbnail(out.getvalue(), f"image/{kind}")


def check_headers(files: Sequence[BinaryIO], limits: Limits) -> int:
    """Refuse uploads that are too large, before a pixel is decoded.

    Args:
        files: The pictures of one request; they are read from their beginning again afterwards.
        limits: What is too large.

    Returns:
        How many pixels they have together.
    """
    total = 0
    for file in files:
        if file.seek(0, os.SEEK_END) > limits.upload_bytes:
            raise Refusal(413, f"The file is larger than {limits.upload_bytes / 2**20:.0f} MB.")
        file.seek(0)
        width, height = size_in_header(file)
        size = f"The picture has {width:,} x {height:,} pixels"
        if width * height > limits.pixels:
            raise Refusal(413, f"{size}; at most {limits.pixels / 1e6:.0f} million are accepted.")
        if max(width, height) > limits.side_ratio * max(1, min(width, height)):
            most = f"{limits.side_ratio:.0f}"
            raise Refusal(422, f"{size}; one side may be at most {most} times the other.")
        total += width * height
    if total > limits.request_pixels:
        most = f"{limits.request_pixels / 1e6:.0f} million"
        raise Refusal(413, f"The pictures have {total:,} pixels together; at most {most} are.")
    return total


def decode_upload(file: BinaryIO, limits: Limits) -> Image.Image:
    """The uploaded picture, upright and RGB, whose header was checked."""
    data = file.read()
    if data.count(START_OF_SCAN) > limits.scans and data.startswith(b"\xff\xd8"):
        raise Refusal(422, f"The picture is a JPEG of more than {limits.scans} scans.")
    try:
        return open_rgb(io.BytesIO(data), most_pixels=limits.pixels)
    except Exception as error:  # decoders raise errors of many types
        raise Refusal(422, "The picture is damaged and cannot be decoded.") from error


def size_in_header(file: BinaryIO) -> tuple[int, int]:
    """Width and height, before anything is decoded."""
    start = file.read(16)
    file.seek(0)
    if not start:
        raise Refusal(422, "The file is empty.")
    try:
        return Image.open(file, formats=FORMATS).size
    except Image.DecompressionBombError as error:
        raise Refusal(413, "The picture has far too many pixels.") from error
    except UnidentifiedImageError as error:
        raise Refusal(415, unknown_format(start)) from error
    except Exception as error:
        raise Refusal(422, "The picture is damaged and cannot be decoded.") from error
    finally:
        file.seek(0)


def unknown_format(start: bytes) -> str:
    """The sentence that refuses a file that is not a picture, or has an unknown format."""
    formats = "a JPEG, PNG, WebP, GIF, BMP, TIFF or PPM picture is needed"
    if start[4:8] == b"ftyp":
        with suppress(UnicodeDecodeError):
            return f"This is a file of the kind '{start[8:12].decode('ascii').strip()}'; {formats}."
    return f"This is not a picture that can be read; {formats}."
