"""A contact sheet: queries and their hits in one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

from lookalike.errors import LookalikeError
from lookalike.files import atomically
from lookalike.inference.pictures import read_picture
from lookalike.search.index import Index
from lookalike.search.items import Hit

Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

SIDE = 180
CAPTION = 40
GAP = 12
COLUMNS = 6
INK, SOFT, PAPER, LINE, ACCENT = "#1d2126", "#5b626b", "#fcfbf8", "#dedad2", "#0072b2"


def write_contact_sheet(
    path: Path, index: Index, queries: Sequence[tuple[str, Image.Image, Sequence[Hit]]]
) -> None:
    """Write a PNG of each query, framed, and after it its hits with label and similarity."""
    blocks = [-(-(1 + len(hits)) // COLUMNS) for _, _, hits in queries]
    columns = min(COLUMNS, max((1 + len(hits) for _, _, hits in queries), default=1))
    cell, height = SIDE + GAP, SIDE + CAPTION + GAP
    sheet = Image.new("RGB", (columns * cell + GAP, sum(blocks) * height + GAP), PAPER)
    drawn, font = ImageDraw.Draw(sheet), ImageFont.load_default(13)
    top = 0
    for (name, image, hits), block in zip(queries, blocks, strict=True):
        cells: list[tuple[Image.Image | None, str, str, str]] = [(image, "query", name, ACCENT)]
        cells += [
            (picture_of(index, hit), hit.label or hit.path, f"{hit.similarity:.3f}", LINE)
            for hit in hits
        ]
        for number, (picture, first, second, frame) in enumerate(cells):
            row, column = divmod(number, COLUMNS)
            left, upper = GAP + column * cell, GAP + (top + row) * height
            if picture is None:
                drawn.text((left + 8, upper + SIDE // 2), "the file is missing", SOFT, font)
            else:
                small = picture.copy()
                small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
                x, y = left + (SIDE - small.width) // 2, upper + (SIDE - small.height) // 2
                sheet.paste(small, (x, y))
            edges = (left, upper, left + SIDE - 1, upper + SIDE - 1)
            drawn.rectangle(edges, outline=frame, width=3 if frame == ACCENT else 1)
            drawn.text((left, upper + SIDE + 4), fitted(font, first), INK, font)
            drawn.text((left, upper + SIDE + 21), fitted(font, second), SOFT, font)
        top += block
    with atomically(path) as draft:
        sheet.save(draft, "PNG", optimize=True)


def picture_of(index: Index, hit: Hit) -> Image.Image | None:
    """The picture of a hit; None where its file is missing or broken."""
    try:
        return read_picture(index.file_of(hit.id))
    except LookalikeError:
        return None


def fitted(font: Font, text: str) -> str:
    """``text``, shortened until it fits under a picture."""
    text = text.replace("_", " ").replace("\n", " ")
    if font.getlength(text) <= SIDE:
        return text
    while text and font.getlength(text + "\u2026") > SIDE:
        text = text[:-1]
    return text + "\u2026"
