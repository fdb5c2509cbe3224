"""Writing files so that a reader, or a crash, never sees half of one."""

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["atomically", "one_at_a_time", "write_json"]


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends without error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.chmod(0o644)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Let one process of this machine make ``path`` while the others wait, to find it made."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
    name = Path(tempfile.gettempdir()) / f"lookalike-{os.getuid()}-{digest}.lock"
    with name.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON, whole or not at all."""
    with atomically(path) as draft:
        draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_texts(path: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write a text for each suffix of ``path``, each whole or not at all; the paths in order."""
    written = []
    for suffix, text in texts.items():
        written.append(path.with_suffix(suffix))
        with atomically(written[-1]) as draft:
            draft.write_text(text, encoding="utf-8")
    return written
