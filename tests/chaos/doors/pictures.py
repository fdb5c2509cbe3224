"""Image files of every format that is accepted, damaged and forged."""

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from lookalike.data.image_files import HEIC, MOST_PIXELS, read_image
from lookalike.errors import LookalikeError
from lookalike.inference.pictures import read_picture
from lookalike.serve.limits import Limits, Refusal
from lookalike.serve.pictures import check_headers, decode_upload, encoded
from tests.chaos.doors.door import Broken, Door, Input, damaged, edge_number

__all__ = ["Pictures", "corpus"]

LIMITS = Limits()
HEAD = 200
"""Where most formats keep what matters."""


def corpus() -> dict[str, list[bytes]]:
    """Small undamaged files by format: every mode, animations, orientation, profiles, 16 bits."""
    if HEIC:
        import pillow_heif

        pillow_heif.register_heif_opener()
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (22, 34, 3), np.uint8))
    alpha = noise.copy()
    alpha.putalpha(Image.fromarray(rng.integers(0, 256, (22, 34), np.uint8)))
    deep = Image.fromarray(rng.integers(0, 65536, (22, 34), np.uint16))
    floats = Image.fromarray(rng.normal(size=(22, 34)).astype(np.float32))
    palette, grey, bits = noise.quantize(17), noise.convert("L"), noise.convert("1")
    modes = (noise, alpha, grey, deep, palette, floats, bits, noise.convert("CMYK"))
    frames = [noise.rotate(90 * turn) for turn in range(3)]
    turned = Image.Exif()
    turned[0x0112] = 6
    turned[0x010E] = "a <b>description</b>"
    options: tuple[dict[str, Any], ...] = (
        {},
        {"exif": turned, "optimize": True, "progressive": True},
        {"save_all": True, "append_images": frames[1:], "duration": 40},
        {"transparency": 3},
        {"transparency": bytes(range(17))},
        {"icc_profile": b"profile" * 20, "comment": b"c" * 99, "dpi": (9, 9)},
        {"compression": "tiff_lzw"},
        {"compression": "jpeg"},
        {"compression": "group4"},
        {"lossless": True},
        {"interlace": 1},
    )
    made: dict[str, list[bytes]] = {}
    for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF", *["HEIF"] * HEIC):
        for image in modes:
            for given in options:
                out = io.BytesIO()
                with suppress(Exception):  # a Pillow without this codec; a mode it does not have
                    image.save(out, kind, **given)
                    made.setdefault(kind, []).append(out.getvalue())
        made[kind] = list(dict.fromkeys(made[kind]))
    made["PPM"] += [
        b"P2 3 2 255\n1 2 3\n4 5 6\n",
        b"P3\n# comment\n1 1 65535\n1 2 3\n",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" + b"12345678",
        b"Pf\n2 2\n-1.0\n" + struct.pack("<4f", 1, float("nan"), float("inf"), -1),
        b"Py P\n2 2\n255\n" + bytes(8),
    ]
    return made


class Pictures(Door):
    """Through every door by which a picture comes in: a data set, an index, an upload."""

    name = "pictures"
    count = 600
    megabytes = 4000
    refusals = (LookalikeError, Refusal)

    def prepare(self, folder: Path) -> None:
        """Make the undamaged files."""
        self.files = corpus()

    def inputs(self) -> st.SearchStrategy[Input]:
        """Damaged and forged files, and where they come in."""
        files = [(kind, data) for kind, found in self.files.items() for data in found]
        some = st.sampled_from(files)
        where = st.sampled_from(("file", "upload", "member"))

        def input_of(made: tuple[str, bytes], door: str, refuse: bool = False) -> Input:
            return Input(made[0], (door, made[1]), refuse)

        def changed(file: tuple[str, bytes]) -> st.SearchStrategy[tuple[str, bytes]]:
            ways = damaged(file[1], HEAD) | damaged(file[1]) | forged(*file)
            return st.tuples(st.just(file[0]), ways)

        bad = st.builds(input_of, some.flatmap(changed), where)
        return st.one_of(*[bad] * 12, st.builds(input_of, bombs(), where, st.just(True)))

    def receive(self, sent: Input, folder: Path) -> None:
        """As commands, data sets and the server read a picture."""
        where, data = sent.content
        if where == "file":
            path = folder / "picture"
            path.write_bytes(data)
            check(np.asarray(read_picture(path)), MOST_PIXELS)
        elif where == "member":
            check(read_image(io.BytesIO(data), "a picture", upright=True), MOST_PIXELS)
        else:
            file = io.BytesIO(data)
            check_headers([file], LIMITS)
            image = decode_upload(file, LIMITS)
            check(np.asarray(image), LIMITS.pixels)
            if not encoded(image, 96).data:
                raise Broken("no thumbnail")


def check(pixels: np.ndarray[Any, Any], most: int) -> None:
    """A picture that was accepted is one."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise Broken(f"accepted as {pixels.dtype} {pixels.shape}")
    if not 0 < pixels.shape[0] * pixels.shape[1] <= most:
        raise Broken(f"accepted with {pixels.shape[0]} x {pixels.shape[1]} pixels")


@st.composite
def forged(draw: st.DrawFn, kind: str, data: bytes) -> bytes:
    """A number in the head of the file at the end of its type, with right checksums."""
    if kind == "PNG":
        return draw(forged_png(data))
    made = bytearray(data)
    order, places, width = "little", [6, 8, 10, 13], 2
    if kind == "JPEG":
        marks = [i for i in range(len(made) - 9) if made[i] == 0xFF and 0xC0 <= made[i + 1] < 0xFF]
        order, places = "big", [mark + step for mark in marks or [0] for step in (2, 5, 7)]
    elif kind == "TIFF" and len(made) > 16:
        order = "little" if made[:2] == b"II" else "big"
        start = int.from_bytes(made[4:8], order)  # type: ignore[arg-type]
        places = [start + 2 + 12 * entry + step for entry in range(12) for step in (0, 2, 4, 8)]
        width = draw(st.sampled_from((2, 4)))
    elif kind == "BMP":
        places, width = [10, 14, 18, 22, 28, 30, 46], 4
    at = draw(st.sampled_from(places))
    made[at : at + width] = draw(edge_number(width, order))
    return bytes(made)


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG with its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


@st.composite
def forged_png(draw: st.DrawFn, data: bytes) -> bytes:
    """Other chunks, in another order, with right checksums."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    number = draw(st.integers(0, len(chunks) - 1))
    name, body = chunks[number]
    match draw(st.sampled_from(("body", "name", "again", "squeezed", "size"))):
        case "body":
            chunks[number] = (name, draw(damaged(body)))
        case "name":
            names = (b"tRNS", b"PLTE", b"acTL", b"fcTL", b"iCCP", b"zzZz")
            chunks[number] = (draw(st.sampled_from(names)), body)
        case "again":
            chunks.insert(draw(st.integers(0, len(chunks))), (name, body))
        case "squeezed":
            squeezed = zlib.compress(bytes(draw(st.sampled_from((10**3, 10**7)))))
            name = draw(st.sampled_from((b"zTXt", b"iCCP", b"eXIf")))
            chunks.insert(1, (name, b"k\0\0" + squeezed))
        case "size":
            sides = st.sampled_from((0, 1, 9, 34, 2**16, 2**31 - 1))
            head = struct.pack(">II", draw(sides), draw(sides)) + chunks[0][1][8:]
            chunks[0] = (chunks[0][0], head)
    return data[:8] + b"".join(chunk(name, body) for name, body in chunks)


@st.composite
def bombs(draw: st.DrawFn) -> tuple[str, bytes]:
    """A small file of a huge picture, which must be refused."""
    side = draw(st.sampled_from((12_000, 20_000, 60_000, 1_000_000)))
    kind = draw(st.sampled_from(("PNG", "GIF", "BMP", "PPM")))
    if kind == "PNG":
        head = struct.pack(">IIBBBBB", side, side, draw(st.sampled_from((1, 8))), 0, 0, 0, 0)
        parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(10**6))), (b"IEND", b""))
        data = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
    elif kind == "GIF":
        side = struct.pack("<H", min(side, 60_000))
        data = b"GIF89a" + side + side + bytes(3) + b"," + bytes(4) + side + side
        data += b"\x80" + bytes(6) + b"\x02\x02D\x01\0;"
    elif kind == "BMP":
        head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 1, 0, 0, 0, 0, 0, 0)
        data = b"BM" + struct.pack("<IHHI", 62, 0, 0, 62) + head + bytes(4096)
    else:
        data = f"P6\n{side} {side}\n255\n".encode() + bytes(4096)
    return f"bomb {kind}", data
