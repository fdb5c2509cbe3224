"""Whatever holds pictures, as PIL images; and what cannot be used, with the reason."""

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image
from torch import Tensor

from lookalike.data.image_files import OTHER_FORMATS, open_rgb, reason_of_format
from lookalike.errors import BadInput

__all__ = [
    "Pictures",
    "Skipped",
    "Unreadable",
    "as_pictures",
    "file_inside",
    "is_text",
    "read_picture",
    "refusal_of_file",
    "refusal_of_text",
]

Pictures: TypeAlias = str | Path | Image.Image | Tensor | Iterable[Any]
"""Paths, PIL images, arrays or tensors, or batches of them."""
LONGEST = 100
"""The greatest ratio of a picture's sides. The network's input is cut from a picture whose shorter
side was resized: a small file of 1 x 60,000 pixels would become gigabytes."""


class Unreadable(BadInput):
    """A file is not a picture that can be read; ``reason`` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read the picture '{path}': {reason}")
        self.reason = reason


def read_picture(path: Path, data: bytes | None = None) -> Image.Image:
    """The whole picture as RGB, upright; ``data``: the bytes of the file, where it is no file."""
    try:
        picture = open_rgb(path if data is None else io.BytesIO(data))
    except MemoryError:
        raise
    except Exception as error:  # decoders raise errors of many types for a broken file
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        if reason.startswith("cannot identify image file"):  # Pillow repeats the file's name
            reason = "it is not a picture of a known format"
        raise Unreadable(path, reason or type(error).__name__) from error
    if max(picture.size) > LONGEST * min(picture.size):
        sides = f"{picture.width} x {picture.height} pixels"
        raise Unreadable(path, f"{sides}: one side is more than {LONGEST} times the other")
    return picture


def as_pictures(given: Pictures) -> Iterator[Image.Image]:
    """Every picture of a list, an array, a tensor, or a loader of batches.

    Args:
        given: Paths, PIL images, arrays [H, W, 3] or tensors [3, H, W], or batches of them; of
            pairs such as (images, labels) the first counts.

    Yields:
        One image after the other.

    Raises:
        BadInput: A file cannot be read, or something is not a picture.

    >>> import torch
    >>> [picture.size for picture in as_pictures(torch.zeros(2, 3, 4, 5))]
    [(5, 4), (5, 4)]
    """
    if isinstance(given, Image.Image):
        yield given
    elif isinstance(given, str | Path):
        yield read_picture(Path(given))
    elif isinstance(given, Tensor | np.ndarray) and given.ndim == 3:
        yield _from_array(given)
    elif (isinstance(given, Tensor | np.ndarray) and given.ndim != 4) or not hasattr(
        given, "__iter__"
    ):
        raise BadInput(
            f"a {type(given).__name__} is no picture: give paths, PIL images, arrays [H, W, 3] or "
            "tensors [3, H, W]"
        )
    else:
        for item in given:
            yield from as_pictures(item[0] if isinstance(item, tuple | list) else item)


def _from_array(item: Tensor | np.ndarray[Any, Any]) -> Image.Image:
    """A tensor [C, H, W] or an array [H, W, C], of whole numbers up to 255 or fractions of 1."""
    pixels = item.detach().cpu().movedim(0, -1).numpy() if isinstance(item, Tensor) else item
    if pixels.shape[-1] not in (1, 3):
        order = "[3, H, W]" if isinstance(item, Tensor) else "[H, W, 3]"
        raise BadInput(f"a picture must be {order}, not {tuple(item.shape)}")
    if np.issubdtype(pixels.dtype, np.floating):
        pixels = (pixels.clip(0, 1) * 255).round()
    pixels = pixels.astype(np.uint8)
    return Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)


@dataclass(frozen=True)
class Skipped:
    """A picture that was left out.

    Args:
        path: Its name in the source.
        reason: Why, in a few words.
    """

    path: str
    reason: str


def file_inside(root: Path, path: str) -> Path | None:
    """The real file behind ``path``; None where that is not a file under ``root``."""
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if real.is_relative_to(root) and real.is_file() else None


def is_text(value: str) -> bool:
    r"""Whether every index can store a string: no NUL, and nothing that UTF-8 cannot encode.

    >>> is_text("caf\u00e9"), is_text("caf\udce9"), is_text("a\0b")
    (True, False, False)
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def refusal_of_text(path: str, label: str | None, metadata: Mapping[str, str]) -> str:
    """Why an index could not store what is known of a picture; empty where it could.

    Args:
        path: Its path.
        label: Its label.
        metadata: Its metadata.

    Returns:
        The reason, in a few words.
    """
    if not is_text(path):
        return "its name is not UTF-8"
    others = (label or "", *metadata, *metadata.values())
    return "" if all(map(is_text, others)) else "its label or metadata is not text"


def shown(path: str) -> str:
    """A path that can be printed."""
    return path.encode(errors="replace").decode()


def refusal_of_file(root: Path, path: str) -> str:
    """Why a file cannot be used; empty where it can."""
    if Path(path).suffix.lower() in OTHER_FORMATS:
        return reason_of_format(Path(path).suffix)
    if file_inside(root, path) is not None:
        return ""
    there = (root / path).exists()
    return f"it is not a file under '{root}'" if there else "there is no such file"
