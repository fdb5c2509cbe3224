"""A picture that somebody sent: decoded within limits, or refused with a sentence."""

import io
from contextlib import suppress

from PIL import Image, UnidentifiedImageError

from lookalike.data.image_files import FORMATS, open_rgb
from lookalike.serve.limits import Limits, Refusal

__all__ = ["decode_upload"]

START_OF_SCAN = b"\xff\xda"


def decode_upload(data: bytes, limits: Limits) -> Image.Image:
    """The picture in ``data``, upright and RGB.

    What the header says is checked before a pixel is decoded.
    """
    if not data:
        raise Refusal(422, "The file is empty.")
    if len(data) > limits.upload_bytes:
        raise Refusal(413, f"The file is larger than {limits.upload_bytes / 2**20:.0f} MB.")
    width, height = size_in_header(data)
    if width * height > limits.pixels:
        raise Refusal(
            413,
            f"The picture has {width:,} x {height:,} pixels; "
            f"at most {limits.pixels / 1e6:.0f} million are taken.",
        )
    if max(width, height) > limits.side_ratio * max(1, min(width, height)):
        raise Refusal(
            422,
            f"The picture has {width:,} x {height:,} pixels; one side may be at most "
            f"{limits.side_ratio:.0f} times the other.",
        )
    if data.count(START_OF_SCAN) > limits.scans and data.startswith(b"\xff\xd8"):
        raise Refusal(422, f"The picture is a JPEG of more than {limits.scans} scans.")
    try:
        return open_rgb(io.BytesIO(data), most_pixels=limits.pixels)
    except Exception as error:  # a broken file makes decoders raise whatever they meet first
        raise Refusal(422, "The picture is damaged and cannot be decoded.") from error


def size_in_header(data: bytes) -> tuple[int, int]:
    """Width and height, before anything is decoded."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as header:
            return header.size
    except Image.DecompressionBombError as error:
        raise Refusal(413, "The picture has far too many pixels.") from error
    except UnidentifiedImageError as error:
        raise Refusal(415, unknown_format(data)) from error
    except Exception as error:
        raise Refusal(422, "The picture is damaged and cannot be decoded.") from error


def unknown_format(data: bytes) -> str:
    """The sentence that refuses what is no picture, or one of another kind."""
    taken = "a JPEG, PNG, WebP, GIF, BMP, TIFF or PPM picture is needed"
    if data[4:8] == b"ftyp":
        with suppress(UnicodeDecodeError):
            return f"This is a file of the kind '{data[8:12].decode('ascii').strip()}'; {taken}."
    return f"This is not a picture that can be read; {taken}."
