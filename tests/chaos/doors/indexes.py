"""Folders of an index from a stranger: whatever a file says, no wrong answer, no file outside."""

import shutil
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from lookalike.search import Embedder, Index
from tests.chaos.doors.documents import forged_json
from tests.chaos.doors.door import Broken, Door, Input, damaged
from tests.chaos.works import make_pictures

__all__ = ["Indexes"]


class Indexes(Door):
    """``Index.open``, searches and items, after one of the index's files was changed."""

    name = "indexes"
    count = 60

    def prepare(self, folder: Path) -> None:
        """Index a few pictures."""
        self.photos = make_pictures(folder / "photos", classes=3, images=4)
        torch.manual_seed(0)
        self.whole = folder / "whole.index"
        model = Embedder.from_network("small-cnn", weights="none")
        index = Index.create(self.whole, model, self.photos)
        index.remove([3])
        self.query = np.random.default_rng(0).normal(size=(1, model.dim)).astype(np.float32)
        self.expected = self.answers(Index.open(self.whole))
        (folder / "secret.png").write_bytes(next(self.photos.rglob("*.png")).read_bytes())

    def answers(self, index: Index) -> list[tuple[int, str, str | None, float]]:
        """What a search says."""
        hits = index.search(self.query, 5)[0]
        hits += index.search(self.query, 2, label="01")[0]
        return [(hit.id, hit.path, hit.label, round(hit.similarity, 4)) for hit in hits]

    def inputs(self) -> st.SearchStrategy[Input]:
        """The name of a file, and its other content; None: it is missing."""
        files = sorted(path for path in self.whole.rglob("*") if path.is_file())
        names = [str(p.relative_to(self.whole)) for p in files if p.name != ".lock"]
        return st.sampled_from(names).flatmap(self.changed)

    def changed(self, name: str) -> st.SearchStrategy[Input]:
        """The file with another content."""
        path = self.whole / name
        data, kind = path.read_bytes(), path.suffix or path.name
        made = damaged(data, 200)
        if path.suffix == ".json" and data:
            made = forged_json(data.decode())
        return (made | st.none()).map(lambda content: Input(kind, (name, content)))

    def receive(self, sent: Input, folder: Path) -> None:
        """Change the file, and search."""
        place, (name, content) = folder / "some.index", sent.content
        shutil.copytree(self.whole, place)
        (place / name).unlink()
        if content is not None:
            (place / name).write_bytes(content)
        try:
            index = Index.open(place)
            found = self.answers(index)
            for id in index.ids[:20]:
                if not index.file_of(int(id)).is_relative_to(self.photos):
                    raise Broken("a file outside of the indexed folder")
            if found != self.expected:
                raise Broken(f"a wrong answer was given: {found}")
        finally:
            shutil.rmtree(place)
