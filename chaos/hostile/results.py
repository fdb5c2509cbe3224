"""Folders of runs and studies whose files were changed, through everything that reads them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from chaos.hostile.documents import forged_json
from chaos.hostile.fuzzer import Broken, Fuzzer, Input
from chaos.hostile.mutation import mutated
from lookalike.compare.comparison import chosen_metric, compare
from lookalike.compare.contenders import gather
from lookalike.config import load
from lookalike.inference.embedder import Embedder
from lookalike.report import write_page
from lookalike.shipped import shipped_folder
from lookalike.study.status import status_of, status_table
from lookalike.training import Run, train

__all__ = ["Results"]

SMALL = (
    *("model.network=small-cnn", "model.weights=none", "model.dim=8", "data.transform=small"),
    *("train.epochs=1", "train.batches_per_epoch=2", "sampler.batch_size=4", "sampler.name=random"),
    *("protocol.name=paper", "data.name=folder", "train.device=cpu"),
)
MARKS = ("<script>window.hacked", "<img src=x onerror")
"""What the page would have of ``MARKUP`` if it were not escaped."""


class Results(Fuzzer):
    """``compare``, ``report``, ``study status`` and ``load`` on changed files."""

    name = "results"
    count = 40
    seconds = 60

    def prepare(self, folder: Path) -> None:
        """Train a small run, and copy a study that comes with the package."""
        photos = folder / "photos"
        rng = np.random.default_rng(0)
        for number in range(16):
            (photos / f"class {number % 4}").mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8))
            picture.save(photos / f"class {number % 4}" / f"{number}.png")
        settings = [*SMALL, f"data.root={photos}", f"runs_dir={folder / 'runs'}"]
        self.run = train(load(None, settings)).folder
        self.study = self.short_study(folder / "study")

    def short_study(self, place: Path) -> Path:
        """The first data set of a stored study."""
        stored = shipped_folder("results")
        source = next(path.parent for path in sorted(stored.glob("*/study.db")))
        shutil.copytree(source, place)
        return place

    def inputs(self, random: Random, folder: Path) -> Iterator[Input]:
        """A run or a study with one file changed."""
        place = folder / "place"
        while True:
            source = random.choice((self.run, self.study))
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place, symlinks=True)
            files = sorted(path for path in place.rglob("*") if path.is_file())
            files = [path for path in files if path.suffix != ".lock" and path.name != ".lock"]
            path = random.choice(files)
            kind = ("run " if source == self.run else "study ") + path.suffix
            if path.suffix == ".json":
                data = forged_json(random, path.read_text(encoding="utf-8"))
            elif path.suffix == ".jsonl":
                lines = path.read_text(encoding="utf-8").splitlines()
                at = random.randrange(len(lines))
                lines[at] = forged_json(random, lines[at]).decode("utf-8", "replace")
                data = "\n".join(lines).encode()
            else:
                data = mutated(random, path.read_bytes())
            yield Input(kind, self.call(place, path, data, source == self.run), keep=data)

    def call(self, place: Path, path: Path, data: bytes, is_run: bool) -> Callable[[], None]:
        """Change the file, and do what commands do."""

        def run() -> None:
            path.write_bytes(data)
            if is_run:
                Run(place).epochs()
                Embedder.open(place)
            else:
                status_table(status_of(place))
            found = gather([place])
            compare(found, chosen_metric(found))
            page = place.parent / "page.html"
            write_page(page, found, "A title", "A sentence.")
            text = page.read_text(encoding="utf-8")
            for mark in MARKS:
                if mark in text:
                    raise Broken(f"markup of a file is markup of the page: {mark}")

        return run
