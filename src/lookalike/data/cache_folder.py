"""Where decoded images and drawn glyphs are kept."""

import glob
import os
import time
from contextlib import suppress
from pathlib import Path

import platformdirs

from lookalike.errors import BadInput

__all__ = ["cache_folder", "remove_abandoned"]

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


def remove_abandoned(path: Path) -> None:
    """Remove drafts of ``path`` that killed processes left; one at work writes at least hourly."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError):
            if draft.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                draft.unlink()
