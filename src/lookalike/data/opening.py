"""Opening pictures that may come from anywhere: only known formats, never more than can be held."""

from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageOps

__all__ = ["FORMATS", "MOST_PIXELS", "open_rgb"]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What is decoded, whatever a file is called; others may start programs (EPS) or fetch things."""

MOST_PIXELS = 120_000_000
"""Larger pictures are refused before a pixel is decoded: a small file can hold a huge one."""


def open_rgb(
    source: Path | BinaryIO,
    *,
    upright: bool = True,
    most_pixels: int = MOST_PIXELS,
    at_least: int | None = None,
) -> Image.Image:
    """The whole picture as RGB; transparent parts become white.

    ``upright`` turns photos as their camera noted. ``at_least`` is for thumbnails: a JPEG may then
    come smaller than it is, which is faster, but its sides not below that. A file that is broken,
    too large or something else makes decoders raise whatever they meet first.
    """
    with Image.open(source, formats=FORMATS) as opened:
        width, height = opened.size
        if width * height > most_pixels:
            raise ValueError(f"{width} x {height} pixels are more than {most_pixels:,}")
        if at_least is not None:
            opened.draft("RGB", (at_least, at_least))
        image: Image.Image = ImageOps.exif_transpose(opened) if upright else opened
        if image.has_transparency_data:
            coloured = image.convert("RGBA")
            image = Image.new("RGBA", coloured.size, "white")
            image.alpha_composite(coloured)
        return image.convert("RGB")
