"""Any byte of any of our files is another: what reads the file names it, or says the same."""

import hashlib
import shutil
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from lookalike import data
from lookalike.errors import LookalikeError
from lookalike.inference.embedder import Embedder
from lookalike.runs.run import Run, model_tensors, test_embeddings
from lookalike.search import Index
from lookalike.training import checkpoint
from tests.chaos.commands import start
from tests.chaos.files import KINDS, PLAIN_FILES, damage, files_in, names_of
from tests.chaos.outcome import Outcome, Scenario
from tests.chaos.works import Study, Training, findings, make_pictures

__all__ = ["readers"]

DAMAGES = 40
"""In one attempt."""


class DamagedFiles(Scenario):
    """Copies of a folder, each with one damaged file, and what a reader says of them.

    Args:
        name: What the folder is.
        make: Makes the folder in another one.
        read: What the folder says, given the folder and the other one.
        kinds: What may happen to a file.
    """

    weight = 0.5

    def __init__(
        self,
        name: str,
        make: Callable[[Path], Path],
        read: Callable[[Path, Path], Iterable[Any]],
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self.name = f"readers.{name}"
        self.make, self.read, self.kinds = make, read, kinds
        self.quick = name == "index"

    def prepare(self, folder: Path) -> None:
        """Make the folder, and read it undamaged."""
        self.home = folder
        self.whole = self.make(folder)
        self.expected = digest(self.read(self.whole, folder))

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
            found = digest(self.read(place, self.home))
        except LookalikeError as error:
            if any(name in str(error) for name in names_of(path)):
                return Outcome()
            return Outcome(wrong=1, problems=(f"{done}: not named in '{error}'",))
        except Exception:
            return Outcome(tracebacks=1, problems=(f"{done}: {traceback.format_exc()}",))
        if found != self.expected:
            return Outcome(wrong=1, problems=(f"{done}: other values",))
        return Outcome()


def digest(values: Iterable[Any]) -> str:
    """A text that differs where the values do, arrays by every byte."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous().numpy()
        if isinstance(value, np.ndarray):
            found.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
        elif isinstance(value, dict):
            pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
            found.update(digest(part for pair in pairs for part in pair).encode())
        elif isinstance(value, list | tuple):
            found.update(f"{len(value)} {digest(value)}".encode())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()


def trained(folder: Path, fault: str = "") -> Path:
    """The folder of a run; with a fault, of one that was killed."""
    work = Training("ema")
    work.make(folder)
    (step,) = work.steps(folder, Random(0))
    command = start(step.arguments, folder, work.variables(folder), fault=fault)
    if command.end() != (-9 if fault else 0):
        raise RuntimeError(f"exit code {command.poll()}: {command.stderr}")
    (found,) = (path for path in (folder / "runs").iterdir() if not path.is_symlink())
    return found


def read_run(folder: Path, _: Path) -> Iterable[Any]:
    """Everything that a finished run says."""
    run = Run(folder)
    config = run.config.model_dump(mode="json")
    del config["runs_dir"], config["data"]["root"]  # others tell only where things are
    yield from (config, run.result, run.seconds, run.epochs(), model_tensors(run))
    yield test_embeddings(run).embeddings
    yield None if run.classes is None else run.classes.as_csv()


def interrupted(folder: Path) -> Path:
    """The checkpoints of a run that was killed."""
    place = trained(folder, "rename:12:kill") / "checkpoints"
    if not (place / "last.pt").is_file():
        raise RuntimeError("the killed run has no checkpoint")
    return place


def read_checkpoint(folder: Path, _: Path) -> Iterable[Any]:
    """What an interrupted run is resumed from."""
    for name in ("last.pt", "start.pt"):
        yield checkpoint.read(folder / name)


def stored(kind: Any, folder: Path) -> Path:
    """A cache folder with one kind of image store."""
    images = data.load("folder", make_pictures(folder / "pictures", images=30))
    data.open_store(images, None, folder / "cache", kind=kind)
    return folder / "cache"


def read_store(kind: Any, folder: Path, home: Path) -> Iterable[Any]:
    """All images of a store."""
    store = data.open_store(data.load("folder", home / "pictures"), None, folder, kind=kind)
    yield store.read_batch(range(len(store)))


def studied(folder: Path) -> Path:
    """The folder of a finished study."""
    work = Study()
    work.prepare(folder)
    return work.whole / "results"


def read_study(folder: Path, _: Path) -> Iterable[Any]:
    """Everything that a study found."""
    yield findings(folder)


def indexed(folder: Path) -> Path:
    """The folder of an index from which a picture was removed."""
    model = Embedder.from_network("small-cnn", weights="none")
    index = Index.create(folder / "shop.index", model, make_pictures(folder / "pictures"))
    index.remove([3])
    return folder / "shop.index"


def read_index(folder: Path, _: Path) -> Iterable[Any]:
    """Everything that an index has."""
    index = Index.open(folder)
    yield from (index.ids, index.vectors, list(index.labels), index.embedder.fingerprint)
    yield [str(index.file_of(id)) for id in index.ids.tolist()]
    yield index.search(index.vectors[:5], 5)


def readers() -> list[Scenario]:
    """A scenario for each kind of file."""
    changed = ("cut", "flip", "flip")  # what is not there is begun again
    return [
        DamagedFiles("run", trained, read_run),
        DamagedFiles("checkpoint", interrupted, read_checkpoint, changed),
        DamagedFiles("raw-store", partial(stored, "raw"), partial(read_store, "raw")),
        DamagedFiles("jpeg-store", partial(stored, "jpeg"), partial(read_store, "jpeg")),
        DamagedFiles("study", studied, read_study, ("cut",)),
        DamagedFiles("index", indexed, read_index),
    ]
