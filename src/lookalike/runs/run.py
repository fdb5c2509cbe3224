"""The folder of one run: named by a hash, written by one process, finished with result.json.

A run is a pure function of its configuration, the data and the initial weights. The name of the
folder ends in the hash of those, so the same run is never trained twice.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from safetensors.torch import load_file
from torch import Tensor

from lookalike import config as configs
from lookalike import data, models
from lookalike.config import RunConfig, TransformConfig
from lookalike.config.loading import explain, plain_yaml
from lookalike.config.recipes import RUN_MARK
from lookalike.data import ImageSet
from lookalike.data.presets import preset_name
from lookalike.errors import BadInput, LookalikeError
from lookalike.evaluation import EmbeddingsFile
from lookalike.evaluation.class_table import ClassTable
from lookalike.files import (
    atomically,
    damaged,
    file_checksum,
    locked,
    parse_json,
    read_json,
    read_text,
    refuse_links,
    write_json,
)
from lookalike.models.weights import read_tensors
from lookalike.runs.scores import Scores

LATEST = "latest"
"""The name of the link to the run that was trained last."""
LOCK = ".lock"
BUSY_SECONDS = 0.5
"""How long to wait for a process that is about to leave a run."""
CHECKED = ("model.safetensors", "test.safetensors")
"""The files whose checksums are in ``result.json``, where they exist."""
FILES = "files"
"""The key of those checksums."""


def run_name(config: RunConfig, data_fingerprint: str, weights_fingerprint: str) -> str:
    """``<data>-<loss>-<hash of everything that determines the trained model>``."""
    hashed = [config.identity(), data_fingerprint, weights_fingerprint]
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
    names = (name.rpartition(":")[2] for name in (config.data.name, config.loss.name))
    return "-".join([*names, digest[:12]])


class RunIsBusy(LookalikeError):
    """Another process trains the run."""


@dataclass(frozen=True)
class Run:
    """The folder of a run and its files.

    Attributes:
        folder: Where it is.
    """

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The state of an unfinished run."""
        return self.folder / "checkpoints"

    @property
    def last(self) -> Path:
        """The last checkpoint."""
        return self.checkpoints / "last.pt"

    @property
    def start(self) -> Path:
        """The weights before training, until they are tested."""
        return self.checkpoints / "start.pt"

    @property
    def log(self) -> Path:
        """One JSON object per epoch."""
        return self.folder / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """The weights of the selected model."""
        return self.folder / "model.safetensors"

    @property
    def done(self) -> bool:
        """Whether the run has a result; a finished run is never trained again."""
        return (self.folder / "result.json").is_file()

    @property
    def config(self) -> RunConfig:
        """The configuration of the run."""
        path = self.folder / "config.yaml"
        if not path.is_file():
            raise BadInput(f"'{self.folder}' is not the folder of a run: it has no config.yaml")
        values = plain_yaml(path)
        if not values.keys() >= RunConfig.model_fields.keys():  # it was cut
            raise damaged(path)
        return configs.parse(values, str(path))

    @property
    def transform(self) -> str | TransformConfig:
        """The transform for tests; that of a user's own code as the run recorded it, as keys."""
        given = self.config.data.transform
        if ":" not in preset_name(given):
            return given
        return ResultRecord.model_validate(self.result).transform or given

    @contextmanager
    def naming_its_settings(self) -> Iterator[None]:
        """Let an error about the data set or the weights tell where their paths are from."""
        try:
            yield
        except BadInput as error:
            path = self.folder / "config.yaml"
            raise BadInput(f"{error} (a path of '{path}'; after a move, change it there)") from None

    @property
    def result(self) -> dict[str, Any]:
        """Scores, fingerprints and counts of the finished run."""
        if not self.done:
            raise BadInput(
                f"the run in '{self.folder}' is not finished; 'lookalike train "
                f"{self.folder / 'config.yaml'}' resumes it"
            )
        found = self._read("result.json")
        try:
            ResultRecord.model_validate(found)
        except ValidationError as error:
            path = self.folder / "result.json"
            raise LookalikeError(f"'{path}' is damaged: {explain(error, ResultRecord)}") from None
        found.pop(FILES, None)
        return found

    def checked(self, name: str) -> Path:
        """The path of a file of this run, compared with the checksum in its result.

        Args:
            name: One of the run's files.

        Raises:
            LookalikeError: It is not as the run wrote it, or it is gone.
        """
        path = self.folder / name
        checksums = self._read("result.json").get(FILES, {}) if self.done else {}
        if not isinstance(checksums, dict):
            raise damaged(self.folder / "result.json")
        named = checksums.get(name)
        if named is not None:
            try:
                same = file_checksum(path) == named
            except OSError as error:
                raise LookalikeError(f"cannot read '{path}': {error.strerror}") from error
            if not same:
                raise damaged(path)
        return path

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the finished run on the test classes, by metric."""
        return dict(self.result.get("test", {}))

    def _repr_html_(self) -> str:
        if not self.done:
            return f"<p>{escape(self.folder.name)}: not finished</p>"
        cells = [("test", self.scores), ("untrained", self.result.get("untrained", {}))]
        head = "".join(f"<th>{escape(name)}</th>" for name in self.scores)
        lines = [
            f"<tr><td>{state}</td>"
            + "".join(f"<td>{values[name]:.4f}</td>" for name in self.scores if name in values)
            + "</tr>"
            for state, values in cells
            if values
        ]
        caption = f"<caption>{escape(self.folder.name)}</caption>"
        return f"<table>{caption}<tr><th></th>{head}</tr>{''.join(lines)}</table>"

    @property
    def classes(self) -> ClassTable | None:
        """The test scores of each class; None where they were not kept."""
        path = self.folder / "classes.csv"
        if not path.is_file():
            return None
        return ClassTable.from_csv(read_text(path, errors="replace"), str(path))

    def write_classes(self, classes: ClassTable) -> None:
        """Write the test scores of each class; before the result."""
        with atomically(self.folder / "classes.csv") as draft:
            draft.write_text(classes.as_csv(), encoding="utf-8")

    @property
    def seconds(self) -> float:
        """The duration of training, over all its restarts, without the final test."""
        try:
            return float(self._read("timing.json")["training_seconds"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            path = self.folder / "timing.json"
            raise LookalikeError(f"'{path}' is damaged: training_seconds") from error

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine of the run; empty where they were not kept."""
        there = (self.folder / "environment.json").is_file()
        return self._read("environment.json") if there else {}

    def epochs(self) -> list[dict[str, Any]]:
        """The log: one mapping per epoch."""
        if not self.log.is_file():
            return []
        try:
            found = [dict(parse_json(line)) for line in read_text(self.log).splitlines()]
            for entry in found:
                _ = int(entry["epoch"]), [float(v) for k, v in entry.items() if _is_number_key(k)]
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise damaged(self.log) from error
        return found

    def prepare(self, config: RunConfig, record: dict[str, Any]) -> None:
        """Create the folder and write the configuration and the environment.

        Paths are made absolute, so that the run can be resumed from any directory.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomically(self.folder / "config.yaml") as draft:
            values = config.model_dump(mode="json")
            values["runs_dir"] = str(self.folder.parent.resolve())
            if config.data.root is not None:
                values["data"]["root"] = str(config.data.root.expanduser().resolve())
            if Path(config.model.weights).is_file():
                values["model"]["weights"] = str(Path(config.model.weights).resolve())
            text = yaml.safe_dump(values, sort_keys=False)
            draft.write_text(f"{RUN_MARK}\n{text}", encoding="utf-8")
        write_json(self.folder / "environment.json", environment() | record)

    def finish(self, result: dict[str, Any], training_seconds: float) -> None:
        """Write the result, last and atomically, with the checksums of weights and embeddings."""
        seconds = {"training_seconds": round(training_seconds, 2)}
        write_json(self.folder / "timing.json", seconds)
        paths = [self.folder / name for name in CHECKED]
        files = {path.name: file_checksum(path) for path in paths if path.is_file()}
        write_json(self.folder / "result.json", result | {FILES: files})

    def mark_latest(self) -> Path:
        """Let ``latest`` beside this folder lead to it; returns that path.

        Where links are not possible, or something else has that name, nothing changes.
        """
        link = self.folder.parent / LATEST
        draft = link.with_name(f".{LATEST}-{os.getpid()}")
        if link.exists() and not link.is_symlink():
            return self.folder
        try:
            draft.symlink_to(self.folder.name, target_is_directory=True)
            draft.replace(link)
        except OSError:
            draft.unlink(missing_ok=True)
            return self.folder
        return link

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process write; a second one gets an error."""
        with locked(self.folder / LOCK, BUSY_SECONDS) as mine:
            if not mine:
                raise RunIsBusy(f"another process is working on '{self.folder}'")
            refuse_links(self.folder)
            try:
                yield
            finally:
                if os.listdir(self.folder) == [LOCK]:  # refused before anything was written
                    (self.folder / LOCK).unlink()  # those who wait for it notice
                    with suppress(OSError):  # another process, or other runs are there
                        self.folder.rmdir()
                        self.folder.parent.rmdir()

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        value = read_json(path)
        if not isinstance(value, dict):
            raise LookalikeError(f"'{path}' must hold a mapping")
        return value


class ResultRecord(BaseModel):
    """What a ``result.json`` has at least; other keys are kept as they are."""

    model_config = ConfigDict(strict=True)  # as nothing is converted, a text is no number

    data_fingerprint: str = ""
    weights_fingerprint: str = ""
    protocol: str = ""
    steps: int = 0
    epochs: int = 0
    chosen_epoch: int | None = None
    train_classes: int = 0
    train_images: int = 0
    test_classes: int = 0
    test_images: int = 0
    test_chance: float = 0.0
    validation_classes: int = 0
    validation_chance: float = 0.0
    transform: TransformConfig | None = None
    test: Scores = {}
    untrained: Scores = {}
    raw_features: Scores = {}
    validation: Scores = {}

    @model_validator(mode="after")
    def counts_of_test(self) -> Self:
        """Scores come with the numbers of classes and images that they are of."""
        needed = ("data_fingerprint", "test_classes", "test_images", "train_classes")
        missing = [name for name in needed if name not in self.model_fields_set]
        if self.test and missing:
            raise ValueError(f"the scores need {missing[0]}")
        return self


def _is_number_key(name: str) -> bool:
    """Whether the values of a log under this name are numbers for sure."""
    return name in ("loss", "lr", "step") or name.startswith("validation ")


def model_tensors(run: Run) -> dict[str, Tensor]:
    """The weights of the whole selected model of ``run``, by name.

    A run on frozen features stores its head only; the network is that of its configuration.
    """
    wanted, kept = run.config.model, read_tensors(run.checked(run.weights.name))
    if not wanted.frozen:
        return kept
    with run.naming_its_settings():
        fingerprint = models.fingerprint(wanted.network, wanted.weights)
    if fingerprint != run.result.get("weights_fingerprint"):
        raise LookalikeError(
            f"the weights of '{wanted.network}' are not those that '{run.folder}' was trained with"
        )
    size = models.preset_of(run.transform, wanted.network).size
    built = models.build(wanted.network, weights=wanted.weights, dim=0, image_size=size)
    return {f"backbone.{name}": value for name, value in built.backbone.state_dict().items()} | kept


@dataclass(frozen=True)
class TestEmbeddings:
    """The embeddings of a run's test images, with their labels and roles."""

    __test__ = False  # not a test case

    embeddings: Tensor
    indices: NDArray[np.int64]
    images: ImageSet

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each row."""
        return self.images.labels[self.indices]

    @property
    def query(self) -> NDArray[np.bool_] | None:
        """Mask of the queries, where the data set defines them."""
        return None if self.images.query is None else self.images.query[self.indices]

    @property
    def gallery(self) -> NDArray[np.bool_] | None:
        """Mask of the gallery, where the data set defines it."""
        return None if self.images.gallery is None else self.images.gallery[self.indices]

    def arrays(self) -> EmbeddingsFile:
        """Queries and gallery with the names of their classes, for ``evaluation.score``."""
        rows, labels = self.embeddings.numpy(), np.asarray(self.images.class_names)[self.labels]
        query, gallery = self.query, self.gallery
        if query is None or gallery is None:
            return EmbeddingsFile(rows, labels)
        return EmbeddingsFile(rows[query], labels[query], rows[gallery], labels[gallery])

    def query_files(self) -> list[str]:
        """The file of each query."""
        separate = self.query is not None and self.gallery is not None
        asked = self.indices[self.query] if separate else self.indices
        return [self.images.files[index] for index in asked]


def test_embeddings(
    run: Run,
    images: ImageSet | None = None,  # noqa: PT028 - this is not a test
) -> TestEmbeddings:
    """Read the embeddings of the final test of ``run``; the images must not have changed.

    Args:
        run: A finished run.
        images: Its data set, where it is loaded already; it may have been moved since.

    Returns:
        The embeddings with their labels.
    """
    config, result = run.config, run.result
    path = run.checked("test.safetensors")
    if not path.is_file():
        raise BadInput(f"the run in '{run.folder}' was not tested (protocol.test=false)")
    if images is None:
        with run.naming_its_settings():
            images = data.load(config.data.name, config.data.root, config.data.skip_unreadable)
    if images.fingerprint != result["data_fingerprint"]:
        raise LookalikeError(
            f"the images of '{config.data.name}' are not those that '{run.folder}' was tested on"
        )
    try:
        tensors = load_file(str(path))
        rows, indices = tensors["embeddings"], tensors["indices"].numpy()
        whole = (
            rows.dim() == 2
            and indices.shape == (len(rows),)
            and indices.dtype == np.int64
            and (not len(rows) or 0 <= indices.min() <= indices.max() < len(images))
        )
    except Exception as error:  # the reader raises errors of its own
        raise LookalikeError(f"'{path}' is damaged: {str(error)[:200]}") from error
    if not whole:
        raise LookalikeError(f"'{path}' is damaged: its rows are not those of the test images")
    return TestEmbeddings(rows, indices, images)


test_embeddings.__test__ = False  # type: ignore[attr-defined]


def environment() -> dict[str, Any]:
    """What scores may depend on besides the configuration."""
    packages = ["lookalike", "torch", "torchvision", "timm", "lightning-fabric", "numpy"]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "versions": {package: version(package) for package in packages},
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit of the source tree, if it is a git repository."""
    try:
        here = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True, text=True, check=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return here.stdout.strip()
