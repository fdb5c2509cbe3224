"""Image files: finding them, and decoding them safely."""

import importlib.util
import io
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from lookalike.data.image_set import UnreadableImage
from lookalike.errors import LookalikeWarning
from lookalike.files import open_regular

HEIC = importlib.util.find_spec("pillow_heif") is not None
"""Whether photographs of phones (HEIC) can be read: the extra ``heic``."""

IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm"}
    | {".tif", ".tiff", ".webp"}
    | ({".heic", ".heif"} if HEIC else set())
)

OTHER_FORMATS = (
    frozenset({".heic", ".heif", ".jp2", ".jxl", ".psd", ".svg"})
    | frozenset({".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".raw", ".rw2"})
) - IMAGE_SUFFIXES
"""Pictures by name that are left out, and named."""

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", *(["HEIF"] if HEIC else []))
"""The formats that are decoded, whatever a file's name; others may start programs (EPS)."""

MOST_PIXELS = 120_000_000
"""Larger images are refused before decoding: a small file can contain a huge image."""


def open_rgb(
    source: Path | BinaryIO,
    *,
    upright: bool = True,
    most_pixels: int = MOST_PIXELS,
    at_least: int | None = None,
) -> Image.Image:
    """The whole image as RGB; transparent parts become white.

    ``upright`` applies the orientation of the EXIF data. ``at_least`` is for thumbnails: a JPEG may
    be decoded at a smaller size, which is faster, but with sides not below that. For a file that is
    broken, too large or of another kind, decoders raise almost any exception.
    """
    _register_heic()
    with (
        BoundedFile(source) if isinstance(source, Path) else nullcontext(source) as file,
        Image.open(file, formats=FORMATS) as opened,
    ):
        width, height = opened.size
        if width * height > most_pixels:
            raise ValueError(f"{width} x {height} pixels are more than {most_pixels:,}")
        if at_least is not None:
            opened.draft("RGB", (at_least, at_least))
        if upright:
            ImageOps.exif_transpose(opened, in_place=True)
        image: Image.Image = opened
        if image.has_transparency_data:
            coloured = image.convert("RGBA")
            image = Image.new("RGBA", coloured.size, "white")
            image.alpha_composite(coloured)
        return image.convert("RGB")


class BoundedFile(io.BufferedReader):
    """A file of which nobody can ask for more than it has.

    Pillow asks for as much as a file says that it has, and Python reserves that in memory.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(open_regular(path))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """At most what is left."""
        left = max(0, self._size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


@cache
def _register_heic() -> None:
    if HEIC:
        import pillow_heif

        pillow_heif.register_heif_opener()


def suffix_of(name: str) -> str:
    """The end of a file's name from the last dot, in small letters."""
    return os.path.splitext(name)[1].lower()


def reason_of_format(suffix: str) -> str:
    """Why a picture of this suffix is left out, and what to do."""
    if suffix.lower() in (".heic", ".heif"):
        return "HEIC needs pillow-heif: pip install 'lookalike[heic]', or convert it to JPEG"
    return f"{suffix} is not read; convert it to JPEG or PNG"


def picture_files(root: Path, below: str = ".") -> Iterator[str]:
    """Every file below a folder that is a picture by its name, by name, without hidden ones.

    The one list that all commands use. Pictures of formats that are not read are in it; what is no
    regular file (a pipe, a device, a broken link) is not.

    Args:
        root: The folder that the names are relative to.
        below: The folder to look in, relative to ``root``.

    Yields:
        The path of each, relative to ``root``.
    """
    waiting = [below]
    while waiting:  # no recursion: folders may be nested deeper than Python's calls
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as found:
                entries = sorted((e for e in found if e.name[:1] != "."), key=lambda e: e.name)
        except OSError:  # a folder that may not be listed
            continue
        for entry in entries:
            if suffix_of(entry.name) in IMAGE_SUFFIXES | OTHER_FORMATS and _may_be_file(entry):
                yield os.path.normpath(os.path.join(folder, entry.name))
        folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [os.path.join(folder, name) for name in reversed(folders)]


def _may_be_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file, or a link that leads nowhere, which its reader names."""
    try:
        return entry.is_file()
    except OSError:
        return True


def warn_of_other_formats(root: Path, files: Iterable[str]) -> None:
    """Warn of the pictures among ``files`` whose format is not read."""
    found = Counter(suffix for file in files if (suffix := suffix_of(file)) in OTHER_FORMATS)
    for suffix, number in sorted(found.items()):
        warnings.warn(
            f"{number:,} picture(s) in {root} are left out: {reason_of_format(suffix)}",
            LookalikeWarning,
            stacklevel=2,
        )


def read_image(source: Path | BinaryIO, file: str, upright: bool) -> NDArray[np.uint8]:
    """The pixels of the image called ``file`` as :func:`open_rgb` reads it, [H, W, 3].

    The published results on the official data sets were made without ``upright``, so it is for
    users' own images only.
    """
    try:
        return np.array(open_rgb(source, upright=upright))
    except FileNotFoundError as error:
        raise UnreadableImage(file, "there is no such file") from error
    except MemoryError:
        raise
    except Exception as error:  # decoders raise almost any exception for a broken file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableImage(file, reason) from error
