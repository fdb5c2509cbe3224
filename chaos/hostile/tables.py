"""Tables of images: CSV, Parquet and WebDataset, with anything in any cell."""

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike import data
from lookalike.errors import LookalikeError
from lookalike.inference.source import open_source

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
    *(None, 0, -1, 1.5, float("nan"), 10**30, True, "a", "", "<b>", [1], {"a": 1}, "9" * 5000),
    b"\xff",
)


class Tables(Fuzzer):
    """Through the readers of data sets and of sources of an index."""

    name = "tables"
    count = 100

    def prepare(self, folder: Path) -> None:
        """Make a few pictures for tables to name."""
        self.home = folder / "home"
        self.home.mkdir()
        rng = np.random.default_rng(0)
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(out, "PNG")
        self.picture = out.getvalue()
        for number in range(4):
            (self.home / f"{number}.png").write_bytes(self.picture)
        outside = folder.resolve() / "outside.png"
        outside.write_bytes(self.picture)
        (self.home / "link.png").symlink_to(outside)
        self.outside = ("../outside.png", str(outside), "link.png", "./x/../../outside.png")
        (self.home / "x").mkdir()

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """Tables of three formats."""
        makers = {"csv": self.csv_table, "parquet": self.parquet, "webdataset": self.shard}
        while True:
            kind = random.choice(sorted(makers))
            table = makers[kind](random)
            damaged = random.random() < 0.3
            if damaged:
                table = mutated(random, table)
            suffix = {"csv": "csv", "parquet": "parquet", "webdataset": "tar"}[kind]
            path = (self.home if kind == "csv" else folder) / f"table.{suffix}"
            named = f"damaged {kind}" if damaged else kind
            yield Input(named, reading(kind, path, table), keep=table)

    def csv_table(self, random: Random) -> bytes:
        """Columns in any order, missing or twice; rows of any length."""
        columns = [*COLUMNS[: random.choice((2, 2, 3, 5))]]
        if random.random() < 0.3:
            columns[random.randrange(len(columns))] = random.choice(COLUMNS)
        out = io.StringIO()
        writer = csv.writer(out, delimiter=random.choice(",;\t"), lineterminator="\n")
        if random.random() < 0.9:
            writer.writerow(columns)
        for number in range(random.choice((0, 1, 4, 4))):
            usual = [f"{number}.png", "ab"[number % 2], ("train", "test")[number % 2], "0", "1"]
            row = [*usual, *usual][: len(columns)]
            if random.random() < 0.4:
                row[random.randrange(len(row))] = random.choice(CELLS)
            if random.random() < 0.2 and "path" in columns:
                row[columns.index("path")] = random.choice(self.outside)
            writer.writerow(row if random.random() < 0.9 else row[1:])
        return out.getvalue().encode("utf-8", "surrogatepass")

    def parquet(self, random: Random) -> bytes:
        """Columns of any type."""
        import pyarrow
        import pyarrow.parquet

        rows = random.choice((0, 1, 4))
        images: list[Any] = [self.picture] * rows
        if random.random() < 0.3:
            images = [{"bytes": self.picture, "path": "x"}] * rows
        columns: dict[str, list[Any]] = {"image": images, "label": list(range(rows))}
        if random.random() < 0.5:
            columns["split"] = [random.choice(("train", "test", None)) for _ in range(rows)]
        if random.random() < 0.6:
            columns[random.choice((*columns, "other"))] = [random.choice(VALUES)] * rows
        if random.random() < 0.2:
            del columns[random.choice(sorted(columns))]
        out = io.BytesIO()
        try:
            table = pyarrow.table(columns)
            pyarrow.parquet.write_table(table, out, row_group_size=2)
        except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
            return random.randbytes(40)
        return out.getvalue()

    def shard(self, random: Random) -> bytes:
        """Samples without image, without class, with a class of any kind."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for number in range(random.choice((0, 1, 4))):
                value = random.choice((*VALUES[:-1], "a", "b", 0, 1))
                label = {"label": value, "split": random.choice(("train", "test", None, 3))}
                about = random.choice(
                    (
                        (".cls", str(value).encode()),
                        (".txt", random.choice((b"a", b"", b"\xff", b"\n", b"1" * 5000))),
                        (".json", json.dumps(label).encode()),
                        (".json", random.choice((b"[]", b"1", b"{", b"[" * 100_000, b'"x"'))),
                        (".xyz", b""),
                    )
                )
                for suffix, content in ((".png", self.picture), about):
                    info = tarfile.TarInfo(random.choice((f"{number}", f"a/{number}")) + suffix)
                    info.size = len(content)
                    if random.random() < 0.05:
                        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                    archive.addfile(info, io.BytesIO(content))
        return out.getvalue()


def reading(kind: str, path: Path, table: bytes) -> Callable[[], None]:
    """Write a table, and read what it names."""

    def run() -> None:
        path.write_bytes(table)
        if kind == "csv":
            indexed(path)
        images = data.load(kind, path)
        for index in range(min(3, len(images))):
            images.decode(index)

    return run


def indexed(table: Path) -> None:
    """An index takes pictures of the table's folder only; a data set may name any of the user's."""
    try:
        source = open_source(table)
    except LookalikeError:  # which the reader of data sets may not say
        return
    for path in source.table["path"].to_pylist():
        if not (source.root / path).resolve().is_relative_to(table.parent.resolve()):
            raise Broken(f"a picture outside of the table's folder would be indexed: {path}")
