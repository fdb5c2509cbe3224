"""Files that are either whole or not there, and the folder they are kept in."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import platformdirs

from lookalike.errors import BadInput

__all__ = ["cache_folder", "written_whole"]


def cache_folder(folder: Path | None = None) -> Path:
    """``folder``, else the environment variable LOOKALIKE_CACHE, else the user's cache folder."""
    usual = os.environ.get("LOOKALIKE_CACHE") or platformdirs.user_cache_dir("lookalike")
    chosen = folder or Path(usual)
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot use {chosen} as cache folder (LOOKALIKE_CACHE): {error}") from error
    return chosen


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears as ``path`` only when the block ends well, complete and on disk.

    It is written under a temporary name in the same folder, flushed to disk, then renamed, so a
    crash leaves at most a temporary file that nothing reads, and two processes that write the
    same path do no harm: the last one wins with the same content.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
