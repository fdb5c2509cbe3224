"""Files that are either whole or not there, and the folder they are kept in."""

import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import platformdirs

from lookalike.errors import BadInput

__all__ = ["cache_folder", "written_whole"]

_ABANDONED_SECONDS = 3600


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
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sweep(path: Path) -> None:
    """Remove what killed processes left of ``path``; one at work writes more often than hourly."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                left.unlink()
