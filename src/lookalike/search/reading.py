"""Reading a picture's file, or saying in a few words why that cannot be done."""

from pathlib import Path

from PIL import Image

from lookalike.data.image_files import open_rgb
from lookalike.errors import BadInput

__all__ = ["Unreadable", "read_picture"]

LONGEST = 100
"""How many times its width a picture may be high. The network's input is cut from a picture whose
shorter side was resized: a small file of 1 x 60,000 pixels would become gigabytes."""


class Unreadable(BadInput):
    """A file is no picture that can be read; ``reason`` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read the picture '{path}': {reason}")
        self.reason = reason


def read_picture(path: Path) -> Image.Image:
    """The whole picture as RGB, upright."""
    try:
        picture = open_rgb(path)
    except MemoryError:
        raise
    except Exception as error:  # a broken file makes decoders raise whatever they meet first
        reason = getattr(error, "strerror", None) or plain(str(error))
        raise Unreadable(path, reason or type(error).__name__) from error
    if max(picture.size) > LONGEST * min(picture.size):
        raise Unreadable(path, f"{picture.width} x {picture.height} pixels are too long a strip")
    return picture


def plain(reason: str) -> str:
    """In one line; Pillow names the file again when it knows no format for it."""
    if reason.startswith("cannot identify image file"):
        return "it is no picture of a known format"
    return " ".join(reason.split())
