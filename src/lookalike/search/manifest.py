"""The file that says which state of an index counts, and who may write the next one."""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import write_json
from lookalike.search.approximate import Approximation
from lookalike.search.generation import flush

__all__ = [
    "FAST",
    "Manifest",
    "damaged",
    "locked",
    "only_remains",
    "read_manifest",
    "remove_unused",
    "write_manifest",
]

FORMAT = "lookalike-index"
VERSION = 1
PREFIX = "state-"
FAST = "fast-"


class Manifest(BaseModel):
    """What ``index.json`` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    model: str
    dim: int
    state: int = 0
    count: int = 0
    next_id: int = 0
    roots: tuple[str, ...] = ()
    sizes: dict[str, int] = {}
    fast: Approximation | None = None

    @property
    def folder(self) -> str:
        """The folder of the state."""
        return f"{PREFIX}{self.state:06d}"


def read_manifest(folder: Path) -> Manifest:
    """What ``index.json`` says; what is not an index, or of another version, is refused."""
    try:
        values = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(
            (
                f"'{folder}' is not an index: it has no index.json"
                if folder.exists()
                else f"there is no index '{folder}'"
            )
            + "; 'lookalike index RUN photos/ -o shop.index' makes one"
        ) from error
    except ValueError as error:
        raise damaged(folder, "index.json is not JSON") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise BadInput(f"'{folder}' is not an index of lookalike")
    if values.get("version") != VERSION:
        raise BadInput(
            f"the index '{folder}' has version {values.get('version')}, and this lookalike reads "
            f"version {VERSION}; make it again"
        )
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        raise damaged(folder, "index.json") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a state count, in one step."""
    write_json(folder / "index.json", manifest.model_dump(mode="json"))
    flush(folder)


def damaged(folder: Path, what: str) -> BadInput:
    """The sentence for an index that cannot be trusted."""
    return BadInput(f"the index '{folder}' is damaged: {what}; make it again")


def remove_unused(folder: Path, manifest: Manifest | None) -> None:
    """Remove what does not count: former states, and the beginnings of killed writers."""
    used = set() if manifest is None else {manifest.folder}
    if manifest is not None and manifest.fast is not None:
        used.add(manifest.fast.file)
    for path in folder.iterdir():
        if path.name in used:
            continue
        if path.name.startswith(PREFIX):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith((FAST, ".index.json.")):
            path.unlink(missing_ok=True)


def only_remains(folder: Path) -> bool:
    """Whether a folder is empty, or holds what a killed ``create_empty`` left."""
    return all(
        path.name == "model" or path.name.startswith((PREFIX, FAST, "."))
        for path in folder.iterdir()
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process write; a second one is told so."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LookalikeError(f"another process is writing to '{folder}'") from None
        yield
