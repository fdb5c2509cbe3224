"""Files that wish us ill are named and passed over."""

import os
import struct
import zlib

import pytest
from PIL import Image

from lookalike.data.image_files import open_rgb
from lookalike.search import Index


def png_claiming(width, height):
    """A PNG of a few bytes that says it is huge."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("side", [11_000, 60_000])
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, side):
    (tmp_path / "bomb.png").write_bytes(png_claiming(side, side))
    with pytest.raises(Exception, match=r"more than|exceeds limit"):
        open_rgb(tmp_path / "bomb.png")


def test_hostile_files_are_skipped_and_named(tmp_path, photos, embedder):
    red = photos / "red"
    (red / "bomb.png").write_bytes(png_claiming(50_000, 50_000))
    (red / "cut.png").write_bytes((red / "0.png").read_bytes()[:2_000])
    (red / "text.jpg").write_text("hello")
    (red / "empty.jpg").touch()
    Image.new("L", (1, 60_000)).save(red / "strip.png")
    (red / "script.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    os.mkfifo(red / "pipe.jpg")
    secret = tmp_path / "secret.png"
    Image.new("RGB", (200, 200)).save(secret)
    (red / "link.png").symlink_to(secret)
    (red / "loop.png").symlink_to(red / "loop.png")
    (photos / "out").symlink_to(tmp_path)
    index = Index.create(tmp_path / "i", embedder)
    added = index.add(photos)
    assert added.new == 12
    assert sorted(s.path for s in added.skipped) == [
        f"red/{name}"
        for name in (
            "bomb.png",
            "cut.png",
            "empty.jpg",
            "link.png",
            "loop.png",
            "script.jpg",
            "strip.png",
            "text.jpg",
        )
    ]  # fmt: skip; a pipe is passed over, as in training
    assert all(s.reason for s in added.skipped)


def test_a_file_swapped_for_a_link_is_not_handed_out(tmp_path, index, photos):
    (tmp_path / "secret.png").write_bytes(b"secret")
    (photos / "red" / "0.png").unlink()
    (photos / "red" / "0.png").symlink_to(tmp_path / "secret.png")
    id = int(index.ids[list(index.paths).index("red/0.png")])
    with pytest.raises(Exception, match="no longer"):
        index.file_of(id)


def test_a_csv_cannot_reach_outside(tmp_path, photos, embedder):
    Image.new("RGB", (200, 200)).save(tmp_path / "secret.png")
    (photos / "list.csv").write_text("path\n../secret.png\n/etc/passwd\nred/0.png\n")
    index = Index.create(tmp_path / "i", embedder)
    added = index.add(photos / "list.csv")
    assert added.new == 1
    assert len(added.skipped) == 2
