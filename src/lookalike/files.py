"""Writing files so that a reader, or a crash, never sees half of one."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["atomically", "write_json"]


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


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON, whole or not at all."""
    with atomically(path) as draft:
        draft.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
