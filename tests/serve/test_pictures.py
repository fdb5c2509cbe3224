import io
import os
import shutil
import threading

import numpy as np
import pytest
from PIL import Image

from lookalike.search import Index
from lookalike.serve.limits import Refusal
from lookalike.serve.pictures import BoundedCache, Pictures, Thumbnail


@pytest.fixture
def pictures(shop_folder, tmp_path):
    """A shop of its own, whose files can be tampered with."""
    from lookalike.search import Embedder

    shutil.copytree(shop_folder / "photos" / "teal disc", tmp_path / "photos" / "teal disc")
    embedder = Embedder.load(shop_folder / "shop.index" / "model")
    index = Index.create(tmp_path / "own.index", embedder, tmp_path / "photos")
    return Pictures(index, 10_000_000)


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
    assert cache.held_bytes == 50 * len(cache._kept) <= 1000
