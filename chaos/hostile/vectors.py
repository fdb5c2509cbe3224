"""Folders of ``lookalike embed`` with a changed file: the description, a shard or the model."""

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

from chaos.hostile.documents import forged_json
from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike.files import file_checksum, read_json, write_json
from lookalike.inference.bulk.job import Options, embed
from lookalike.inference.bulk.manifest import MANIFEST, Manifest
from lookalike.inference.bulk.source import open_source
from lookalike.search import Embedder
from lookalike.search.vector_files import open_vectors

__all__ = ["VectorFolders"]

VALUES: tuple[Any, ...] = (
    None,
    1,
    1.5,
    float("nan"),
    "a",
    "",
    b"\xff",
    [1.0],
    [0.0],
    ["x"],
    [],
    {"a": 1},
    True,
)


class VectorFolders(Fuzzer):
    """Through ``Manifest.read`` and ``open_vectors``: what is accepted is what was written."""

    name = "vectors"
    count = 60

    def prepare(self, folder: Path) -> None:
        """Embed a few pictures into two shards."""
        rng = np.random.default_rng(0)
        (folder / "photos" / "a").mkdir(parents=True)
        for number in range(6):
            picture = Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))
            picture.save(folder / "photos" / "a" / f"{number}.png")
        torch.manual_seed(0)
        embedder = Embedder.from_network("small-cnn", weights="none")
        self.whole = folder / "vectors"
        embed(embedder, open_source(folder / "photos"), self.whole, Options(per_shard=3))
        self.expected = read(self.whole)

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """A folder with one file changed; a forger makes its checksum fit."""
        place = folder / "vectors"
        while True:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self.whole, place)
            files = sorted(path for path in place.glob("*") if path.is_file())
            path = random.choice(files)
            if path.name == MANIFEST:
                kind, data = MANIFEST, forged_json(random, path.read_text(encoding="utf-8"))
            else:
                kind = random.choice(("shard", "forged shard", "odd shard"))
                whole = path.read_bytes()
                data = odd(random, whole) if kind == "odd shard" else mutated(random, whole)
            yield Input(kind, self.call(kind, path, data), keep=data)

    def call(self, kind: str, path: Path, data: bytes) -> Callable[[], None]:
        """Change the file, and read all vectors."""

        def run() -> None:
            path.write_bytes(data)
            if kind in ("forged shard", "odd shard"):
                forge(path)
            found = read(path.parent)
            if kind == "shard" and found != self.expected:
                raise Broken("other vectors than the written ones were accepted")

        return run


def odd(random: Random, shard: bytes) -> bytes:
    """A shard with a column that is missing, twice, of another type, or with other values."""
    table = pyarrow.parquet.read_table(io.BytesIO(shard))
    place = random.randrange(table.num_columns)
    name = table.column_names[place]
    column = random.choice((*table.columns, *VALUES))
    if not isinstance(column, pyarrow.ChunkedArray):
        column = pyarrow.array([column] * table.num_rows)
    changes = (
        lambda: table.remove_column(place),
        lambda: table.append_column(name, column),
        lambda: table.set_column(place, name, column),
        lambda: table.slice(1),
        lambda: table.rename_columns([*table.column_names[:-1], random.choice(("x", "", "path"))]),
    )
    out = io.BytesIO()
    pyarrow.parquet.write_table(random.choice(changes)(), out)
    return out.getvalue()


def forge(shard: Path) -> None:
    """Let the description have the checksum of a changed shard."""
    manifest = shard.with_name(MANIFEST)
    about = read_json(manifest)
    for one in about["files"]:
        if one["name"] == shard.name:
            one |= {"checksum": file_checksum(shard), "size": shard.stat().st_size}
    write_json(manifest, about, sealed=True)


def read(folder: Path) -> list[str]:
    """All that an import reads of a folder."""
    Manifest.read(folder)
    opened = open_vectors(folder)
    opened.check(lambda _: None)
    opened.embedder()
    return [
        json.dumps([first, vectors.tolist(), table.to_pylist()])
        for first, vectors, table in opened.blocks(4)
    ]
