"""``kill -9`` while pictures are embedded, vectors imported, and an index is changed."""

import time
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from chaos.checks import failure, killed_once, moment
from chaos.commands import fork
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario, Unit
from lookalike.inference.embedder import Embedder
from lookalike.search import Index

CLASSES = 12
EVERY_CLASS = {f"{number:02}" for number in range(CLASSES)}
Rows = NDArray[np.float32]


def to_the_end(arguments: list[str], folder: Path, good: tuple[int, ...] = (0,)) -> Outcome:
    """The same command once more, undisturbed."""
    command = fork(arguments, folder)
    if command.wait() not in good or command.traceback:
        return failure(command, f"exit code {command.poll()} after kills")
    return Outcome()


class EmbedKills(Scenario):
    """Pictures are embedded; the vectors are those of an undisturbed run."""

    name = "kills.embed"
    unit: Unit = "kills"

    def prepare(self, folder: Path) -> None:
        """Embed undisturbed."""
        self.pictures = make_pictures(folder / "pictures", CLASSES, images=12)
        self.model = folder / "model"
        Embedder.from_network("small-cnn", weights="none").save(self.model)
        begun = time.monotonic()
        problem = to_the_end(self.arguments(folder / "vectors"), folder)
        if problem.failed:
            raise RuntimeError(f"the undisturbed run failed: {problem.problems}")
        self.seconds = time.monotonic() - begun
        self.expected = self.content(folder / "vectors")

    def arguments(self, vectors: Path) -> list[str]:
        """Shards of eight pictures."""
        places = [str(self.model), str(self.pictures), "-o", str(vectors)]
        return ["embed", *places, "--per-shard", "8", "--batch", "8", "--device", "cpu"]

    def content(self, vectors: Path) -> tuple[list[str], Rows]:
        """Paths and vectors, in order."""
        index = Index.open(vectors)
        return list(index.paths), np.asarray(index.vectors)

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to six times."""
        arguments, total = self.arguments(folder / "vectors"), Outcome()
        kills = random.randint(2, 6)
        for _ in range(kills):
            delay = moment(random, self.seconds, kills)
            total += killed_once(arguments, folder, random, delay, random.randint(1, 4))
        return total + self.completed(folder / "vectors", folder)

    def completed(self, vectors: Path, folder: Path) -> Outcome:
        """Embed to the end, and compare."""
        problem = to_the_end(self.arguments(vectors), folder)
        if problem.failed:
            return problem
        paths, rows = self.content(vectors)
        if paths != self.expected[0]:
            return Outcome(lost=1, problems=("pictures are missing or there twice",))
        if not np.array_equal(rows, self.expected[1]):
            return Outcome(wrong=1, problems=("other vectors than those of the undisturbed run",))
        return Outcome()


class ImportKills(Scenario):
    """Vectors of one's own are imported; each is in the index once."""

    name = "kills.import"
    unit: Unit = "kills"

    def prepare(self, folder: Path) -> None:
        """Write the vectors, and import them undisturbed."""
        rows = np.random.default_rng(0).normal(size=(60_000, 16))
        self.rows: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        self.file = folder / "mine.npy"
        np.save(self.file, self.rows)
        begun = time.monotonic()
        problem = to_the_end(self.arguments(folder / "mine.index"), folder)
        if problem.failed:
            raise RuntimeError(f"the undisturbed import failed: {problem.problems}")
        self.seconds = time.monotonic() - begun

    def arguments(self, place: Path) -> list[str]:
        """Enough vectors for a fast search."""
        return ["index", "import", str(self.file), "-o", str(place)]

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Kill up to six times."""
        place, total = folder / "mine.index", Outcome()
        kills = random.randint(2, 6)
        for _ in range(kills):
            delay = moment(random, self.seconds, kills)
            number = random.randint(1, 4)
            total += killed_once(self.arguments(place), folder, random, delay, number)
        total += to_the_end(self.arguments(place), folder)
        if total.failed:
            return total
        index = Index.open(place)
        if len(index) != len(self.rows) or len(set(index.paths)) != len(self.rows):
            return total + Outcome(lost=1, problems=("vectors are missing or there twice",))
        sample = random.sample(range(len(self.rows)), 20)
        near = [hits[0].similarity for hits in index.search(self.rows[sample], 1)]
        if min(near) < 0.9999:
            total += Outcome(wrong=1, problems=("a vector does not find itself",))
        return total + to_the_end(["index", "check", str(place)], folder)


class IndexKills(Scenario):
    """Classes of pictures are added to an index and removed from it, and it is compacted."""

    name = "kills.index"
    unit: Unit = "kills"
    weight = 2.0

    def prepare(self, folder: Path) -> None:
        """Embed the pictures, and index those of one class."""
        self.pictures = make_pictures(folder / "pictures", CLASSES)
        model = Embedder.from_network("small-cnn", weights="none")
        model.save(folder / "model")
        self.model = folder / "model"
        paths = sorted(path for path in self.pictures.rglob("*.png"))
        names = [path.relative_to(self.pictures).as_posix() for path in paths]
        self.vectors = dict(zip(names, model.embed(paths), strict=True))
        begun = time.monotonic()
        problem = to_the_end(self.creation(folder / "shop.index"), folder)
        if problem.failed:
            raise RuntimeError(f"the undisturbed index failed: {problem.problems}")
        self.seconds = time.monotonic() - begun

    def creation(self, place: Path) -> list[str]:
        """An index of all pictures."""
        return ["index", str(self.model), str(self.pictures), "-o", str(place)]

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Some changes, each killed up to three times and then completed."""
        place = folder / "shop.index"
        total = to_the_end(self.creation(place), folder)
        there = set(EVERY_CLASS)
        for _ in range(random.randint(3, 8)):
            change = ["index", "compact", str(place)]
            good: tuple[int, ...] = (0,)
            label = f"{random.randrange(CLASSES):02}"
            draw = random.random()
            if draw < 0.4:
                change = ["index", "add", str(place), str(self.pictures / label)]
                there |= {label}
            elif draw < 0.8 and len(there) > 1 and label in there:
                change = ["index", "remove", str(place), "--label", label]
                good = (0, 2)  # 2: the killed command had removed it
                there -= {label}
            for _ in range(random.randint(1, 3)):
                delay = moment(random, self.seconds, kills=4)  # a change is less than the creation
                number = random.randint(1, 4)
                total += killed_once(change, folder, random, delay, number, codes=good)
            total += to_the_end(change, folder, good)
        if total.failed:
            return total
        return (
            total + self.compare(place, there) + to_the_end(["index", "check", str(place)], folder)
        )

    def compare(self, place: Path, there: set[str]) -> Outcome:
        """Whether the index has each picture of these classes once, with its vector."""
        index = Index.open(place)
        expected = sorted(name for name in self.vectors if name.partition("/")[0] in there)
        if sorted(index.paths) != expected:
            return Outcome(lost=1, problems=("pictures are missing or there twice",))
        found = zip(index.paths, index.vectors, strict=True)
        if not all(np.allclose(row, self.vectors[path], atol=1e-5) for path, row in found):
            return Outcome(wrong=1, problems=("a picture has another vector",))
        return Outcome()


SCENARIOS: tuple[Scenario, ...] = (EmbedKills(), ImportKills(), IndexKills())
