"""Tables of images: CSV, Parquet and WebDataset, with anything in any cell."""

import csv
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from hypothesis import strategies as st

from lookalike import data
from lookalike.errors import LookalikeError
from lookalike.inference.source import open_source
from tests.chaos.doors.door import Broken, Door, Input, damaged
from tests.chaos.works import make_pictures

__all__ = ["Tables"]

CELLS = (
    *("", " ", "0", "-1", "1e999", "nan", "train", "test", "val", "a\nb", "a\0b", "\ufeff", "~"),
    *("/etc/passwd", "0.png", "1.png", "x" * 200_000, "\u202egnp.exe", "<img onerror=alert(1)>"),
    *("'; drop table x; --", "=cmd|'/c calc'!A0", "\udcff", "é", "1", "true", '"', ",", "a,b"),
    *("a/" * 999, "./0.png", "../home/1.png"),
)
COLUMNS = (
    *("path", "label", "split", "query", "gallery", "price", "", "path ", "Label", "<b>", "a\nb"),
)
VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, float("nan"), True, "a", "", "<b>", [1], {"a": 1}, "9" * 5000, b"\xff"),
)
SUFFIXES = {"csv": "csv", "parquet": "parquet", "webdataset": "tar"}


class Tables(Door):
    """Through the readers of data sets and of sources of an index."""

    name = "tables"
    count = 100

    def prepare(self, folder: Path) -> None:
        """Make a few pictures for tables to name, and some that they must not."""
        self.home = make_pictures(folder / "home", classes=1, images=4) / "00"
        self.picture = (self.home / "0.png").read_bytes()
        outside = folder.resolve() / "outside.png"
        outside.write_bytes(self.picture)
        (self.home / "link.png").symlink_to(outside)
        self.outside = ("../../outside.png", str(outside), "link.png")

    def inputs(self) -> st.SearchStrategy[Input]:
        """Tables of three formats, whole and damaged."""
        makers = {
            "csv": csv_tables(self.outside),
            "parquet": parquet_files(self.picture),
            "webdataset": shards(self.picture),
        }
        whole = [st.tuples(st.just(kind), made) for kind, made in makers.items()]
        broken = [st.tuples(st.just(kind), made.flatmap(damaged)) for kind, made in makers.items()]
        return st.one_of(
            st.one_of(whole).map(lambda found: Input(found[0], found)),
            st.one_of(broken).map(lambda found: Input(f"damaged {found[0]}", found)),
        )

    def receive(self, sent: Input, folder: Path) -> None:
        """Write a table, and read what it names."""
        kind, content = sent.content
        path = (self.home if kind == "csv" else folder) / f"table.{SUFFIXES[kind]}"
        path.write_bytes(content)
        if kind == "csv":
            indexed(path)
        images = data.load(kind, path)
        for index in range(min(3, len(images))):
            images.decode(index)


@st.composite
def csv_tables(draw: st.DrawFn, outside: tuple[str, ...]) -> bytes:
    """Columns missing or twice; rows of any length; anything in a cell."""
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=2, max_size=5))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=draw(st.sampled_from(",;\t")), lineterminator="\n")
    writer.writerow(draw(st.sampled_from((columns, COLUMNS[:3], COLUMNS[:2]))))
    for number in range(draw(st.sampled_from((0, 1, 4)))):
        row = [f"{number}.png", "ab"[number % 2], ("train", "test")[number % 2]]
        if draw(st.booleans()):
            cell = draw(st.sampled_from((*CELLS, *outside * 3)))
            row[draw(st.integers(0, len(row) - 1))] = cell
        writer.writerow(row[: draw(st.integers(1, 3))])
    return out.getvalue().encode("utf-8", "surrogatepass")


@st.composite
def parquet_files(draw: st.DrawFn, picture: bytes) -> bytes:
    """Columns of any type."""
    rows = draw(st.sampled_from((0, 1, 4)))
    image = draw(st.sampled_from((picture, {"bytes": picture, "path": "x"})))
    columns: dict[str, list[Any]] = {"image": [image] * rows, "label": list(range(rows))}
    name = draw(st.sampled_from(("image", "label", "split", "other")))
    columns[name] = [draw(st.sampled_from((*VALUES, "train", picture)))] * rows
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), out, row_group_size=2)
    return out.getvalue()


@st.composite
def shards(draw: st.DrawFn, picture: bytes) -> bytes:
    """Samples without class, with a class of any kind, and links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(draw(st.sampled_from((0, 1, 4)))):
            value = draw(st.sampled_from((*VALUES[:-1], "a", "b")))
            label = json.dumps({"label": value}).encode()
            broken = draw(st.sampled_from((b"", b"\xff", b"[" * 100_000, b"1" * 5000)))
            about = (".cls", str(value).encode()), (".json", label), (".txt", broken)
            for suffix, content in ((".png", picture), draw(st.sampled_from(about))):
                info = tarfile.TarInfo(f"{number}{suffix}")
                info.size = len(content)
                if draw(st.integers(0, 19)) == 0:
                    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def indexed(table: Path) -> None:
    """An index takes pictures of the table's folder only; a data set may name any of the user's."""
    try:
        source = open_source(table)
    except LookalikeError:  # which the reader of data sets may not say
        return
    for path in source.table["path"].to_pylist():
        if not (source.root / path).resolve().is_relative_to(table.parent.resolve()):
            raise Broken(f"a picture outside of the table's folder would be indexed: {path}")
