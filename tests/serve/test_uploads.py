import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from lookalike.serve.limits import Limits, Refusal
from lookalike.serve.pictures import decode_upload


def png_header(width, height):
    """A PNG that claims a size and holds almost nothing."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


def refused(data, limits=None):
    with pytest.raises(Refusal) as caught:
        decode_upload(data, limits or Limits())
    return caught.value.status_code, caught.value.detail


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_usual_pictures_are_decoded_as_rgb(picture, as_bytes, kind):
    image = picture()
    found = decode_upload(as_bytes(image, kind), Limits())
    assert found.mode == "RGB"
    assert found.size == image.size


def test_photos_are_turned_upright(as_bytes):
    image = Image.new("RGB", (40, 20), "white")
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    assert decode_upload(as_bytes(image, "JPEG", exif=exif), Limits()).size == (20, 40)


def test_transparent_parts_are_white(as_bytes):
    clear = Image.new("RGBA", (30, 30), (255, 0, 0, 0))
    assert np.asarray(decode_upload(as_bytes(clear), Limits())).min() == 255


def test_what_is_no_picture_is_refused():
    assert refused(b"")[0] == 422
    for data in (
        b"hello",
        b"%PDF-1.7 ...",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        bytes(1000),
    ):
        status, sentence = refused(data)
        assert status == 415
        assert "JPEG" in sentence
    status, sentence = refused(b"\0\0\0\x18ftypheic" + bytes(50))
    assert status == 415
    assert "heic" in sentence
    # PostScript could start a program; the decoder never sees it
    assert refused(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")[0] == 415


def test_damaged_pictures_are_refused(picture, as_bytes):
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP"):
        whole = as_bytes(picture(), kind)
        status, sentence = refused(whole[: len(whole) // 3])
        assert status == 422, kind
        assert "damaged" in sentence
    assert refused(png_header(100, 100))[0] == 422


@pytest.mark.parametrize("size", [(60_000, 60_000), (2**31 - 1, 2**31 - 1), (30_000, 2_000)])
def test_bombs_are_refused_by_their_header(size):
    status, sentence = refused(png_header(*size))
    assert status == 413
    assert "pixels" in sentence


def test_long_strips_are_refused():
    status, sentence = refused(png_header(1, 40_000_000))
    assert status == 422
    assert "20 times" in sentence


def test_jpegs_of_endless_scans_are_refused(picture, as_bytes):
    whole = as_bytes(picture(), "JPEG", progressive=True)
    first = whole.index(b"\xff\xda")
    following = whole.index(b"\xff\xda", first + 2)
    many = whole[:first] + whole[first:following] * 200 + whole[following:]
    status, sentence = refused(many)
    assert status == 422
    assert "scans" in sentence
    decode_upload(whole, Limits())


def test_limits_on_bytes_and_pixels(picture, as_bytes):
    data = as_bytes(picture())
    assert refused(data, Limits(upload_bytes=1000))[0] == 413
    assert refused(data, Limits(pixels=1000))[0] == 413


def test_a_compressed_text_chunk_does_not_unfold(as_bytes):
    from PIL.PngImagePlugin import PngInfo

    extra = PngInfo()
    extra.add_text("bomb", "a" * 80_000_000, zip=True)
    out = io.BytesIO()
    Image.new("RGB", (30, 30)).save(out, "PNG", pnginfo=extra)
    assert len(out.getvalue()) < 200_000
    assert refused(out.getvalue())[0] == 422
