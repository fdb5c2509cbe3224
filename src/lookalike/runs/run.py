"""The folder of one run: named by its content, written by one process, done when result.json is.

A run is a pure function of its configuration, the data and the starting weights; the folder's name
ends in the hash of those, so the same question is never answered twice.
"""

import fcntl
import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from lookalike.config import RunConfig
from lookalike.config import load as load_config
from lookalike.errors import BadInput, LookalikeError
from lookalike.files import atomically, write_json

__all__ = ["Run", "run_name"]


def run_name(config: RunConfig, data_fingerprint: str, weights_fingerprint: str) -> str:
    """``<data>-<loss>-<hash of everything that decides the outcome>``."""
    deciding = [config.identity(), data_fingerprint, weights_fingerprint]
    digest = hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
    loss = config.loss.name.rpartition(":")[2]
    return f"{config.data.name}-{loss}-{digest[:12]}"


@dataclass(frozen=True)
class Run:
    """A run's folder and what stands in it."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Where an unfinished run keeps its state."""
        return self.folder / "checkpoints"

    @property
    def log(self) -> Path:
        """One JSON object an epoch."""
        return self.folder / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """The chosen model."""
        return self.folder / "model.safetensors"

    @property
    def done(self) -> bool:
        """Whether the run has a result; it is then never trained again."""
        return (self.folder / "result.json").is_file()

    @property
    def config(self) -> RunConfig:
        """The configuration that the run was started with."""
        path = self.folder / "config.yaml"
        if not path.is_file():
            raise BadInput(f"'{self.folder}' is not the folder of a run: it has no config.yaml")
        return load_config(path)

    @property
    def result(self) -> dict[str, Any]:
        """What came out."""
        if not self.done:
            raise BadInput(
                f"the run in '{self.folder}' is not finished; 'lookalike train "
                f"{self.folder / 'config.yaml'}' goes on with it"
            )
        return self._read("result.json")

    @property
    def seconds(self) -> float:
        """How long training took, over all its restarts, without the final test."""
        return float(self._read("timing.json")["training_seconds"])

    def epochs(self) -> list[dict[str, Any]]:
        """The log: one mapping an epoch."""
        if not self.log.is_file():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def prepare(self, config: RunConfig, record: dict[str, Any]) -> None:
        """Make the folder and write down what is about to happen, and where.

        Paths are written out whole, so that the run can be gone on with from anywhere.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomically(self.folder / "config.yaml") as draft:
            values = config.model_dump(mode="json")
            values["runs_dir"] = str(self.folder.parent.resolve())
            if config.data.root is not None:
                values["data"]["root"] = str(config.data.root.expanduser().resolve())
            if Path(config.model.weights).is_file():
                values["model"]["weights"] = str(Path(config.model.weights).resolve())
            draft.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        write_json(self.folder / "environment.json", environment() | record)

    def finish(self, result: dict[str, Any], training_seconds: float) -> None:
        """Write the result, last and whole."""
        write_json(self.folder / "timing.json", {"training_seconds": round(training_seconds, 2)})
        write_json(self.folder / "result.json", result)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process write; a second one is told so."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ".lock"
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LookalikeError(f"another process is working on '{self.folder}'") from None
            try:
                yield
            finally:
                if list(self.folder.iterdir()) == [path]:  # refused before anything was written
                    path.unlink()
                    self.folder.rmdir()
                    with suppress(OSError):  # other runs are there
                        self.folder.parent.rmdir()

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LookalikeError(f"cannot read '{path}': {error}") from error
        if not isinstance(value, dict):
            raise LookalikeError(f"'{path}' does not hold what a run writes there")
        return value


def environment() -> dict[str, Any]:
    """What the numbers may depend on besides the configuration."""
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
    """The commit of the source tree that runs, where it is one."""
    try:
        here = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True, text=True, check=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return here.stdout.strip()
