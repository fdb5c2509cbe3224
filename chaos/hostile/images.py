"""Image files of every format that is accepted, damaged and forged."""

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import interesting, mutated, spliced
from lookalike.data import open_store
from lookalike.data.image_files import HEIC, MOST_PIXELS, _register_heic, read_image
from lookalike.data.listed_images import from_listing
from lookalike.data.listing import in_folder
from lookalike.errors import LookalikeError
from lookalike.inference.pictures import read_picture
from lookalike.serve.limits import Limits, Refusal
from lookalike.serve.pictures import check_headers, decode_upload, encoded

__all__ = ["Images", "Stores", "corpus"]

LIMITS = Limits()
HEAD = 200
"""Where most formats keep what matters."""


def corpus() -> dict[str, list[bytes]]:
    """Small undamaged files by format: every mode, animations, orientation, profiles, 16 bits."""
    _register_heic()
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (22, 34, 3), np.uint8))
    alpha = noise.copy()
    alpha.putalpha(Image.fromarray(rng.integers(0, 256, (22, 34), np.uint8)))
    deep = Image.fromarray(rng.integers(0, 65536, (22, 34), np.uint16))
    floats = Image.fromarray(rng.normal(size=(22, 34)).astype(np.float32))
    palette = noise.quantize(17)
    grey = noise.convert("L")
    frames = [noise.rotate(90 * turn) for turn in range(3)]
    turned = Image.Exif()
    turned[0x0112] = 6
    turned[0x010E] = "a <b>description</b>"
    more: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "duration": 40}
    clear = {"transparency": 3}
    files: dict[str, list[tuple[Image.Image, dict[str, Any]]]] = {
        "JPEG": [
            (noise, {}),
            (grey, {}),
            (noise.convert("CMYK"), {}),
            (noise, {"progressive": True, "exif": turned}),
            (noise, {"icc_profile": b"profile" * 20, "comment": b"c" * 99, "dpi": (9, 9)}),
        ],
        "PNG": [
            *((one, {}) for one in (noise, alpha, grey, deep, palette, noise.convert("1"))),
            (alpha.convert("LA"), {}),
            (palette, clear),
            (palette, {"transparency": bytes(range(17))}),
            (noise, {"exif": turned, "optimize": True, "transparency": (1, 2, 3)}),
            (noise, more),
        ],
        "GIF": [(palette, {}), (palette, clear), (noise, more), (grey, {"interlace": 1})],
        "BMP": [(one, {}) for one in (noise, palette, grey, noise.convert("1"), alpha)],
        "TIFF": [
            *((one, {}) for one in (noise, alpha, grey, deep, palette, floats)),
            (noise.convert("CMYK"), {"compression": "tiff_lzw"}),
            (noise, {"compression": "jpeg", "exif": turned}),
            (noise, {"compression": "tiff_adobe_deflate"}),
            (noise.convert("1"), {"compression": "group4"}),
            (noise.convert("LAB"), {"compression": "packbits"}),
            (noise, {"save_all": True, "append_images": frames[1:]}),
        ],
        "WEBP": [
            (noise, {}),
            (alpha, {"lossless": True}),
            (noise, {"exif": turned}),
            (noise, more),
        ],
        "PPM": [(one, {}) for one in (noise, grey, deep, noise.convert("1"), floats)],
        "AVIF": [(noise, {}), (alpha, {}), (noise, more)],
    }
    if HEIC:
        files["HEIF"] = [(noise, {}), (alpha, {}), (noise, {"exif": turned.tobytes()})]
    made: dict[str, list[bytes]] = {}
    for kind, images in files.items():
        for image, options in images:
            out = io.BytesIO()
            with suppress(KeyError, OSError, ValueError):  # a Pillow without this codec
                image.save(out, kind, **options)
                made.setdefault(kind, []).append(out.getvalue())
    made["PPM"] += [
        b"P2 3 2 255\n1 2 3\n4 5 6\n",
        b"P3\n# comment\n1 1 65535\n1 2 3\n",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" + b"12345678",
        b"Pf\n2 2\n-1.0\n" + struct.pack("<4f", 1, float("nan"), float("inf"), -1),
        b"Py P\n2 2\n255\n" + bytes(8),
    ]
    return made


class Images(Fuzzer):
    """Through every door by which a picture comes in: a data set, an index, an upload."""

    name = "images"
    count = 600
    megabytes = 4000
    refusals = (LookalikeError, Refusal)

    def prepare(self, folder: Path) -> None:  # noqa: ARG002 - nothing is kept there
        """Make the undamaged files."""
        self.files = corpus()
        self.formats = sorted(self.files)

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Damaged and forged files."""
        path = folder / "picture"
        while True:
            kind = random.choice(self.formats)
            data = random.choice(self.files[kind])
            refuse = False
            draw = random.random()
            if draw < 0.04:
                kind, data, refuse = bomb(random)
            elif draw < 0.3:
                data = forged(random, kind, data)
            elif draw < 0.4:
                data = spliced(random, data, random.choice(self.files[random.choice(self.formats)]))
            else:
                data = mutated(random, data, HEAD if random.random() < 0.7 else None)
            run = random.choice((as_file, as_upload, as_member))
            yield Input(kind, partial(run, data, path), refuse, data)


def as_file(data: bytes, path: Path) -> None:
    """As ``lookalike index`` and ``search`` read a picture."""
    path.write_bytes(data)
    check(np.asarray(read_picture(path)), MOST_PIXELS)


def as_member(data: bytes, _: Path) -> None:
    """As a data set reads one."""
    check(read_image(io.BytesIO(data), "a picture", upright=True), MOST_PIXELS)


def as_upload(data: bytes, _: Path) -> None:
    """As the server reads one, and shows it."""
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


def forged(random: Random, kind: str, data: bytes) -> bytes:
    """A change that keeps the file's checksums and lengths right."""
    if kind == "PNG":
        return forged_png(random, data)
    made = bytearray(data)
    if kind == "JPEG":
        places = [i for i in range(len(made) - 9) if made[i] == 0xFF and 0xC0 <= made[i + 1] < 0xFF]
        place = random.choice(places or [0]) + random.choice((2, 5, 7))
        made[place : place + 2] = interesting(random, 2, "big")
    elif kind == "GIF":
        place = random.choice((6, 8, 10, 13))
        made[place : place + 2] = interesting(random, 2, "little")
    elif kind == "TIFF" and len(made) > 16:
        order = "little" if made[:2] == b"II" else "big"
        start = int.from_bytes(made[4:8], order)  # type: ignore[arg-type]
        entry = start + 2 + 12 * random.randrange(12)
        place, width = random.choice(((entry, 2), (entry + 2, 2), (entry + 4, 4), (entry + 8, 4)))
        made[place : place + width] = interesting(random, width, order)
    elif kind == "BMP":
        place = random.choice((10, 14, 18, 22, 28, 30, 46))
        made[place : place + 4] = interesting(random, 4, "little")
    else:
        return mutated(random, data, 64)
    return bytes(made)


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG with its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def forged_png(random: Random, data: bytes) -> bytes:
    """Other chunks, in another order, with right checksums."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    number = random.randrange(len(chunks))
    name, body = chunks[number]
    choice = random.randrange(5)
    if choice == 0 and body:
        chunks[number] = (name, mutated(random, body))
    elif choice == 1:
        chunks[number] = (
            random.choice((b"tRNS", b"PLTE", b"acTL", b"fcTL", b"iCCP", b"zzZz")),
            body,
        )
    elif choice == 2:
        chunks.insert(random.randrange(len(chunks)), (name, body))
    elif choice == 3:
        squeezed = zlib.compress(bytes(random.choice((10**3, 10**7))))
        extra = random.choice(
            ((b"zTXt", b"k\0\0" + squeezed), (b"iCCP", b"k\0\0" + squeezed), (b"eXIf", body))
        )
        chunks.insert(1, extra)
    else:
        width, height = (random.choice((0, 1, 9, 34, 2**16, 2**31 - 1)) for _ in range(2))
        rest = chunks[0][1][8:]
        chunks[0] = (chunks[0][0], struct.pack(">II", width, height) + rest)
    return data[:8] + b"".join(chunk(name, body) for name, body in chunks)


def bomb(random: Random) -> tuple[str, bytes, bool]:
    """A small file of a huge picture, which must be refused."""
    side = random.choice((12_000, 20_000, 60_000, 1_000_000))
    choice = random.randrange(4)
    if choice == 0:
        head = struct.pack(">IIBBBBB", side, side, random.choice((1, 8)), 0, 0, 0, 0)
        body = zlib.compress(bytes(10**6))
        parts = (chunk(b"IHDR", head), chunk(b"IDAT", body), chunk(b"IEND", b""))
        return "bomb PNG", b"\x89PNG\r\n\x1a\n" + b"".join(parts), True
    if choice == 1:
        side = min(side, 60_000)
        head = b"GIF89a" + struct.pack("<HH", side, side) + b"\x00\x00\x00"
        frame = (
            b"," + struct.pack("<HHHH", 0, 0, side, side) + b"\x80" + bytes(6) + b"\x02\x02D\x01\0;"
        )
        return "bomb GIF", head + frame, True
    if choice == 2:
        head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 1, 0, 0, 0, 0, 0, 0)
        return "bomb BMP", b"BM" + struct.pack("<IHHI", 62, 0, 0, 62) + head + bytes(4096), True
    return "bomb PPM", f"P6\n{side} {side}\n255\n".encode() + bytes(4096), True


class Stores(Fuzzer):
    """Data sets with damaged files, stored as pixels and as JPEGs."""

    name = "stores"
    count = 12
    seconds = 60

    def prepare(self, folder: Path) -> None:  # noqa: ARG002 - nothing is kept there
        """Make the undamaged files."""
        self.files = corpus()

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Data sets of a few files, some of them damaged."""
        kinds = sorted(self.files)
        for number in range(10**9):
            home = folder / str(number)
            home.mkdir()
            names = []
            for place in range(random.randrange(1, 9)):
                data = random.choice(self.files[random.choice(kinds)])
                if random.random() < 0.5:
                    data = mutated(random, data, HEAD)
                names.append(f"{place}.png")
                (home / names[-1]).write_bytes(data)
            store = random.choice(("raw", "jpeg"))
            size = random.choice((16, (8, 24), None))
            yield Input(store, partial(stored, home, names, store, size))


def stored(home: Path, names: list[str], kind: Any, size: Any) -> None:
    """Build the store, and read every image of it."""
    labels = np.arange(len(names)) % 2
    test = labels == 1
    images = from_listing("fuzzed", in_folder(home, names), labels, ["a", "b"], test)
    store = open_store(images, size, home / "cache", kind=kind)
    for index in range(len(names)):
        pixels = store.read(index)
        if pixels.dim() != 3 or pixels.shape[0] != 3:
            raise Broken(f"stored as {list(pixels.shape)}")
