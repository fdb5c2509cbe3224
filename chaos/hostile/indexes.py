"""Folders of an index with a changed file, whatever the format: opened, searched, added to."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from chaos.hostile.documents import forged_json
from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike.search import Embedder, Index

__all__ = ["Indexes"]


class Indexes(Fuzzer):
    """``Index.open``, searches and items, after one of the index's files was changed."""

    name = "indexes"
    count = 60

    def prepare(self, folder: Path) -> None:
        """Index a few pictures."""
        photos = folder / "photos"
        rng = np.random.default_rng(0)
        for number in range(12):
            (photos / f"class {number % 3}").mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8))
            picture.save(photos / f"class {number % 3}" / f"{number}.png")
        torch.manual_seed(0)
        self.whole = folder / "whole.index"
        index = Index.create(self.whole, Embedder.from_network("small-cnn", weights="none"), photos)
        index.remove([3])
        self.query = rng.normal(size=(1, index.embedder.dim)).astype(np.float32)
        self.expected = self.answers(Index.open(self.whole))
        (folder / "secret.png").write_bytes(next(photos.rglob("*.png")).read_bytes())

    def answers(self, index: Index) -> list[tuple[int, str, str | None, float]]:
        """What a search says."""
        hits = index.search(self.query, 5)[0]
        hits += index.search(self.query, 2, label="class 1")[0]
        return [(hit.id, hit.path, hit.label, round(hit.similarity, 4)) for hit in hits]

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """An index with one file changed."""
        place = folder / "some.index"
        while True:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self.whole, place)
            files = sorted(path for path in place.rglob("*") if path.is_file())
            path = random.choice([path for path in files if path.name != ".lock"])
            data = path.read_bytes()
            kind = path.suffix or path.name
            if path.suffix == ".json" and data:
                data = forged_json(random, data.decode())
            else:
                data = mutated(random, data, 200 if random.random() < 0.5 else None)
            gone = random.random() < 0.05
            yield Input(kind, self.call(place, path, None if gone else data), keep=data)

    def call(self, place: Path, path: Path, data: bytes | None) -> Callable[[], None]:
        """Change the file, and search."""

        def run() -> None:
            path.unlink()
            if data is not None:
                path.write_bytes(data)
            index = Index.open(place)
            found = self.answers(index)
            for id in index.ids[:20]:
                if not index.file_of(int(id)).is_relative_to(self.whole.parent / "photos"):
                    raise Broken("a file outside of the indexed folder")
            if found != self.expected:
                raise Broken(f"a wrong answer was given: {found}")

        return run
