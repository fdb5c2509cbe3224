"""Many damaged files a second, read by the functions that the commands read them with."""

import hashlib
import shutil
import signal
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from chaos.commands import fork
from chaos.damage import KINDS, PLAIN_FILES, damage, files_in, names_of
from chaos.faults import FAULT
from chaos.pictures import make_pictures
from chaos.scenario import Outcome, Scenario
from chaos.study import findings, study_command, write_study
from chaos.training import settings
from lookalike import data
from lookalike.errors import LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.inference.job import Options
from lookalike.inference.source import open_source
from lookalike.runs.run import Run, model_tensors, test_embeddings
from lookalike.search import Index
from lookalike.search.ingest import embed_into
from lookalike.search.vector_files import open_vectors
from lookalike.study.table import class_scores, load_results
from lookalike.training import checkpoint

DAMAGES = 40
"""In one attempt."""
Reader = Callable[[Path, Path], Any]


class DamagedFiles(Scenario):
    """Copies of a folder, each with one damaged file, and what a reader says of them."""

    weight = 0.5

    def __init__(
        self, name: str, make: Callable[[Path], Path], read: Reader, kinds: Sequence[str] = KINDS
    ) -> None:
        self.name = f"disks.readers.{name}"
        self.make = make
        self.read = read
        self.kinds = kinds

    def prepare(self, folder: Path) -> None:
        """Make the folder, and read it undamaged."""
        self.home = folder
        self.whole = self.make(folder)
        self.expected = plain(self.read(self.whole, folder))

    def attempt(self, random: Random, folder: Path) -> Outcome:
        """Damage and read, many times."""
        total = Outcome()
        for number in range(DAMAGES):
            place = folder / str(number) / self.whole.name
            shutil.copytree(self.whole, place, symlinks=True)
            path = random.choice(files_in(place, "tensorboard", "config.yaml", *PLAIN_FILES))
            total += Outcome(1) + self.judged(place, path, damage(random, path, self.kinds))
            shutil.rmtree(place.parent)
        return total

    def judged(self, place: Path, path: Path, done: str) -> Outcome:
        """Read a damaged folder: the same values, or a sentence that names the file."""
        try:
            found = plain(self.read(place, self.home))
        except LookalikeError as error:
            if any(name in str(error) for name in names_of(path)):
                return Outcome()
            return Outcome(wrong=1, problems=(f"{done}: not named in '{error}'",))
        except Exception:
            return Outcome(tracebacks=1, problems=(f"{done}: {traceback.format_exc()}",))
        if found != self.expected:
            return Outcome(wrong=1, problems=(f"{done}: other values",))
        return Outcome()


def plain(value: Any) -> str:
    """A text that differs where the values do."""
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, torch.Tensor):
            part = part.detach().cpu().contiguous().numpy()
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}".encode() + part.tobytes())
        elif isinstance(part, dict):
            for key in sorted(part, key=str):
                digest.update(str(key).encode())
                add(part[key])
        elif isinstance(part, list | tuple):
            digest.update(str(len(part)).encode())
            for one in part:
                add(one)
        else:
            digest.update(repr(part).encode())

    add(value)
    return digest.hexdigest()


def trained(folder: Path, *fault: str) -> Path:
    """The folder of a run; with a fault, of one that was killed."""
    pictures = make_pictures(folder / "pictures")
    variables = {"LOOKALIKE_CACHE": str(folder / "cache")}
    if fault:
        variables[FAULT] = fault[0]
    command = fork(settings("ema", pictures, folder / "runs"), folder, variables)
    if command.wait() != (-signal.SIGKILL if fault else 0):
        raise RuntimeError(f"exit code {command.poll()}: {command.errors}")
    (found,) = (path for path in (folder / "runs").iterdir() if not path.is_symlink())
    return found


def interrupted(folder: Path) -> Path:
    """The checkpoints of a run that was killed."""
    place = trained(folder, "rename:12:kill") / "checkpoints"
    if not (place / "last.pt").is_file():
        raise RuntimeError("the killed run has no checkpoint")
    return place


def read_run(folder: Path, _: Path) -> Sequence[Any]:
    """Everything that a finished run says."""
    run = Run(folder)
    config = run.config.model_dump(mode="json")
    del config["runs_dir"], config["data"]["root"]  # others tell only where things are
    classes = run.classes
    return [
        config, run.result, run.seconds, run.epochs(), model_tensors(run),
        test_embeddings(run).embeddings, None if classes is None else classes.as_csv(),
    ]  # fmt: skip


def read_checkpoint(folder: Path, _: Path) -> Sequence[Any]:
    """What an interrupted run is continued from."""
    return [checkpoint.read(folder / name) for name in ("last.pt", "start.pt")]


def stored(kind: Any) -> Callable[[Path], Path]:
    """Makes a cache folder with one kind of image store."""

    def make(folder: Path) -> Path:
        images = data.load("folder", make_pictures(folder / "pictures", images=30))
        data.open_store(images, None, folder / "cache", kind=kind)
        return folder / "cache"

    return make


def reader_of(kind: Any) -> Reader:
    """Reads all images of a store."""

    def read(folder: Path, home: Path) -> Sequence[Any]:
        images = data.load("folder", home / "pictures")
        store = data.open_store(images, None, folder, kind=kind)
        return store.read_batch(range(len(store)))

    return read


def studied(folder: Path) -> Path:
    """The folder of a finished study."""
    study = write_study(folder, make_pictures(folder / "pictures"))
    cache = {"LOOKALIKE_CACHE": str(folder / "cache")}
    command = fork(study_command(study, folder / "study", "--workers", "1"), folder, cache)
    if command.wait() != 0:
        raise RuntimeError(command.errors)
    return folder / "study"


def read_study(folder: Path, _: Path) -> Sequence[Any]:
    """Everything that a study found."""
    found = load_results(folder)
    classes = [class_scores(folder, row).separate for row in found.rows]
    return [findings(folder), [table.as_csv() for one in classes for table in one.values()]]


def embedded(folder: Path) -> Path:
    """A folder of vectors as ``lookalike embed`` writes it."""
    source = open_source(make_pictures(folder / "pictures"))
    model = Embedder.from_network("small-cnn", weights="none")
    index = Index.create(folder / "vectors", model)
    embed_into(index, source, Options(device="cpu", per_shard=30))
    return folder / "vectors"


def read_vectors(folder: Path, _: Path) -> Sequence[Any]:
    """What ``lookalike index import`` takes from it."""
    found = open_vectors(folder)
    model = found.embedder
    parts = [[vectors, list(map(vars, records))] for vectors, records in found.blocks(1000)]
    return [found.roots, found.dim, model and model.fingerprint, parts]


def indexed(folder: Path) -> Path:
    """The folder of an index from which a picture was removed."""
    model = Embedder.from_network("small-cnn", weights="none")
    index = Index.create(folder / "shop.index", model, make_pictures(folder / "pictures"))
    index.remove([3])
    return folder / "shop.index"


def read_index(folder: Path, _: Path) -> Sequence[Any]:
    """Everything that an index has."""
    index = Index.open(folder)
    hits = index.search(index.vectors[:5], 5)
    files = [index.file_of(id) for id in index.ids.tolist()]
    return [index.ids, index.vectors, list(index.labels), files, index.embedder.fingerprint, hits]


SCENARIOS: tuple[Scenario, ...] = (
    DamagedFiles("run", trained, read_run),
    # without its checkpoint a run starts again
    DamagedFiles("checkpoint", interrupted, read_checkpoint, ("cut", "flip", "flip")),
    DamagedFiles("raw-store", stored("raw"), reader_of("raw")),
    DamagedFiles("jpeg-store", stored("jpeg"), reader_of("jpeg")),
    # a number in study.db may become another one
    DamagedFiles("study", studied, read_study, ("cut",)),
    DamagedFiles("vectors", embedded, read_vectors),
    DamagedFiles("index", indexed, read_index),
)
