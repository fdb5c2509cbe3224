"""The built-in data set: characters as drawn by the fonts inside matplotlib.

It resembles Stanford Online Products, many classes with few images each, and needs no download. A
class is a character, its images are the different drawings of it by 24 text fonts (DejaVu, STIX,
Computer Modern). Characters that look the same, such as the Latin, Greek and Cyrillic capital A,
are one class: nothing can be learned from labels that contradict the pixels.
"""

import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from lookalike.data.cache import cache_folder
from lookalike.data.image_set import ImageSet, digest
from lookalike.errors import BadInput
from lookalike.files import atomically
from lookalike.registry import DATASETS

SIDE = 32
LEAST_FONTS = 8
_NOT_TEXT = ("LastResort", "STIXNonUni", "STIXSiz", "cmex10", "cmsy10")
_FONT_SIZE = 22
_BASELINE = 23
_ORDER_SEED = 2_000
# Computer Modern fonts sit in TeX's own encoding: beyond letters and digits their tables name
# other characters than they draw (U+00A1 is a capital gamma).
_TEX_ENCODED = frozenset(map(ord, string.ascii_letters + string.digits))
_RECIPE = f"3 {SIDE} {LEAST_FONTS} {_FONT_SIZE} {_BASELINE} {_ORDER_SEED}"

Ink = NDArray[np.uint8]


@DATASETS.register("glyphs")
def glyphs(root: Path | None = None) -> ImageSet:
    """Characters in the fonts inside matplotlib: about 2,300 classes, 32x32 grey, built in."""
    if root is not None:
        raise BadInput(
            "'glyphs' is built in and takes no data.root; data.name=folder reads a folder of images"
        )
    fonts = [f"{font.name} {font.stat().st_size}" for font in _font_files()]
    path = cache_folder() / f"glyphs-{digest(_RECIPE, *fonts)}.npz"
    if not path.exists():
        names, labels, drawings = _render_all()
        with atomically(path) as draft, draft.open("wb") as file:
            np.savez(file, names=np.array(names), labels=labels, drawings=drawings)
    with np.load(path) as stored:
        files = tuple(str(name) for name in stored["names"])
        labels, drawings = stored["labels"], stored["drawings"]
    _, first = np.unique(labels, return_index=True)
    fingerprint = digest("glyphs", "\n".join(files), labels, drawings)
    return ImageSet(
        name="glyphs",
        files=files,
        labels=labels,
        class_names=tuple(chr(int(files[i].partition("/")[0][2:], 16)) for i in first),
        test=labels >= len(first) // 2,
        decode=partial(_decode, drawings),
        fingerprint=fingerprint,
        stamp=fingerprint,
    )


def _decode(drawings: Ink, index: int) -> Ink:
    return drawings[index, :, :, None]


def _font_files() -> list[Path]:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return sorted(f for f in folder.glob("*.ttf") if not f.stem.startswith(_NOT_TEXT))


def _render_all() -> tuple[list[str], NDArray[np.int64], Ink]:
    """Names ``U+0041/DejaVuSans``, labels and drawings, class by class in the fixed order.

    A character is used if at least eight fonts draw it differently: oblique fonts often reuse the
    upright drawing of a symbol, and a copy would be a trivial neighbour. The classes are shuffled
    once, by a fixed seed, so that both halves contain every script.
    """
    drawn: dict[int, dict[bytes, str]] = defaultdict(dict)
    for file in _font_files():
        for point, drawing in _render_font(file):
            drawn[point].setdefault(drawing.tobytes(), file.stem)
    characters = {p: drawn[p] for p in sorted(drawn) if len(drawn[p]) >= LEAST_FONTS}
    classes = _look_alikes(characters)
    names: list[str] = []
    labels: list[int] = []
    inks: list[bytes] = []
    for label, position in enumerate(np.random.RandomState(_ORDER_SEED).permutation(len(classes))):
        found: dict[bytes, str] = {}
        for point in classes[position]:
            for ink, font in characters[point].items():
                found.setdefault(ink, f"U+{point:04X}/{font}")
        names += found.values()
        labels += [label] * len(found)
        inks += found
    drawings = np.frombuffer(b"".join(inks), np.uint8).reshape(-1, SIDE, SIDE)
    return names, np.array(labels, np.int64), drawings


def _look_alikes(characters: dict[int, dict[bytes, str]]) -> list[list[int]]:
    """Characters in groups: two belong together if at least half of their drawings are equal."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    points = list(characters)
    owners: dict[bytes, list[int]] = defaultdict(list)
    for position, point in enumerate(points):
        for drawing in characters[point]:
            owners[drawing].append(position)
    shared = Counter(pair for found in owners.values() for pair in combinations(found, 2))
    sizes = [len(characters[point]) for point in points]
    alike = [(a, b) for (a, b), n in shared.items() if 2 * n >= min(sizes[a], sizes[b])]
    links = coo_array(
        (np.ones(len(alike)), tuple(np.array(alike).reshape(-1, 2).T)), (len(points),) * 2
    )
    groups: dict[int, list[int]] = defaultdict(list)
    for point, group in zip(points, connected_components(links, directed=False)[1], strict=True):
        groups[int(group)].append(point)
    return list(groups.values())


def _render_font(file: Path) -> Iterator[tuple[int, Ink]]:
    """Every character that the font has and that leaves ink, white on black."""
    from matplotlib.ft2font import FT2Font

    # Plain layout: shaping would draw a combining accent over a dotted circle.
    font = ImageFont.truetype(str(file), _FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)
    for point in sorted(FT2Font(str(file)).get_charmap()):
        if unicodedata.category(chr(point)) in ("Co", "Cn"):  # not assigned to any character
            continue
        if file.stem.startswith("cm") and point not in _TEX_ENCODED:
            continue
        canvas = Image.new("L", (4 * SIDE, 4 * SIDE))
        ImageDraw.Draw(canvas).text((2 * SIDE, 2 * SIDE), chr(point), 255, font, anchor="ls")
        box = canvas.getbbox()
        if box is not None:
            yield point, _placed(np.asarray(canvas.crop(box)), below=box[3] - 2 * SIDE)


def _placed(ink: Ink, below: int) -> Ink:
    """The ink, reaching ``below`` the baseline, centred across; moved or cut if it cannot fit."""
    cut_y, cut_x = (max(0, size - SIDE) // 2 for size in ink.shape)
    ink = ink[cut_y : cut_y + SIDE, cut_x : cut_x + SIDE]
    height, width = ink.shape
    top = min(max(_BASELINE + below - height, 0), SIDE - height)
    left = (SIDE - width) // 2
    drawing = np.zeros((SIDE, SIDE), np.uint8)
    drawing[top : top + height, left : left + width] = ink
    return drawing
