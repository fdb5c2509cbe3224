"""The works that are disturbed: what the product does, and what must come of it in the end."""

import dataclasses
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from lookalike import models
from lookalike.inference.embedder import Embedder
from lookalike.search import Index
from lookalike.study.table import DATABASE, load_results
from tests.chaos.commands import Command, failure, send, start
from tests.chaos.files import files_in
from tests.chaos.outcome import Outcome, Unavailable

__all__ = ["VARIANTS", "Step", "Study", "Training", "Work", "make_pictures", "works"]

STARTS = 6
"""Of a command until it must have ended well."""
PAGE_BYTES = 4096


class Step(NamedTuple):
    """One command of a work, and the exit codes that are right for it, also when it is repeated."""

    arguments: list[str]
    codes: tuple[int, ...] = (0,)


class Work(ABC):
    """Commands that come to the same outcome, however often they were disturbed and repeated.

    Attributes:
        name: The last part of its scenarios' names.
        after_loss: Exit codes of a command that has lost a process that it started.
    """

    name: str
    after_loss: tuple[int, ...] = (0,)

    @abstractmethod
    def make(self, folder: Path) -> None:
        """What the commands start from."""

    @abstractmethod
    def steps(self, place: Path, random: Random) -> list[Step]:
        """The commands, which write below ``place`` only."""

    @abstractmethod
    def outcome(self, place: Path) -> Any:
        """What must be the same in the end."""

    def pieces(self, place: Path) -> list[str]:
        """The names of what must be there once, in order: tasks of a study, pictures."""
        return []

    def progress(self, place: Path) -> bool:
        """Whether something is done already that a kill must not lose."""
        return bool(files_in(place, "cache")) if place.exists() else False

    def victims(self, command: Command, random: Random) -> list[Callable[[], bool]]:
        """What a kill may meet: the command itself (first), or a process that it has started."""
        found = [command.kill_now]
        if children := command.children():
            found.append(lambda: killed(random.choice(children)))
        return found

    def close(self) -> None:  # noqa: B027 - not every work needs one
        """End what ``make`` has started."""

    def prepare(self, folder: Path) -> None:
        """Do the work undisturbed, and measure what it takes."""
        self.make(folder)
        self.whole, begun = folder / "whole", time.monotonic()
        steps = self.steps(self.whole, Random(0))
        for step in steps:
            if (command := self.start(step, self.whole, folder)).end() != 0:
                raise RuntimeError(f"the undisturbed '{command}' failed: {command.stderr}")
        self.seconds = (time.monotonic() - begun) / len(steps)
        self.expected = self.outcome(self.whole), self.pieces(self.whole)
        self.sizes = [path.stat().st_size for path in files_in(self.whole)]
        self.space = sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in self.sizes)
        if not self.expected[0]:
            raise RuntimeError("the undisturbed work has come to nothing")

    def variables(self, place: Path) -> dict[str, str]:
        """Of every command."""
        return {"LOOKALIKE_CACHE": str(place / "cache")}

    def start(
        self,
        step: Step,
        place: Path,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        **how: Any,
    ) -> Command:
        """Start one command."""
        place.mkdir(parents=True, exist_ok=True)
        given = self.variables(place) | dict(variables or {})
        return start(step.arguments, folder, given, **how)

    def finish(
        self, step: Step, place: Path, folder: Path, running: Command | None = None, **how: Any
    ) -> Outcome:
        """Let a command end, or start it again, until it has ended well."""
        total = Outcome()
        for _ in range(STARTS):
            command = running or self.start(step, place, folder, **how)
            running = None
            if command.end() in step.codes and not command.traceback:
                return total
            total += failure(command, f"exit code {command.poll()} when it was undisturbed")
        return total

    def compare(self, place: Path) -> Outcome:
        """Whether the work has come to what it comes to undisturbed."""
        if self.pieces(place) != self.expected[1]:
            lost = set(self.pieces(place)) ^ set(self.expected[1])
            return Outcome(lost=1, problems=(f"missing or there twice: {sorted(lost)[:5]}",))
        found = self.outcome(place)
        if found != self.expected[0]:
            told = f"{found} instead of {self.expected[0]}"
            return Outcome(wrong=1, problems=(f"another outcome: {told[:2000]}",))
        return Outcome()


def killed(process: int) -> bool:
    """Kill a process; whether it was there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def make_pictures(folder: Path, classes: int = 12, images: int = 6, size: int = 24) -> Path:
    """Write pictures, always the same: a few classes, each of its own colour under noise."""
    random = np.random.default_rng(0)
    for number in range(classes):
        colour = random.integers(60, 196, 3)
        (folder / f"{number:02}").mkdir(parents=True)
        for image in range(images):
            pixels = np.clip(colour + random.normal(0, 60, (size, size, 3)), 0, 255)
            path = folder / f"{number:02}" / f"{image}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


TINY = (
    *("loss.name=proxy-anchor", "model.network=small-cnn", "model.weights=none", "model.dim=8"),
    *("data.name=folder", "data.transform=none", "sampler.batch_size=8", "sampler.per_class=2"),
    *("optim.schedule=cosine", "train.batches_per_epoch=15", "train.epochs=2"),
    *("train.checkpoint_seconds=0.05", "train.device=cpu", "protocol.metrics=[recall@1,map@r]"),
)
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "frozen": ("model.frozen=true", "model.frozen_views=2"),
    "memory": ("memory.size=64", "memory.start=3", "loss.name=contrastive"),
    "mixing": ("mix.where=embed", "loss.name=multi-similarity"),
    "store-sampler": ("sampler.name=d2",),
    "ema": ("train.ema=0.9",),
    "grad-cache": ("train.accumulate=2", "model.freeze_bn_statistics=true"),
    "jpeg-store": ("data.store=jpeg",),
    "mixed-precision": ("train.precision=bf16-mixed",),
    "two-processes": ("train.devices=2",),
    "large-raw-store": ("data.store=raw", "train.epochs=0"),
    "large-jpeg-store": ("data.store=jpeg", "train.epochs=0"),
}
"""What is set besides; those of large stores do little but build them."""


class Training(Work):
    """A training of seconds, in a variant that keeps a state of its own: the same to the bit."""

    def __init__(self, variant: str) -> None:
        self.name = f"training.{variant}"
        self.variant = variant
        if variant == "two-processes":
            self.after_loss = (0, 1)

    def make(self, folder: Path) -> None:
        """Pictures, and weights for frozen features, which need trained ones."""
        images = 60 if self.variant.startswith("large") else 6
        self.pictures = make_pictures(folder / "pictures", images=images)
        self.weights = folder / "weights.safetensors"
        torch.manual_seed(0)
        built = models.build("small-cnn", weights="none", dim=0, image_size=24)
        state = built.backbone.state_dict()
        tensors = {name.removeprefix("network."): value for name, value in state.items()}
        save_file(tensors, self.weights)

    def steps(self, place: Path, random: Random) -> list[Step]:
        """One training."""
        given = dict(text.split("=", 1) for text in (*TINY, *VARIANTS[self.variant]))
        if self.variant == "frozen":
            given["model.weights"] = str(self.weights)
        given |= {"data.root": str(self.pictures), "runs_dir": str(place / "runs")}
        return [Step(["train", *(f"{key}={value}" for key, value in given.items())])]

    def outcome(self, place: Path) -> Any:
        """Scores, log, weights and embeddings of the only run; None if it has no scores."""
        found = [p for p in (place / "runs").glob("*/result.json") if not p.parent.is_symlink()]
        if len(found) != 1:
            return None
        result = json.loads(found[0].read_text())
        names = ("metrics.jsonl", "model.safetensors", "test.safetensors")
        files = [
            hashlib.sha256((found[0].parent / name).read_bytes()).hexdigest() for name in names
        ]
        return (json.dumps(result, sort_keys=True), files) if result.get("test") else None

    def progress(self, place: Path) -> bool:
        """A checkpoint."""
        return any((place / "runs").glob("*/checkpoints/last.pt"))


class Study(Work):
    """A study of seconds, by a driver with workers of its own."""

    name = "study"
    methods, trials, folds = ("triplet", "proxy-anchor"), 3, 2
    options: tuple[str, ...] = ("--workers", "2")

    def make(self, folder: Path) -> None:
        """Pictures."""
        self.pictures = make_pictures(folder / "pictures")

    def steps(self, place: Path, random: Random) -> list[Step]:
        """The study's file is written, and its command."""
        path = place / "small.yaml"
        results = str(place / "results")
        found = [Step(["study", "run", str(path), "--results", results, *self.options])]
        if path.exists():
            return found
        place.mkdir(parents=True, exist_ok=True)
        values = {
            "name": "small",
            "data": {"name": "folder", "root": str(self.pictures), "transform": "none"},
            "base": {
                "runs_dir": str(place / "runs"),
                "model": {"network": "small-cnn", "weights": "none", "dim": 8},
                "sampler": {"name": "spc", "batch_size": 6, "per_class": 2},
                "train": {"epochs": 2, "batches_per_epoch": 5, "device": "cpu"},
            },
            "methods": list(self.methods),
            "protocol": {"folds": self.folds, "metrics": ["recall@1", "map@r"]},
            "tuner": {"trials": self.trials},
            "repeats": 1,
        }
        path.write_text(yaml.safe_dump(values))
        return found

    def outcome(self, place: Path) -> Any:
        """Everything that the study found, but how long it took."""
        return findings(place / "results")

    def pieces(self, place: Path) -> list[str]:
        """Its tasks."""
        return task_keys(place / "results")

    def progress(self, place: Path) -> bool:
        """A task is recorded."""
        return bool(task_keys(place / "results"))


class RayStudy(Study):
    """The same on a Ray cluster of two nodes, of which one may be lost."""

    name = "ray-study"
    cluster: subprocess.Popen[str] | None = None

    def make(self, folder: Path) -> None:
        """Pictures, and the cluster."""
        if find_spec("ray") is None:
            raise Unavailable("ray is not installed")
        super().make(folder)
        root = Path(__file__).resolve().parents[2]
        self.cluster = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.ray_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=root,
            start_new_session=True,
        )
        self.options = ("--executor", "ray", "--address", self._answer("address "))

    def start(self, *given: Any, **how: Any) -> Command:
        """A new program: Ray does not survive a fork."""
        return super().start(*given, **how | {"fresh": True})

    def victims(self, command: Command, random: Random) -> list[Callable[[], bool]]:
        """The driver, a worker, a node."""
        return [command.kill_now, lambda: self._kill_worker(random), self._replace_node]

    def close(self) -> None:
        """Stop the cluster."""
        if self.cluster is not None:
            processes = psutil.Process(self.cluster.pid).children(recursive=True)
            with suppress(subprocess.TimeoutExpired):
                self.cluster.communicate(timeout=60)
                return
            self.cluster.kill()
            send(processes, signal.SIGKILL)

    def _answer(self, beginning: str) -> str:
        """The rest of the next line of the cluster that begins so."""
        assert self.cluster is not None
        assert self.cluster.stdout is not None
        for line in self.cluster.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        raise RuntimeError("the Ray cluster has ended")

    def _replace_node(self) -> bool:
        assert self.cluster is not None
        assert self.cluster.stdin is not None
        self.cluster.stdin.write("node\n")
        self.cluster.stdin.flush()
        self._answer("node")
        return True

    def _kill_worker(self, random: Random) -> bool:
        assert self.cluster is not None
        found = []
        for process in psutil.Process(self.cluster.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "ray::" in " ".join(process.cmdline()):
                    found.append(process.pid)
        return bool(found) and killed(random.choice(found))


def findings(results: Path) -> list[dict[str, Any]]:
    """Everything that a study found, but how long it took."""

    def bare(row: Any) -> dict[str, Any]:
        values: dict[str, Any] = dataclasses.asdict(row)
        values.pop("seconds", None)
        for part in (*values.get("trials", ()), *values.get("repeats", ())):
            del part["seconds"]
        return values

    found = load_results(results)
    return [bare(row) for row in (*found.rows, *found.baselines)]


def task_keys(results: Path) -> list[str]:
    """The finished tasks of a study, in order, and the errors of those that failed."""
    address = f"file:{(results / DATABASE).resolve()}?mode=ro"
    found = "SELECT row, trial, fold, repeat, json_extract(facts, '$.error') FROM tasks"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as connection:
        return sorted(str(task) for task in connection.execute(found))
    return []


class Embedding(Work):
    """Pictures become vectors, in shards of eight."""

    name = "embed"

    def make(self, folder: Path) -> None:
        """Pictures and a model."""
        self.pictures = make_pictures(folder / "pictures", images=12)
        self.model = folder / "model"
        Embedder.from_network("small-cnn", weights="none").save(self.model)

    def steps(self, place: Path, random: Random) -> list[Step]:
        """One command."""
        places = [str(self.model), str(self.pictures), "-o", str(place / "vectors")]
        return [Step(["embed", *places, "--per-shard", "8", "--batch", "8", "--device", "cpu"])]

    def outcome(self, place: Path) -> Any:
        """The vectors."""
        return np.asarray(Index.open(place / "vectors").vectors).tolist()

    def pieces(self, place: Path) -> list[str]:
        """The paths of the pictures."""
        return list(Index.open(place / "vectors").paths)


class Import(Work):
    """Vectors of one's own, enough for a fast search, become an index."""

    name = "import"

    def make(self, folder: Path) -> None:
        """The vectors."""
        rows = np.random.default_rng(0).normal(size=(60_000, 16)).astype(np.float32)
        self.rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.file = folder / "mine.npy"
        np.save(self.file, self.rows)

    def steps(self, place: Path, random: Random) -> list[Step]:
        """The import, and a check of every checksum."""
        index = str(place / "mine.index")
        return [
            Step(["index", "import", str(self.file), "-o", index]),
            Step(["index", "check", index]),
        ]

    def outcome(self, place: Path) -> Any:
        """Whether vectors find themselves."""
        hits = Index.open(place / "mine.index").search(self.rows[::3000], 1)
        return min(found[0].similarity for found in hits) > 0.9999

    def pieces(self, place: Path) -> list[str]:
        """The names of the vectors."""
        return sorted(Index.open(place / "mine.index").paths)


class IndexChanges(Work):
    """Classes of pictures are removed from an index and added again, and it is compacted."""

    name = "index"

    def make(self, folder: Path) -> None:
        """Pictures and a model."""
        self.pictures = make_pictures(folder / "pictures")
        self.model = folder / "model"
        Embedder.from_network("small-cnn", weights="none").save(self.model)

    def steps(self, place: Path, random: Random) -> list[Step]:
        """An index of all pictures, some changes, and all pictures in the end."""
        index, photos = str(place / "shop.index"), str(self.pictures)
        first = ["index", "add", index, photos]
        if not (place / "shop.index" / "index.json").exists():
            first = ["index", str(self.model), photos, "-o", index]
        found = [Step(first, (0, 2))]  # 2: a command that was killed had begun the index
        for label in random.sample(range(12), random.randint(1, 3)):
            # 2: a command that was killed had removed it
            found.append(Step(["index", "remove", index, "--label", f"{label:02}"], (0, 2)))
            if random.random() < 0.5:
                found.append(Step(["index", "compact", index]))
        again = [["index", "add", index, photos], ["index", "compact", index]]
        return [*found, *map(Step, again), Step(["index", "check", index])]

    def outcome(self, place: Path) -> Any:
        """The vector of each picture, rounded: another batch adds in another order."""
        index = Index.open(place / "shop.index")
        found = zip(index.paths, np.asarray(index.vectors), strict=True)
        return {path: np.round(row.astype(float), 3).tolist() for path, row in sorted(found)}

    def pieces(self, place: Path) -> list[str]:
        """The paths of the pictures."""
        return sorted(Index.open(place / "shop.index").paths)


def works() -> dict[str, Callable[[], Work]]:
    """What makes each work, by its name."""
    makers: dict[str, Callable[[], Work]] = {
        f"training.{variant}": lambda variant=variant: Training(variant) for variant in VARIANTS
    }
    for kind in (Study, RayStudy, Embedding, Import, IndexChanges):
        makers[kind.name] = kind
    return makers
