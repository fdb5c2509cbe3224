import io
import os
import shutil
import struct
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index
from lookalike.serve.limits import Limits, Refusal
from lookalike.serve.pictures import BoundedCache, Pictures, Thumbnail, check_headers, decode_upload


@pytest.fixture
def pictures(shop_folder, tmp_path):
    """A shop of its own, whose files can be tampered with."""
    from lookalike.search import Embedder

    shutil.copytree(shop_folder / "photos" / "teal disc", tmp_path / "photos" / "teal disc")
    embedder = Embedder.load(shop_folder / "shop.index" / "model")
    index = Index.create(tmp_path / "own.index", embedder, tmp_path / "photos")
    return Pictures(index, BoundedCache(10_000_000))


def file_of(pictures, id):
    return pictures.index.root / pictures.index.item(id).path


def test_thumbnails_are_small_copies(pictures):
    for size in (96, 320):
        thumbnail = pictures.thumbnail(0, size, pictures.tag(0, size))
        with (
            Image.open(io.BytesIO(thumbnail.data)) as small,
            Image.open(file_of(pictures, 0)) as large,
        ):
            assert thumbnail.media_type == "image/jpeg"
            assert max(small.size) == min(size, max(large.size))
            coarse = [np.asarray(i.convert("RGB").resize((16, 16)), float) for i in (small, large)]
            assert abs(coarse[0] - coarse[1]).mean() < 3


def test_what_a_camera_noted_does_not_get_out(pictures):
    exif = Image.Exif()
    exif[0x9286] = "here I live"
    Image.new("RGB", (300, 300), "red").save(file_of(pictures, 0), "JPEG", exif=exif)
    assert b"here I live" in file_of(pictures, 0).read_bytes()
    assert b"here I live" not in pictures.thumbnail(0, 320, "x").data


def test_the_tag_follows_the_file(pictures):
    before = pictures.tag(0, 320)
    assert before == pictures.tag(0, 320) != pictures.tag(0, 96)
    Image.new("RGB", (50, 50)).save(file_of(pictures, 0))
    assert pictures.tag(0, 320) != before


def test_links_out_of_the_folder_are_refused(pictures, shop_folder, tmp_path):
    path = file_of(pictures, 0)
    path.unlink()
    path.symlink_to(shop_folder / "secret.png")
    with pytest.raises(Refusal) as caught:
        pictures.whole(0)
    assert caught.value.status_code == 404
    folder = path.parent
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")  # a whole folder, too
    with pytest.raises(Refusal):
        pictures.tag(1, 96)


def test_files_that_went_or_broke_are_refused(pictures):
    file_of(pictures, 0).unlink()
    file_of(pictures, 1).write_bytes(b"not a picture any more")
    file_of(pictures, 2).unlink()
    os.mkfifo(file_of(pictures, 2))  # reading it would wait for ever
    for id in (0, 1, 2):
        with pytest.raises(Refusal) as caught:
            pictures.thumbnail(id, 96, pictures.tag(id, 96))
        assert caught.value.status_code == 404


def test_the_cache_holds_what_was_used_last():
    cache = BoundedCache(100)
    made = []

    def make(key, size=40):
        def now():
            made.append(key)
            return Thumbnail(bytes(size), "image/png")

        return cache.get(key, now)

    make("a"), make("b"), make("a"), make("c")
    assert made == ["a", "b", "c"]
    assert cache.held_bytes == 80
    make("a")
    make("b")
    assert made == ["a", "b", "c", "b"]
    make("large", 1000)
    assert cache.held_bytes == 0


def test_the_cache_counts_right_when_many_ask_at_once():
    cache = BoundedCache(1000)

    def ask(seed):
        rng = np.random.default_rng(seed)
        for key in rng.integers(0, 60, 500):
            cache.get(str(key), lambda: Thumbnail(bytes(50), "image/png"))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.held_bytes == 50 * len(cache._thumbnails) <= 1000


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


def upload(data, limits):
    """As the server decodes an upload."""
    file = io.BytesIO(data)
    check_headers([file], limits)
    return decode_upload(file, limits)


def refused(data, limits=None):
    with pytest.raises(Refusal) as caught:
        upload(data, limits or Limits())
    return caught.value.status_code, caught.value.detail


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_usual_pictures_are_decoded_as_rgb(picture, as_bytes, kind):
    image = picture()
    found = upload(as_bytes(image, kind), Limits())
    assert found.mode == "RGB"
    assert found.size == image.size


def test_photos_are_turned_upright(as_bytes):
    image = Image.new("RGB", (40, 20), "white")
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    assert upload(as_bytes(image, "JPEG", exif=exif), Limits()).size == (20, 40)


def test_transparent_parts_are_white(as_bytes):
    clear = Image.new("RGBA", (30, 30), (255, 0, 0, 0))
    assert np.asarray(upload(as_bytes(clear), Limits())).min() == 255


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
    upload(whole, Limits())


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
